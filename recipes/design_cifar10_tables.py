"""Tables of recipes/design_cifar10.py: accuracy and log g of the true class after each scan, and paired differences."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from recipes.design_comparison import OURS, TITLES
from recipes.pages import markdown, short

CLEAR = 2
"""A difference is clear if it is more than this many standard errors away from 0."""
NAMES = {"accuracy": "cifar10-accuracy", "log_score": "cifar10-log-g"}
"""The name of each measure's table."""


def without_times(result: Mapping[str, Any]) -> dict[str, Any]:
    """Remove the seconds of the policies and the folders of the measuring machine.

    The seconds are not comparable, since other work may have used the same device.
    """
    times = ("seconds", "drawing_seconds")
    policies = {
        policy: {key: value for key, value in found.items() if key not in times}
        for policy, found in result["policies"].items()
    }
    options = {key: value for key, value in result["options"].items() if key != "out"}
    for key in ("data", "model", "classifier"):
        if options[key] is not None:
            options[key] = Path(options[key]).name
    options["against"] = [without_folder(model) for model in options["against"]]
    return {**result, "options": options, "policies": policies}


def without_folder(model: str) -> str:
    """Shorten the path in NAME=PATH, or in PATH alone, to its last part."""
    name, equals, path = model.partition("=")
    return f"{name}={Path(path).name}" if equals else Path(model).name


def cifar10_tables(result: Mapping[str, Any]) -> dict[str, str]:
    """Return the tables of each measure and of its differences, by the name of the table."""
    writers: Mapping[str, tuple[Callable[[float], str], Callable[[float], str]]] = {
        "accuracy": (lambda value: f"{value:.1f}", lambda value: f"{value:+.1f}"),
        "log_score": (lambda value: short(value, 3), lambda value: short(value, 3, "+")),
    }
    tables = {}
    for measure, (plain, signed) in writers.items():
        tables[NAMES[measure]] = of_policies(result, measure, plain)
        tables[f"{NAMES[measure]}-differences"] = of_differences(result, measure, plain, signed)
    return tables


def of_policies(result: Mapping[str, Any], measure: str, write: Callable[[float], str]) -> str:
    """Return a table of one measure by policy and number of scans, with standard errors."""
    whole = result["whole"][measure]

    def cells(found: Mapping[str, Any]) -> list[str]:
        pairs = zip(found["mean"], found["standard_error"], strict=True)
        return [f"{write(mean)} ± {write(error)}" for mean, error in pairs]

    rows = [[policy, *cells(found[measure]), *cells(whole)] for policy, found in result["policies"].items()]
    return markdown([f"{TITLES[measure]}, by number of scans", *map(str, result["scans"]), "whole picture"], rows)


def of_differences(
    result: Mapping[str, Any], measure: str, write: Callable[[float], str], write_signed: Callable[[float], str]
) -> str:
    """Return a table of eig-ipa minus every other policy, with standard errors. Clear differences are bold.

    The column of 0 scans is left out: all policies are equal there.
    """
    rows = []
    for pair, found in result["differences"].items():
        row = [pair.removeprefix(f"{OURS} - ")]
        for mean, error in list(zip(found[measure]["mean"], found[measure]["standard_error"], strict=True))[1:]:
            text = f"{write_signed(mean)} ± {write(error)}" if error else "0"
            row.append(f"**{text}**" if clear(mean, error) else text)
        rows.append(row)
    head = [f"{TITLES[measure]}: {OURS} minus ..., by number of scans", *map(str, result["scans"][1:])]
    return markdown(head, rows)


def clear(mean: float, error: float) -> bool:
    """Return whether a difference is more than two standard errors away from 0."""
    return abs(mean) > CLEAR * error
