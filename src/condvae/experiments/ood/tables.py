"""Write the report's tables as CSV, with one row per number, and as Markdown for reading."""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, TypeAlias

from condvae.experiments.ood.plan import MEAN, WHOLE
from condvae.experiments.reporting import cell_text, section
from condvae.runtime.formats import csv_text

OODRow: TypeAlias = tuple[str, str, str, float | None, float | None, float | None]

_signed = partial(cell_text, signed=True)


def rows(result: Mapping[str, Any]) -> Iterator[OODRow]:
    """Yield (method, set, hidden share, mean, low, high) for every AUROC and every difference between AUROCs."""
    found = {name: one["auroc"] for name, one in result["methods"].items()} | result["differences"]
    for method, by_set in found.items():
        for name, cells in by_set.items():
            for column, cell in zip(result["columns"], cells, strict=True):
                yield method, name, column, cell["mean"], cell["low"], cell["high"]


def as_csv(result: Mapping[str, Any]) -> str:
    """Return a CSV table with one row per AUROC or difference; missing numbers are empty cells."""
    return csv_text(("method", "set", "hidden", "auroc", "low", "high"), rows(result))


def as_markdown(result: Mapping[str, Any]) -> str:
    """Return the whole report as Markdown: a description of the experiment, then all tables."""
    settings, versions = result["settings"], result["versions"]
    sets = ", ".join(f"{name} {one['images']:,}" for name, one in result["sets"].items())
    lines = [
        "# How well scores separate strange from ordinary images",
        "",
        f"AUROC of {result['images']:,} test images of {result['data']} against sets of strange images: {sets}. The "
        f"columns are ranges of the hidden share, their {MEAN}, and {WHOLE}: no pixel is hidden, and the latents come "
        f"from q(z | x). Densities are fitted to {settings['fit_images']:,} training images. Brackets hold 95 % "
        f"intervals over {settings['resamples']:,} bootstrap resamples of the images{_together(result)}. Seed "
        f"{settings['seed']}; condvae {versions['condvae']}, torch {versions['torch']}, {result['device']}.",
        "",
    ]
    fewer = sorted({found["images"] for found in result["methods"].values()} - {result["images"]})
    for count in fewer:
        some = [name for name, found in result["methods"].items() if found["images"] == count]
        lines += [f"Measured on only {count:,} of the images: {', '.join(some)}.", ""]
    for column in (MEAN, WHOLE):
        what = "mean over ranges of the hidden share" if column == MEAN else "whole images"
        lines += _by_set(result, column, f"AUROC, {what}")
    lines += _differences(result)
    for name in result["means"] | result["sets"]:
        body = [[method, *map(cell_text, found["auroc"][name])] for method, found in result["methods"].items()]
        lines += section(f"AUROC: {name}", ["hidden share", *result["columns"]], body)
    lines += _speed(result)
    return "\n".join(lines).rstrip() + "\n"


def _together(result: Mapping[str, Any]) -> str:
    """Return a clause for the report that states which images are resampled together, or "" if none are."""
    rules = ["all images of a patient stay together"] if result["patients"] is not None else []
    if paired := ", ".join(name for name, one in result["sets"].items() if one["paired"]):
        rules.append(f"images of {paired} stay together with the test images they are made from")
    return f", in which {' and '.join(rules)}" if rules else ""


def _by_set(result: Mapping[str, Any], column: str, title: str) -> list[str]:
    """Return the lines of a table of AUROCs in one column of the result, with a row per method and a column per set."""
    at, names = result["columns"].index(column), [*result["sets"], *result["means"]]
    body = [
        [method, *(cell_text(found["auroc"][name][at]) for name in names)]
        for method, found in result["methods"].items()
        if any(found["auroc"][name][at]["mean"] is not None for name in names)
    ]
    return section(title, ["", *names], body) if body else []


def _differences(result: Mapping[str, Any]) -> list[str]:
    at, names = result["columns"].index(MEAN), [*result["sets"], *result["means"]]
    body = [[pair, *(_signed(found[name][at]) for name in names)] for pair, found in result["differences"].items()]
    return section("Differences of AUROC, mean over ranges of the hidden share", ["", *names], body) if body else []


def _speed(result: Mapping[str, Any]) -> list[str]:
    body = [
        [name, f"{one['images']:,}", f"{one['seconds']:.1f}", f"{one['images'] / max(one['seconds'], 1e-9):,.0f}"]
        for name, one in result["readings"].items()
    ]
    return section("Speed of each kind of features", ["", "images", "seconds", "images/s"], body)
