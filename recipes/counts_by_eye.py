"""Put together what people or programs counted by eye on blind sheets, and print the shares by model.

    python recipes/sheets_side_by_side.py ... --hide eyes sides --blind --out out/lfw
    python recipes/counts_by_eye.py --sheets out/lfw --judges out/first-judge out/second-judge --out out/counts.json

A judge sees the pages of out/lfw, but not key.json, and writes out/first-judge/lfw.json: the numbers of the completions
with a flaw, by row, as in {"1": [], "2": [3, 7]}. Every row must be there, so that none is forgotten.
"""

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from statistics import mean
from typing import Any

from condvae.runtime.atomic import write_text
from condvae.runtime.scripts import run_script

sys.path.insert(0, str(Path(__file__).parents[1]))
from recipes.pages import compact, markdown

FORMAT = "condvae counts by eye"


@dataclass(frozen=True, kw_only=True)
class Options:
    """Put together what was counted by eye on blind sheets."""

    sheets: tuple[Path, ...]
    """Folders that `sheets_side_by_side.py --blind` wrote."""
    judges: tuple[Path, ...]
    """A folder for each judge, with a JSON file for each folder of sheets."""
    n: int = 8
    """How many completions are in a row."""
    out: Path = Path("out/counts_by_eye.json")


def main(options: Options) -> None:
    result: dict[str, Any] = {"format": FORMAT, "n": options.n, "sheets": {}}
    for folder in options.sheets:
        key = json.loads((folder / "key.json").read_text())
        counted = [counts_in(judge / f"{folder.name}.json", key, options.n) for judge in options.judges]
        result["sheets"][folder.name] = {
            number: {**about, "flawed": [one[number] for one in counted]} for number, about in key.items()
        }
    write_text(options.out, f"{compact(result, levels=3)}\n")
    print(table(result))
    for overlap in overlaps(result):
        print(f"flagged by both judges, of those that either flagged: {overlap}")


def counts_in(path: Path, key: Mapping[str, Any], n: int) -> dict[str, list[int]]:
    """Read the flawed completions of each row. Raise ValueError if a row or completion is missing or does not exist."""
    found = json.loads(path.read_text())
    if not isinstance(found, dict):
        raise ValueError(f'{path} has no counts: give the flawed completions by row, as in {{"1": [], "2": [3, 7]}}')
    if differing := sorted(set(found) ^ set(key), key=lambda row: (len(row), row)):
        raise ValueError(f"{path} and the sheets have different rows: {', '.join(differing)}: count every row once")
    for number, flawed in found.items():
        if not isinstance(flawed, list) or any(flawed.count(one) > 1 or one not in range(1, n + 1) for one in flawed):
            raise ValueError(f"{path} has {flawed} in row {number}: give different numbers from 1 to {n}")
    return {number: sorted(flawed) for number, flawed in found.items()}


def shares(result: Mapping[str, Any]) -> dict[tuple[str, str, str], list[float]]:
    """Return the share of flawed completions that each judge counted, by sheets, hole and model."""
    groups: dict[tuple[str, str, str], list[list[list[int]]]] = {}
    for name, rows in result["sheets"].items():
        for row in rows.values():
            groups.setdefault((name, row["hidden"], row["model"]), []).append(row["flawed"])
    return {
        about: [mean(len(flawed) / result["n"] for flawed in judge) for judge in zip(*rows, strict=True)]
        for about, rows in sorted(groups.items())
    }


def percent(judges: Sequence[float]) -> str:
    """Format the shares of all judges, such as "9, 10 %"."""
    return ", ".join(f"{100 * share:.0f}" for share in judges) + " %"


def table(result: Mapping[str, Any]) -> str:
    """Return a table of the shares, with a row for each of the sheets, each hole and each model."""
    rows = [[*about, percent(judges)] for about, judges in shares(result).items()]
    return markdown(["sheets", "hidden", "model", "flawed, by judge"], rows)


def overlaps(result: Mapping[str, Any]) -> list[str]:
    """Return for each pair of judges how many of the completions that either of them flagged were flagged by both.

    Agreement over all completions would say little: where flaws are rare, judges agree by chance about most of them.
    """
    rows = [[set(judge) for judge in row["flawed"]] for sheets in result["sheets"].values() for row in sheets.values()]
    found = []
    for one, other in combinations(range(len(rows[0])), 2):
        both = sum(len(row[one] & row[other]) for row in rows)
        either = sum(len(row[one] | row[other]) for row in rows)
        found.append(f"{both} of {either}")
    return found


if __name__ == "__main__":
    run_script(main, Options, __doc__)
