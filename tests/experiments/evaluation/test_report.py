"""JSON, CSV, Markdown and figures contain the same numbers."""

import copy
import csv
import json
import re
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from condvae.experiments.evaluation import figures, redraw, report, tables
from condvae.experiments.evaluation.shown_metrics import TABLES
from condvae.experiments.evaluation.summary import COLUMNS
from condvae.experiments.reporting import DPI, INCHES

pytestmark = pytest.mark.usefixtures("drawn")


@pytest.fixture
def result(folder: Path, whole: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "results.json").read_text())
    return found


def test_the_csv_has_every_number(folder: Path, result: dict[str, Any]) -> None:
    with (folder / "results.csv").open() as file:
        rows = list(csv.DictReader(file))
    keys = [(row["method"], row["metric"], row["bin"]) for row in rows]
    assert len(keys) == len(set(keys))
    assert len(rows) == sum(
        len(columns)
        for group in ("methods", "models")
        for f in result[group].values()
        for columns in f["metrics"].values()
    )
    for row in rows:
        group = "models" if row["method"] == "small" else "methods"
        cell = result[group][row["method"]]["metrics"][row["metric"]][row["bin"]]
        for name in ("mean", "standard_error"):
            assert (float(row[name]) if row[name] else None) == cell[name]


def test_the_markdown_tables_show_the_same_numbers(folder: Path, result: dict[str, Any]) -> None:
    text = (folder / "results.md").read_text()
    sections = {part.splitlines()[0]: part.splitlines()[2:] for part in text.split("## ")[1:]}
    for name, metric in TABLES.items():
        group = "models" if name in result["models"]["small"]["metrics"] else "methods"
        (title,) = (
            title for title in sections if re.split(r" \((?:close to 0|strongly biased)", title)[0] == metric.title
        )
        assert (title != metric.title) == (name in ("p_ids", "u_ids", "cfid"))
        head, _, *lines = (line for line in sections[title] if line)
        columns = head.strip("| ").split(" | ")[1:]
        assert columns == ["all"] if name.startswith("bits") else columns == list(COLUMNS)
        assert len(lines) == len(result[group])
        for line, (method, found) in zip(lines, result[group].items(), strict=True):
            label, *cells = line.strip("| ").split(" | ")
            assert label == method
            for column, shown in zip(columns, cells, strict=True):
                mean = found["metrics"][name][column]["mean"] * (100 if metric.percent else 1)
                assert float(shown.split()[0]) == pytest.approx(mean, abs=0.51 * 10**-metric.digits)
    assert "| small | " in text and "partial encoder 3.5; VAE 10" in text
    assert "8 test images of pack completed once, 4 of them 4 times" in text
    assert "## P-IDS, higher is better (close to 0 for every method: 8 images are too few for 16 features)" in text
    assert 'unless its name contains "sample pixels"' in text
    simple = {name: found for name, found in result["methods"].items() if "model" not in found}
    assert "sample pixels" not in tables.as_markdown(
        {**result, "methods": simple}
    )  # baselines have no pixel distribution


def test_warnings_about_numbers_are_printed(
    tmp_path: Path, result: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(figures, "draw", lambda result, folder: [])
    few, many = copy.deepcopy(result), copy.deepcopy(result)
    few["settings"]["images"], many["settings"]["images"] = 47, 48
    few["methods"]["training mean"]["metrics"]["fid"]["mixture"]["mean"] = None
    for found, lines in (
        (many, []),
        (
            few,
            [
                "P-IDS and U-IDS are close to 0 for every method: 47 images are too few for 16 features",
                "training mean: fid is infinite or NaN for at least one image, and is shown as -",
            ],
        ),
    ):
        said: list[str] = []
        folder = tmp_path / str(found["settings"]["images"])
        folder.mkdir()
        report.write(found, folder, said.append)
        assert said[1:] == lines


def test_figures_have_their_size_and_can_be_redrawn(folder: Path, whole: dict[str, Any]) -> None:
    for name, panels in (("metrics.png", 4), ("coverage.png", 3)):
        with Image.open(folder / name) as picture:
            picture.load()
            assert picture.size == (round(INCHES[0] * panels * DPI), round(INCHES[1] * DPI))
            before = picture.tobytes()
        (folder / name).unlink()
        assert folder / name in redraw(folder)
        with Image.open(folder / name) as picture:
            assert picture.tobytes() == before


def test_figures_show_what_was_measured(result: dict[str, Any]) -> None:
    figure = figures.metrics_figure(result)
    assert figure is not None
    assert [axis.get_title() for axis in figure.axes] == [panel.title for panel in figures.PANELS.values()]
    line = figure.axes[2].containers[list(result["methods"]).index("random training image")].lines[0]  # type: ignore[attr-defined]
    expected = [result["methods"]["random training image"]["metrics"]["lpips_gt"][hole]["mean"] for hole in COLUMNS[:5]]
    assert list(line.get_ydata()) == expected
    none: dict[str, Any] = {"methods": {"a": {"metrics": {}}}}
    assert figures.metrics_figure(none) is None and figures.coverage_figure(none) is None


def test_only_an_unaltered_report_is_redrawn(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"holds no results\.json of an evaluation"):
        redraw(tmp_path)
    for altered in ("{}", '{"a": {}}', '{"a": {"metrics": {"fid": {}}}}', "[]"):
        (tmp_path / "results.json").write_text(f'{{"format": "condvae evaluation", "methods": {altered}}}')
        if altered == "{}":
            assert redraw(tmp_path) == []
            continue
        with pytest.raises(ValueError, match=r"results\.json has been altered .* run `condvae evaluate` again"):
            redraw(tmp_path)


def test_names_of_methods_are_shown_as_they_are(tmp_path: Path, result: dict[str, Any]) -> None:
    names = [r"$\frac{$", "_first", "five $", "図"]
    methods = dict.fromkeys(names, result["methods"]["random training image"])
    figure = figures.metrics_figure({**result, "methods": methods})
    assert figure is not None
    shown = [text.get_text().strip().replace(r"\$", "$") for text in figure.legends[0].get_texts()]
    assert shown == names
    figures.draw({**result, "methods": methods}, tmp_path)  # without warnings
    assert (tmp_path / "metrics.png").is_file()
