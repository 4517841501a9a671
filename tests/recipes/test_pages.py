"""The tables of a results page match its raw numbers, and new numbers are stored completely or not at all."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from recipes import (
    baselines_results,
    design_results,
    edges_results,
    evaluation_results,
    ood_results,
    pages,
    pretraining_results,
)
from recipes.pages import Page, compact, draw, markdown, read, rounded, short, small_webp

PAGES = [
    evaluation_results.page_at(),
    design_results.page_at(),
    edges_results.page_at(),
    baselines_results.page_at(),
    ood_results.page_at(),
    pretraining_results.page_at(),
]


def one_table(raw: Mapping[str, Any]) -> dict[str, str]:
    return {"speed": markdown(["machine", "ms"], [[name, short(found["ms"], 1)] for name, found in raw.items()])}


@pytest.fixture
def page(tmp_path: Path) -> Page:
    path = tmp_path / "page.md"
    path.write_text("Words.\n<!-- table speed -->\nold\n<!-- end -->\nMore words.\n")
    path.with_suffix("").mkdir()
    return Page(path=path, tables=one_table)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.path.stem)
def test_the_tables_match_the_raw_numbers(page: Page) -> None:
    assert page.filled() == page.path.read_text()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.path.stem)
def test_raw_numbers_are_formatted_as_a_recipe_writes_them(page: Page) -> None:
    assert page.raw()
    for name, numbers in page.raw().items():
        assert (page.folder / f"{name}.json").read_text() == compact(numbers) + "\n", name


def test_new_numbers_are_stored_and_shown_with_the_old_ones(page: Page) -> None:
    page.update({"slow": {"ms": 20.25}})
    page.update({"fast": {"ms": 0.51}})
    table = "| machine | ms |\n| --- | --- |\n| fast | .5 |\n| slow | 20.2 |\n"
    assert page.path.read_text() == f"Words.\n<!-- table speed -->\n{table}<!-- end -->\nMore words.\n"
    assert page.raw() == {"slow": {"ms": 20.25}, "fast": {"ms": 0.51}}


def test_numbers_that_cannot_fill_a_table_change_nothing(page: Page) -> None:
    before = page.path.read_text()
    with pytest.raises(KeyError):
        page.update({"broken": {}})
    assert page.path.read_text() == before and not page.raw()


def test_a_page_without_a_mark_for_a_table_is_rejected(page: Page) -> None:
    page.path.write_text("Words.\n")
    with pytest.raises(ValueError, match="only in the recipe: speed"):
        page.filled()


def test_results_of_another_command_are_not_stored(page: Page, tmp_path: Path) -> None:
    made_by = {"fast": ("clock", "benchmarks/clock.py")}
    new = tmp_path / "new.json"
    new.write_text('{"format": "clock", "ms": 1.23456789}')
    page.store({"fast": new, "slow": None}, made_by)
    assert page.raw() == {"fast": {"format": "clock", "ms": 1.234568}}
    before = page.path.read_text()
    new.write_text('{"format": "watch", "ms": 9}')
    with pytest.raises(ValueError, match=r"new.json has no results of benchmarks/clock.py: give the JSON file that it"):
        page.store({"fast": new}, made_by)
    assert page.path.read_text() == before and page.raw()["fast"]["ms"] == 1.234568


def test_only_given_files_are_read(tmp_path: Path) -> None:
    (tmp_path / "new.json").write_text("[1]")
    assert read({"new": tmp_path / "new.json", "other": None}) == {"new": [1]}


def test_compact_json_has_lines_for_the_outer_levels() -> None:
    value = {"a": {}, "b": [{"c": 0.1}], "d": {"e": {"f": {"g": {"h": 1}}}}}
    assert json.loads(compact(value)) == value
    assert compact({}) == "{\n}" and '\n   "f":{\n    "g":{"h":1}\n' in compact(value)


def test_only_floats_are_rounded() -> None:
    value = {"mean": 0.123456789, "cells": [{"low": -1234567.8, "high": None}], "images": 1234567, "name": "x"}
    kept = {"mean": 0.1235, "cells": [{"low": -1235000.0, "high": None}], "images": 1234567, "name": "x"}
    assert rounded(value, 4) == kept


def test_short_numbers_have_no_leading_zero() -> None:
    assert [short(0.0123, 3), short(-0.5, 1), short(12.0, 1)] == [".012", "-.5", "12.0"]
    assert [short(0.0123, 3, "+"), short(-0.5, 1, "+"), short(0.0, 1, "+")] == ["+.012", "-.5", "+.0"]


def test_figures_are_drawn_with_few_colours(tmp_path: Path) -> None:
    def redraw(folder: Path) -> list[Path]:
        level = json.loads((folder / "results.json").read_text())["level"]
        ramp = Image.new("RGB", (256, 4))
        ramp.putdata([(level, i % 256, 255 - i % 256) for i in range(1024)])
        ramp.save(folder / "ramp.png")
        return [folder / "ramp.png"]

    (tmp_path / "numbers.json").write_text('{"level": 255}')
    draw(tmp_path / "numbers.json", redraw, tmp_path, prefix="our_")
    with Image.open(tmp_path / "our_ramp.webp") as drawn:
        colours = drawn.convert("RGB").getcolors(1024)
    assert colours is not None and 8 < len(colours) <= 64
    assert all(red > 240 for _, (red, _, _) in colours)  # type: ignore[misc]


def test_a_sheet_that_is_too_large_gets_a_lower_quality(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    noise = np.random.default_rng(0).integers(0, 256, (50, 50, 3), dtype=np.uint8)
    Image.fromarray(noise).save(tmp_path / "sheet.png")

    def size(most: int) -> int:
        monkeypatch.setattr(pages, "LARGEST_SHEET", most)
        return len(small_webp(tmp_path / "sheet.png"))

    best = size(150_000)
    middle = size(best - 1)
    assert size(best) == best > middle > size(middle - 1) == size(1)
