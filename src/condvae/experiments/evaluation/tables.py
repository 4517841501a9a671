"""Format the report as CSV, with one number per row, and as Markdown tables."""

from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

from condvae.experiments.evaluation.group_tables import group_sections
from condvae.experiments.evaluation.plan import MIXTURE
from condvae.experiments.evaluation.shown_metrics import TABLES, Metric, calibration_cell, calibration_title, cell
from condvae.experiments.evaluation.summary import ALL, COLUMNS, COVERAGES, SET_METRICS
from condvae.experiments.reporting import section
from condvae.runtime.formats import csv_text

Row: TypeAlias = tuple[str, str, str, float | None, float | None, str, int]
"""A row of the CSV: method, metric, bin, mean, standard error, group (or "" for all images) and number of images."""
CURVES = {
    "lpips_gt": "LPIPS-GT in the mixture of bins, by the number of completions",
    "fwv": "Faithfulness-weighted variance in the mixture of bins, by sigma",
}
"""Metrics with a parameter. Each gets a table for the mixture of bins, with one column per value of the parameter."""


def rows(result: Mapping[str, Any]) -> Iterator[Row]:
    """Yield everything that was measured, for the whole test set and then for its groups."""
    for kind in ("methods", "models"):
        for name, found in result[kind].items():
            for group, part in {"": found, **found.get("groups", {})}.items():
                counts = result["groups"][group] if group else result["settings"]
                for metric, columns in part["metrics"].items():
                    for column, one in columns.items():
                        images = counts[_images_of(metric, column)]
                        yield name, metric, column, one["mean"], one["standard_error"], group, images


def _images_of(metric: str, column: str) -> str:
    """Return which of the numbers of images in the report is the one of a metric."""
    return "images" if metric in SET_METRICS else "bits_images" if column == ALL else "deep_images"


def as_csv(result: Mapping[str, Any]) -> str:
    """Return the CSV, with one number per row; a field is empty where there is no number, and for no group."""
    return csv_text(("method", "metric", "bin", "mean", "standard_error", "group", "images"), rows(result))


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
    for kind in COVERAGES:
        lines += _verdicts(kind, result["methods"])
    lines += group_sections(result)
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
    body = [[name, *(cell(found.get(column), metric) for column in columns)] for name, found in having.items()]
    return section(metric.title, ["hidden share", *columns], body)


def _curves(prefix: str, title: str, methods: Mapping[str, Any]) -> list[str]:
    having = {
        name: {
            key.partition("@")[2]: columns[MIXTURE] for key, columns in found["metrics"].items() if f"{prefix}@" in key
        }
        for name, found in methods.items()
    }
    parameters = list(dict.fromkeys(key for found in having.values() for key in found))
    if not parameters:
        return []
    body = [[name, *(cell(found.get(p), Metric(title)) for p in parameters)] for name, found in having.items()]
    return section(title, ["", *parameters], body)


def _verdicts(kind: str, methods: Mapping[str, Any]) -> list[str]:
    """Tabulate the calibration error, the error that is expected by chance, and the verdict."""
    having = {name: found["coverage"][kind] for name, found in methods.items() if found.get("coverage")}
    if not having:
        return []
    body = [[name, *(calibration_cell(found[column]) for column in COLUMNS)] for name, found in having.items()]
    return section(calibration_title(kind), ["hidden share", *COLUMNS], body)


def _budgets(models: Mapping[str, Any]) -> list[str]:
    if not models:
        return []
    body = []
    for name, found in models.items():
        minutes = "; ".join(f"{part} {spent:g}" for part, spent in found["training_minutes"].items())
        device = found["record"].get("device", "")
        body.append([name, f"{found['parameters']:,}", found["likelihood"], minutes or "not recorded", str(device)])
    return section("Models", ["", "parameters", "likelihood", "minutes of training", "device"], body)
