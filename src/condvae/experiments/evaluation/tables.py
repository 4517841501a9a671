"""Format the report as CSV, with one number per row, and as Markdown tables."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from condvae.experiments.evaluation.plan import MIXTURE
from condvae.experiments.evaluation.summary import ALL, BOUNDS, COLUMNS
from condvae.experiments.reporting import section
from condvae.runtime.formats import csv_text


class Metric(NamedTuple):
    """How a metric is shown in a table."""

    title: str
    digits: int = 4
    percent: bool = False


TABLES: dict[str, Metric] = {
    "fid": Metric("FID, lower is better", 2),
    "cfid": Metric("CFID, conditional on the observation, lower is better", 2),
    "kid": Metric("KID, lower is better (± is the standard deviation over subsets)"),
    "p_ids": Metric("P-IDS, higher is better", 1, percent=True),
    "u_ids": Metric("U-IDS, higher is better", 1, percent=True),
    "lpips_gt": Metric("LPIPS-GT, nearest of K completions, lower is better"),
    "lpips_diversity": Metric("LPIPS diversity, mean distance of two completions"),
    "crps_lpips": Metric("CRPS of LPIPS features, lower is better", 3),
    "crps_pixels": Metric("CRPS of hidden pixels (white is 1), lower is better"),
    "best_mse": Metric("MSE of the best of K completions over all pixels (white is 1), lower is better", 5),
    "psnr_of_mean": Metric("PSNR of the mean completion over all pixels, dB, higher is better", 2),
    "ssim_of_mean": Metric("SSIM of the mean completion over all pixels, higher is better"),
    "leaning@white": Metric("Leaning, white projections (above 0: overconfident, below 0: underconfident)", 3),
    "leaning@smooth": Metric("Leaning, smooth projections (above 0: overconfident, below 0: underconfident)", 3),
    "bits_per_dim": Metric("Bits per dimension of 8-bit images, VAE alone (-ELBO)"),
    "bits_per_dim_native": Metric("Bits per dimension under the VAE's own likelihood (-ELBO)"),
    "forward_kl_nats_per_dim": Metric("Forward KL, nats per dimension, lower is better"),
    **{
        name + kind: Metric(f"{title} ({bound})", digits)
        for name, title, digits in (
            ("hidden_bits_per_dim", "Bits per hidden dimension", 4),
            ("hidden_nats", "Nats per image of the hidden pixels", 1),
            ("whole_bits_per_dim", "Bits per dimension of the whole image given y", 4),
            ("whole_nats", "Nats per image of the whole image given y", 1),
        )
        for kind, bound in BOUNDS.items()
    },
}
"""The tables of the report, in this order. Their rows are methods, their columns are the bins and the mixture."""
CURVES = {
    "lpips_gt": "LPIPS-GT in the mixture of bins, by the number of completions",
    "fwv": "Faithfulness-weighted variance in the mixture of bins, by sigma",
}
"""Metrics with a parameter. Each gets a table for the mixture of bins, with one column per value of the parameter."""


def rows(result: Mapping[str, Any]) -> Iterator[tuple[str, str, str, float | None, float | None]]:
    """Yield everything that was measured as (method, metric, bin, mean, standard error)."""
    for group in ("methods", "models"):
        for name, found in result[group].items():
            for metric, columns in found["metrics"].items():
                for column, cell in columns.items():
                    yield name, metric, column, cell["mean"], cell["standard_error"]


def as_csv(result: Mapping[str, Any]) -> str:
    """Return the CSV, with one number per row; a field is empty where there is no number."""
    return csv_text(("method", "metric", "bin", "mean", "standard_error"), rows(result))


def as_markdown(result: Mapping[str, Any]) -> str:
    """Return the Markdown page with all tables."""
    settings = result["settings"]
    lines = [
        "# Evaluation",
        "",
        f"{settings['images']:,} test images of {result['data']} completed once, {settings['deep_images']:,} of them "
        f"{settings['k']} times, in each of five bins of the hidden share; seed {settings['seed']}. Numbers are means "
        "± standard errors over images. " + _made_by(result),
        "",
        *_of_pixels(result["methods"]),
    ]
    notes = dict.fromkeys(("p_ids", "u_ids"), too_few_for_ids(result)) | {"cfid": too_few_for_cfid(result)}
    everything = {**result["methods"], **result["models"]}
    for name, metric in TABLES.items():
        having = {method: found["metrics"][name] for method, found in everything.items() if name in found["metrics"]}
        if having:
            note = f" ({notes[name]})" if notes.get(name) else ""
            lines += _table(metric._replace(title=metric.title + note), having)
    for prefix, title in CURVES.items():
        lines += _curves(prefix, title, result["methods"])
    for kind in ("white", "smooth", "reference"):
        lines += _verdicts(kind, result["methods"])
    lines += _budgets(result["models"])
    return "\n".join(lines).rstrip() + "\n"


def _made_by(result: Mapping[str, Any]) -> str:
    versions, networks = result["versions"], result["networks"]
    used = f", LPIPS on {networks['lpips']}" if networks.get("lpips") else ""
    return f"condvae {versions['condvae']}, torch {versions['torch']}, {result['device']}{used}."


def _of_pixels(methods: Mapping[str, Any]) -> list[str]:
    """If there is a model, return lines that explain whether its completions show pixel means or pixel samples."""
    if not any("pixels" in found for found in methods.values()):
        return []
    return [
        'Completions of a model show means of its pixel distributions, unless its name contains "sample pixels". '
        "If the likelihood has a noise floor, means lack its noise and look overconfident in white projections.",
        "",
    ]


def too_few_for_ids(result: Mapping[str, Any]) -> str:
    """Return a warning if there are too few images for P-IDS and U-IDS, otherwise an empty string."""
    images, features = _wide_sizes(result)
    if images >= 3 * features:
        return ""
    return f"close to 0 for every method: {images:,} images are too few for {features:,} features"


def too_few_for_cfid(result: Mapping[str, Any]) -> str:
    """Return a warning if there are too few images for CFID, otherwise an empty string."""
    images, features = _wide_sizes(result)
    if images >= 2 * features or not any("cfid" in found["metrics"] for found in result["methods"].values()):
        return ""
    return f"strongly biased: {images:,} images are too few for {features:,} features"


def _wide_sizes(result: Mapping[str, Any]) -> tuple[int, int]:
    """Return the number of images with one completion, and of their Inception features, 0 if there are none."""
    features = max((found.get("features", 0) for found in result["methods"].values()), default=0)
    return result["settings"]["images"], features


def _table(metric: Metric, having: Mapping[str, Any]) -> list[str]:
    columns = [column for column in (*COLUMNS, ALL) if any(column in found for found in having.values())]
    body = [[name, *(_cell(found.get(column), metric) for column in columns)] for name, found in having.items()]
    return section(metric.title, ["hidden share", *columns], body)


def _cell(estimate: Mapping[str, float | None] | None, metric: Metric) -> str:
    if estimate is None or estimate["mean"] is None:
        return "-"
    scale = 100 if metric.percent else 1
    error = estimate["standard_error"]
    text = f"{scale * estimate['mean']:.{metric.digits}f}"
    text += "" if error is None else f" ± {scale * error:.{metric.digits}f}"
    return text + (" %" if metric.percent else "")


def _curves(prefix: str, title: str, methods: Mapping[str, Any]) -> list[str]:
    having = {
        name: {key.partition("@")[2]: cell[MIXTURE] for key, cell in found["metrics"].items() if f"{prefix}@" in key}
        for name, found in methods.items()
    }
    parameters = list(dict.fromkeys(key for found in having.values() for key in found))
    if not parameters:
        return []
    body = [[name, *(_cell(found.get(p), Metric(title)) for p in parameters)] for name, found in having.items()]
    return section(title, ["", *parameters], body)


def _verdicts(kind: str, methods: Mapping[str, Any]) -> list[str]:
    """Tabulate the calibration error, the error that is expected by chance, and the verdict."""
    having = {name: found["coverage"][kind] for name, found in methods.items() if found.get("coverage")}
    if not having:
        return []

    def cell(found: Mapping[str, Any]) -> str:
        return f"{found['error']:.3f} ({found['error_by_chance']:.3f}) {found['verdict']}"

    body = [[name, *(cell(found[column]) for column in COLUMNS)] for name, found in having.items()]
    what = "LPIPS distances to reference images (TARP)" if kind == "reference" else f"{kind} projections"
    return section(
        f"Calibration error, {what}, lower is better (in brackets: expected by chance)",
        ["hidden share", *COLUMNS],
        body,
    )


def _budgets(models: Mapping[str, Any]) -> list[str]:
    if not models:
        return []
    body = []
    for name, found in models.items():
        minutes = "; ".join(f"{part} {spent:g}" for part, spent in found["training_minutes"].items())
        device = found["record"].get("device", "")
        body.append([name, f"{found['parameters']:,}", found["likelihood"], minutes or "not recorded", str(device)])
    return section("Models", ["", "parameters", "likelihood", "minutes of training", "device"], body)
