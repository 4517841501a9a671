"""The report as tables: CSV in long form, Markdown for people."""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, TypeAlias

from condvae.experiments.ood.plan import MEAN, WHOLE
from condvae.experiments.reporting import cell_text, section
from condvae.runtime.formats import csv_text

OODRow: TypeAlias = tuple[str, str, str, float | None, float | None, float | None]

_signed = partial(cell_text, signed=True)


def rows(result: Mapping[str, Any]) -> Iterator[OODRow]:
    """(method, set, hidden, mean, low, high): everything that was measured, and differences of methods."""
    found = {name: one["auroc"] for name, one in result["methods"].items()} | result["differences"]
    for method, by_set in found.items():
        for name, cells in by_set.items():
            for column, cell in zip(result["columns"], cells, strict=True):
                yield method, name, column, cell["mean"], cell["low"], cell["high"]


def as_csv(result: Mapping[str, Any]) -> str:
    """Long form; empty where there is no number."""
    return csv_text(("method", "set", "hidden", "auroc", "low", "high"), rows(result))


def as_markdown(result: Mapping[str, Any]) -> str:
    """The tables that a person reads."""
    settings, versions = result["settings"], result["versions"]
    sets = ", ".join(f"{name} {one['images']:,}" for name, one in result["sets"].items())
    lines = [
        "# Telling strange images from ordinary ones",
        "",
        f"AUROC of {result['images']:,} test images of {result['data']} against others: {sets}. Columns are shares of "
        f"each image that are hidden, their {MEAN}, and {WHOLE}: nothing is hidden, and z comes from q(z | x). "
        f"Densities are fitted to {settings['fit_images']:,} training images. In brackets: 95 % intervals over "
        f"{settings['resamples']:,} resamples of the images{_together(result)}. Seed {settings['seed']}; condvae "
        f"{versions['condvae']}, torch {versions['torch']}, {result['device']}.",
        "",
    ]
    fewer = sorted({found["images"] for found in result["methods"].values()} - {result["images"]})
    for count in fewer:
        some = [name for name, found in result["methods"].items() if found["images"] == count]
        lines += [f"On {count:,} of the images: {', '.join(some)}.", ""]
    for column in (MEAN, WHOLE):
        what = "mean over hidden shares" if column == MEAN else "whole images"
        lines += _by_set(result, column, f"AUROC, {what}")
    lines += _differences(result)
    for name in result["means"] | result["sets"]:
        body = [[method, *map(cell_text, found["auroc"][name])] for method, found in result["methods"].items()]
        lines += section(f"AUROC: {name}", ["hidden", *result["columns"]], body)
    lines += _speed(result)
    return "\n".join(lines).rstrip() + "\n"


def _together(result: Mapping[str, Any]) -> str:
    paired = [name for name, one in result["sets"].items() if one["paired"]]
    whole = ", all of a patient together" if result["patients"] is not None else ""
    return whole + (f", {', '.join(paired)} with the images that they are made of" if paired else "")


def _by_set(result: Mapping[str, Any], column: str, title: str) -> list[str]:
    """A row for each method, a column for each set: the paper's table."""
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
    return section("Differences of AUROC, mean over hidden shares", ["", *names], body) if body else []


def _speed(result: Mapping[str, Any]) -> list[str]:
    body = [
        [name, f"{one['images']:,}", f"{one['seconds']:.1f}", f"{one['images'] / max(one['seconds'], 1e-9):,.0f}"]
        for name, one in result["readings"].items()
    ]
    return section("What was measured", ["", "images", "seconds", "images/s"], body)
