"""Counts by eye on blind sheets."""

import json
from pathlib import Path
from typing import Any

import pytest
from helpers.fixtures import ROOT
from helpers.recipe_calls import run

from recipes.counts_by_eye import overlaps, percent, shares, table

KEY = {
    "1": {"model": "new", "hidden": "eyes", "person": "A"},
    "2": {"model": "old", "hidden": "eyes", "person": "A"},
    "3": {"model": "new", "hidden": "eyes", "person": "B"},
    "4": {"model": "old", "hidden": "eyes", "person": "B"},
}
FIRST = {"1": [2], "2": [1, 2, 3], "3": [], "4": [4]}
SECOND = {"4": [4], "1": [], "2": [3, 1], "3": [4, 1]}


def folders(tmp_path: Path, *judges: Any) -> list[Path]:
    (tmp_path / "lfw").mkdir()
    (tmp_path / "lfw" / "key.json").write_text(json.dumps(KEY))
    for i, counted in enumerate(judges):
        (tmp_path / f"judge-{i}").mkdir()
        (tmp_path / f"judge-{i}" / "lfw.json").write_text(json.dumps(counted))
    return [tmp_path / f"judge-{i}" for i in range(len(judges))]


def test_shares_and_agreement_by_hand(tmp_path: Path) -> None:
    judges = folders(tmp_path, FIRST, SECOND)
    out = tmp_path / "counts.json"
    call = run("counts_by_eye.py", "--sheets", tmp_path / "lfw", "--judges", *judges, "--n", 4, "--out", out)
    result = json.loads(out.read_text())
    # The new model has 1 and 2 flaws in 8 completions, the old one 4 and 3; both flagged 2 of row 2 and 1 of row 4.
    rows = "| lfw | eyes | new | 12, 25 % |\n| lfw | eyes | old | 50, 38 % |\n"
    assert table(result).endswith(rows) and rows in call.stdout
    assert overlaps(result) == ["3 of 7"] and "either flagged: 3 of 7" in call.stdout
    assert result["sheets"]["lfw"]["2"] == {**KEY["2"], "flawed": [[1, 2, 3], [1, 3]]}


@pytest.mark.parametrize(
    ("counted", "message"),
    [
        ({name: FIRST[name] for name in "124"}, "different rows: 3: count every row once"),
        ({**FIRST, "5": []}, "different rows: 5"),
        ({**FIRST, "3": [5]}, "has [5] in row 3: give different numbers from 1 to 4"),
        ({**FIRST, "3": [1, 1]}, "give different numbers from 1 to 4"),
        ({**FIRST, "3": 2}, "has 2 in row 3: give different numbers from 1 to 4"),
        ({**FIRST, "left": [1]}, "different rows: left"),
        ([[2], [1]], "has no counts: give the flawed completions by row"),
    ],
)
def test_a_forgotten_row_or_a_wrong_number_is_refused(tmp_path: Path, counted: Any, message: str) -> None:
    judges = folders(tmp_path, FIRST, counted)
    out = tmp_path / "counts.json"
    call = run("counts_by_eye.py", "--sheets", tmp_path / "lfw", "--judges", *judges, "--n", 4, "--out", out)
    assert call.returncode == 2 and message in call.stderr and not out.exists()


def test_the_page_of_faces64_shows_the_published_counts() -> None:
    folder = ROOT / "docs" / "results"
    result = json.loads((folder / "faces64" / "eye_counts.json").read_text())
    assert result["n"] == 8 and all(len(rows) == 96 for rows in result["sheets"].values())
    page = (folder / "faces64.md").read_text()
    found = shares(result)

    def cells(hidden: str, column: str) -> str:
        sheets, model = column.split()
        return percent(found[sheets, hidden, model])

    for hidden, words in (("eyes", "both eyes"), ("sides", "left or right half")):
        first, new, others = (
            cells(hidden, sheets) for sheets in ("lfw_models first", "lfw_models new", "other_temperatures t1")
        )
        for people, ending in (("LFW", f" | {first} | {new} |\n"), ("CelebA and UTKFace", f" | | {others} |\n")):
            row = page.index(f"| {people}, {words} |")
            assert page[row : page.index("\n", row) + 1].endswith(ending)
    for sheets, people in (("lfw", "LFW"), ("other", "CelebA and UTKFace")):
        for model, temperature in (("t1", "1"), ("t0.7", ".7")):
            eyes, sides = (cells(hidden, f"{sheets}_temperatures {model}") for hidden in ("eyes", "sides"))
            assert f"| {people}, {temperature} | G, H | {eyes} | {sides} |\n" in page
    assert f"both flagged {overlaps(result)[0]}" in " ".join(page.split())
