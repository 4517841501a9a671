"""The report as files: JSON for programs, CSV in long form, Markdown for people."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from condvae.experiments.evaluation.plan import MIXTURE
from condvae.experiments.evaluation.summary import ALL, BOUNDS, COLUMNS
from condvae.experiments.reporting import section
from condvae.runtime.formats import csv_text


class Metric(NamedTuple):
    """How a metric is shown."""

    title: str
    digits: int = 4
    percent: bool = False


TABLES: dict[str, Metric] = {
    "fid": Metric("FID, less is better", 2),
    "kid": Metric("KID, less is better (the error is the spread over subsets)"),
    "p_ids": Metric("P-IDS, more is better", 1, percent=True),
    "u_ids": Metric("U-IDS, more is better", 1, percent=True),
    "lpips_gt": Metric("LPIPS-GT, min over K, less is better"),
    "lpips_diversity": Metric("LPIPS diversity, mean over disjoint pairs"),
    "best_mse": Metric("MSE of the best of K over all pixels, white being 1, less is better", 5),
    "psnr_of_mean": Metric("PSNR of the mean of the completions over all pixels, dB, more is better", 2),
    "ssim_of_mean": Metric("SSIM of the mean of the completions over all pixels, more is better"),
    "leaning@white": Metric("Leaning, white projections: above 0 overconfident, below underconfident", 3),
    "leaning@smooth": Metric("Leaning, smooth projections", 3),
    "bits_per_dim": Metric("Bits per dimension of 8-bit images, the VAE alone (-ELBO)"),
    "bits_per_dim_native": Metric("Bits per dimension under the VAE's own likelihood"),
    "forward_kl_nats_per_dim": Metric("Forward KL, nats per dimension"),
    **{
        name + kind: Metric(f"{title} ({bound})", digits)
        for name, title, digits in (
            ("hidden_bits_per_dim", "Bits per hidden dimension", 4),
            ("hidden_nats", "Nats of the hidden pixels of an image", 1),
            ("whole_bits_per_dim", "Bits per dimension of the whole image given y", 4),
            ("whole_nats", "Nats of the whole image given y", 1),
        )
        for kind, bound in BOUNDS.items()
    },
}
"""A table for each, in this order: rows are methods, columns bins and their mixture."""
CURVES = {
    "lpips_gt": "LPIPS-GT in the mixture, by the number of completions",
    "fwv": "Faithfulness-weighted variance in the mixture, by sigma",
}
"""Metrics with a parameter: a table of their mixtures."""


def rows(result: Mapping[str, Any]) -> Iterator[tuple[str, str, str, float | None, float | None]]:
    """(method, metric, bin, mean, standard error), everything that was measured."""
    for group in ("methods", "models"):
        for name, found in result[group].items():
            for metric, columns in found["metrics"].items():
                for column, cell in columns.items():
                    yield name, metric, column, cell["mean"], cell["standard_error"]


def as_csv(result: Mapping[str, Any]) -> str:
    """Long form; empty where there is no number."""
    return csv_text(("method", "metric", "bin", "mean", "standard_error"), rows(result))


def as_markdown(result: Mapping[str, Any]) -> str:
    """The tables that a person reads."""
    settings = result["settings"]
    lines = [
        "# Evaluation",
        "",
        f"{settings['images']:,} test images of {result['data']} completed once, {settings['deep_images']:,} of them "
        f"{settings['k']} times, in five ranges of the hidden share; seed {settings['seed']}. Means ± standard errors "
        "over images. " + _made_by(result),
        "",
        *_of_pixels(result["methods"]),
    ]
    few = too_few_for_ids(result)
    everything = {**result["methods"], **result["models"]}
    for name, metric in TABLES.items():
        having = {method: found["metrics"][name] for method, found in everything.items() if name in found["metrics"]}
        if having:
            note = f" ({few})" if few and name in ("p_ids", "u_ids") else ""
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
    """Which pixels a model's completions have, where there are any."""
    if not any("pixels" in found for found in methods.values()):
        return []
    return [
        'Completions of a model are means of its pixel distributions, unless "sample pixels" stands in the name: where '
        "these have a noise floor, means lean to overconfidence in white projections.",
        "",
    ]


def too_few_for_ids(result: Mapping[str, Any]) -> str:
    """What is to be said of P-IDS and U-IDS if a classifier tells so few images apart in any case; else nothing."""
    features = max((found.get("features", 0) for found in result["methods"].values()), default=0)
    images = result["settings"]["images"]
    return f"near 0 for everybody: {images:,} images, {features:,} features" if images < 3 * features else ""


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
    """The calibration error beside what chance alone gives, and what it comes from."""
    having = {name: found["coverage"][kind] for name, found in methods.items() if found.get("coverage")}
    if not having:
        return []

    def cell(found: Mapping[str, Any]) -> str:
        return f"{found['error']:.3f} (chance {found['error_by_chance']:.3f}) {found['verdict']}"

    body = [[name, *(cell(found[column]) for column in COLUMNS)] for name, found in having.items()]
    what = "LPIPS to references (TARP)" if kind == "reference" else f"{kind} projections"
    return section(f"Calibration error, {what}, less is better", ["hidden share", *COLUMNS], body)


def _budgets(models: Mapping[str, Any]) -> list[str]:
    if not models:
        return []
    body = []
    for name, found in models.items():
        minutes = "; ".join(f"{part} {spent:g}" for part, spent in found["training_minutes"].items())
        device = found["record"].get("device", "")
        body.append([name, f"{found['parameters']:,}", found["likelihood"], minutes or "not recorded", str(device)])
    return section("Models", ["", "weights", "likelihood", "minutes of training", "on"], body)
