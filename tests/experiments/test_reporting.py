import json
import os
import resource
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from PIL import Image

from condvae.experiments.reporting import (
    DPI,
    TABLES,
    DrawingError,
    Report,
    cell_text,
    curve,
    label,
    legend,
    line_style,
    panel_for_each,
    panels,
    save_figures,
    section,
)
from condvae.runtime.formats import csv_text, json_text, markdown_table
from condvae.runtime.messages import silent

RESULT = {"format": "test", "heights": [1.0, 2.0]}


def report() -> Report:
    """A report with one figure that shows two heights."""

    def draw(result: Mapping[str, Any], folder: Path) -> list[Path]:
        def curve() -> Figure:
            figure, (axis,) = panels(1, 1)
            axis.plot([0, 1], result["heights"])
            return figure

        return save_figures({"heights.png": curve}, folder)

    tables = SimpleNamespace(as_csv=lambda result: "a,b\n", as_markdown=lambda result: "| a |\n")
    figures = SimpleNamespace(draw=draw)
    return Report(
        format="test", what="a test", command="make test", pictures=("heights.png",), tables=tables, figures=figures
    )


def test_figures_are_redrawn_from_results_that_were_not_altered(tmp_path: Path) -> None:
    said: list[str] = []
    report().write(RESULT, tmp_path, said.append)
    assert {path.name for path in tmp_path.iterdir()} == {*TABLES, "heights.png"}
    assert said[-1] == f"wrote {tmp_path / 'heights.png'}"
    (tmp_path / "heights.png").unlink()
    assert report().redraw(tmp_path) == [tmp_path / "heights.png"]
    (tmp_path / "results.json").write_text('{"format": "test", "heights": [1]}')
    with pytest.raises(ValueError, match=r"results.json has been altered \(ValueError: .*: run `make test` again with"):
        report().redraw(tmp_path)
    (tmp_path / "results.json").write_text('{"format": "another"}')
    with pytest.raises(ValueError, match=r"holds no results.json of a test: give the --out folder of make test"):
        report().redraw(tmp_path)


def test_a_folder_with_other_files_is_rejected(tmp_path: Path) -> None:
    for name, words in (
        ("notes.txt", "contains notes.txt, which was not written by a test"),
        ("results.json", "results.json was not written by a test"),
        ("results.csv", "contains results that are not from a test"),
    ):
        (tmp_path / name).mkdir()
        (tmp_path / name / name).write_text("{}")
        with pytest.raises(ValueError, match=words):
            report().claim(tmp_path / name)
    ours = tmp_path / "ours"
    report().claim(ours)
    report().write(RESULT, ours, silent)
    report().claim(ours)
    (ours / "runs").mkdir()
    (ours / "results.json").unlink()  # as after a kill while the report was written: results.json is written last
    report().claim(ours)


def test_old_temporary_files_are_removed_and_recent_ones_stay(tmp_path: Path) -> None:
    places = (tmp_path, tmp_path / "runs" / "a job")
    places[1].mkdir(parents=True)
    for folder in places:
        for name in (".a.1-0123abcd.part", ".b.1-0123abcd.part"):
            (folder / name).write_text("half of a fi")
        os.utime(folder / ".a.1-0123abcd.part", 2 * (time.time() - 7200,))
    report().write(RESULT, tmp_path, silent)
    for folder in places:
        assert [path.name for path in folder.glob(".*")] == [".b.1-0123abcd.part"]


def test_lists_of_numbers_take_one_line_of_json() -> None:
    value = {"numbers": [1, -2.5, 1e-9], "words": ["a", "b"], "none": []}
    text = json_text(value)
    assert json.loads(text) == value
    assert "[1, -2.5, 1e-09]" in text


def test_vertical_bars_do_not_break_a_table() -> None:
    assert markdown_table(["a", "b|c"], [["1", "x|y"]]) == ["| a | b/c |", "|---|---|", "| 1 | x/y |"]
    assert section("T", ["a"], [["1"]]) == ["## T", "", "| a |", "|---|", "| 1 |", ""]


def test_figures_are_written_and_outdated_ones_deleted(tmp_path: Path) -> None:
    (tmp_path / "old.png").touch()
    figure, axes = panels(2, 3, inches=(1.0, 1.5))
    for axis in axes:
        axis.plot([0, 1], [0, 1], label=label("_a$b$"))
    legend(figure, axes)
    written = save_figures({"old.png": lambda: None, "new.png": lambda: figure}, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["new.png"] and written == [tmp_path / "new.png"]
    with Image.open(tmp_path / "new.png") as image:
        assert image.size == (3 * DPI, 3 * DPI)
    assert [text.get_text() for text in figure.legends[0].get_texts()] == [r" _a\$b\$"]


def test_each_name_has_a_panel_and_all_share_one_legend() -> None:
    def draw(axis: Axes, name: str) -> None:
        mean, low, high = curve([{"mean": 0.5, "low": 0.4, "high": 0.6}, {"mean": None, "low": None, "high": None}])
        assert (mean[0], low[0], high[0]) == (0.5, 0.4, 0.6) and np.isnan([mean[1], low[1], high[1]]).all()
        axis.plot([0, 1], mean, label="the same", **line_style(0))
        axis.set_title(name)

    names = list("abcdef")
    figure = panel_for_each(names, draw, ylabel="AUROC")
    assert [axis.get_title() for axis in figure.axes[:6]] == names
    assert [axis.axison for axis in figure.axes] == 6 * [True] + 2 * [False]
    assert figure.axes[0].get_ylabel() == "AUROC"
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["the same"]


def test_ten_lines_differ_in_colour_and_in_marker() -> None:
    styles = [line_style(number) for number in range(10)]
    assert all(len({style[key] for style in styles}) == 10 for key in ("color", "marker"))
    assert line_style(10) == line_style(0)


def test_without_matplotlib_the_message_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    said: list[str] = []
    report().write(RESULT, tmp_path, said.append)
    assert "pip install 'condvae[plots]'" in said[0] and {path.name for path in tmp_path.iterdir()} == set(TABLES)
    with pytest.raises(DrawingError, match=r"pip install 'condvae\[plots\]'"):
        report().redraw(tmp_path)


def test_a_full_disk_gives_a_short_error_and_the_older_figure_stays(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_text("older")
    figure, _ = panels(1, 1)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))
    try:
        with pytest.raises(
            DrawingError, match=r"a\.png cannot be written \(File too large\): free some space, then use --redraw"
        ):
            save_figures({"a.png": lambda: figure}, tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert [path.read_text() for path in tmp_path.iterdir()] == ["older"]


def test_cells_and_rows_without_numbers() -> None:
    cell = {"mean": 0.25, "low": 0.1, "high": 0.4}
    assert cell_text(cell) == "0.250 [0.100, 0.400]"
    assert cell_text(cell, signed=True) == "+0.250 [+0.100, +0.400]"
    assert cell_text({"mean": 0.25, "low": None, "high": None}) == "0.250"
    assert cell_text({"mean": None, "low": None, "high": None}) == "-"
    assert csv_text(("a", "b"), [("x, y", None), (1, 2.5)]) == 'a,b\n"x, y",\n1,2.5\n'
