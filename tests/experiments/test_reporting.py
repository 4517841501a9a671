import json
import resource
import sys
from pathlib import Path

import pytest
from PIL import Image

from condvae.experiments.reporting import DPI, DrawingError, cell_text, label, legend, panels, save_figures
from condvae.runtime.formats import csv_text, json_text, markdown_table


def test_lists_of_numbers_take_one_line_and_stay_what_they_are() -> None:
    value = {"numbers": [1, -2.5, 1e-9], "words": ["a", "b"], "none": []}
    text = json_text(value)
    assert json.loads(text) == value
    assert "[1, -2.5, 1e-09]" in text


def test_bars_do_not_break_a_table() -> None:
    assert markdown_table(["a", "b|c"], [["1", "x|y"]]) == ["| a | b/c |", "|---|---|", "| 1 | x/y |"]


def test_figures_are_whole_and_older_ones_go(tmp_path: Path) -> None:
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


def test_without_matplotlib_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ValueError, match=r"pip install 'condvae\[plots\]'"):
        save_figures({}, tmp_path)


def test_a_full_disk_is_one_sentence_and_the_older_figure_stays(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_text("older")
    figure, _ = panels(1, 1)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))
    try:
        with pytest.raises(
            DrawingError, match=r"a\.png cannot be written \(File too large\): make room, then --redraw"
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
