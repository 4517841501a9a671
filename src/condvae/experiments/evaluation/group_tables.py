"""Markdown tables of groups of test images, with one row per group and one column per method."""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from condvae.experiments.evaluation.plan import MIXTURE
from condvae.experiments.evaluation.shown_metrics import TABLES, Metric, calibration_cell, calibration_title, cell
from condvae.experiments.evaluation.summary import ALL, COVERAGES
from condvae.experiments.reporting import section

SHOWN = {**TABLES, "lpips_gt@1": Metric("LPIPS-GT of one completion, lower is better")}
"""The metrics that have a table by group, if they were measured for single images."""
WHOLE = "all test images"
"""The label of the row for the whole test set."""


def group_sections(result: Mapping[str, Any]) -> list[str]:
    """Return the lines of all tables by group, in the mixture of bins; none if the report has no groups."""
    groups = result.get("groups", {})
    if not groups:
        return []
    counts = [
        [name, _code(found["patterns"]), f"{found['test_images']:,}", f"{found['deep_images']:,}"]
        for name, found in groups.items()
    ]
    counts.append([WHOLE, "", "", f"{result['settings']['deep_images']:,}"])
    lines = section("Groups of test images", ["", "patterns of file names", "test images", "deep images"], counts)
    everything = {**result["methods"], **result["models"]}
    for metric, shown in SHOWN.items():
        having = {name: found for name, found in everything.items() if _in_a_group(found, metric)}
        lines += _by_group(shown.title, having, groups, partial(_mean, metric=metric, shown=shown))
    for kind in COVERAGES:
        having = {name: found for name, found in result["methods"].items() if "coverage" in found}
        lines += _by_group(calibration_title(kind), having, groups, partial(_calibration, kind=kind))
    return lines


def _by_group(
    title: str, methods: Mapping[str, Any], groups: Iterable[str], text: Callable[[Mapping[str, Any]], str]
) -> list[str]:
    """Tabulate a number of each method: a row for the whole test set, and one for each group."""
    if not methods:
        return []
    body = [[WHOLE, *map(text, methods.values())]]
    for group in groups:
        body.append([group, *(text(found["groups"].get(group, {"metrics": {}})) for found in methods.values())])
    return section(f"By group: {title}", ["mixture of bins", *methods], body)


def _in_a_group(found: Mapping[str, Any], metric: str) -> bool:
    return any(metric in part["metrics"] for part in found.get("groups", {}).values())


def _mean(part: Mapping[str, Any], *, metric: str, shown: Metric) -> str:
    columns = part["metrics"].get(metric, {})
    return cell(columns.get(MIXTURE, columns.get(ALL)), shown)


def _calibration(part: Mapping[str, Any], *, kind: str) -> str:
    return calibration_cell(part["coverage"][kind][MIXTURE]) if "coverage" in part else "-"


def _code(patterns: Iterable[str]) -> str:
    return ", ".join(f"`{one}`" for one in patterns)
