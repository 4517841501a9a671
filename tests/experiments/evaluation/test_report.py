"""JSON, CSV, Markdown and figures say the same."""

import copy
import csv
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from helpers.evaluation_runs import FACES, small_networks, small_subject
from PIL import Image

from condvae.data import open_data
from condvae.experiments.evaluation import EvaluationSettings, baselines, experiment, figures, redraw, tables
from condvae.experiments.evaluation.summary import COLUMNS
from condvae.experiments.reporting import DPI, INCHES
from condvae.runtime.formats import json_text

pytestmark = pytest.mark.usefixtures("drawn")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out, data, subject = tmp_path_factory.mktemp("report"), open_data(FACES), small_subject()
    settings = EvaluationSettings(images=6, deep_images=3, n=3)
    methods = baselines(["mean", "random"], data)
    experiment(
        methods, data, out, settings=settings, networks=small_networks(), models=[subject], say=lambda text: None
    )
    return out


@pytest.fixture(scope="module")
def result(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "results.json").read_text())
    return found


def test_the_table_in_long_form_has_every_number(folder: Path, result: dict[str, Any]) -> None:
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


def test_the_table_for_people_shows_the_same(folder: Path, result: dict[str, Any]) -> None:
    text = (folder / "results.md").read_text()
    sections = {part.splitlines()[0]: part.splitlines()[2:] for part in text.split("## ")[1:]}
    for name, metric in tables.TABLES.items():
        group = "models" if name in result["models"]["small"]["metrics"] else "methods"
        (title,) = (title for title in sections if title.partition(" (near 0")[0] == metric.title)
        assert (title != metric.title) == (name in ("p_ids", "u_ids"))
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
    assert "6 test images of pack completed once, 3 of them 3 times" in text
    assert "## P-IDS, more is better (near 0 for everybody: 6 images, 16 features)" in text
    assert "sample pixels" not in text  # fillers have no distribution of pixels


def test_what_is_to_be_known_of_the_numbers_is_said(tmp_path: Path, result: dict[str, Any]) -> None:
    from condvae.experiments.evaluation import report

    few, many, ours = (copy.deepcopy(result) for _ in range(3))
    few["settings"]["images"], many["settings"]["images"] = 47, 48
    ours["methods"]["training mean"]["pixels"] = "mean"
    for found, told in ((few, True), (many, False)):
        said: list[str] = []
        report.write(found, tmp_path, said.append)
        line = "P-IDS and U-IDS are near 0 for everybody: 47 images, 16 features"
        assert [text for text in said if "P-IDS" in text] == [line] * told
    assert 'unless "sample pixels" stands in the name' in tables.as_markdown(ours)


def test_lists_of_numbers_take_one_line_and_stay_what_they_are(result: dict[str, Any]) -> None:
    text = json_text(result)
    assert json.loads(text) == result
    curve = result["methods"]["random training image"]["coverage"]["white"]["mixture"]["coverage"]
    assert len(curve) == 19
    assert f'"coverage": [{", ".join(map(str, curve))}]' in text


def test_figures_have_their_size_and_can_be_drawn_again(folder: Path) -> None:
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
    line = figure.axes[2].containers[1].lines[0]  # type: ignore[attr-defined]
    expected = [result["methods"]["random training image"]["metrics"]["lpips_gt"][hole]["mean"] for hole in COLUMNS[:5]]
    assert list(line.get_ydata()) == expected
    none: dict[str, Any] = {"methods": {"a": {"metrics": {}}}}
    assert figures.metrics_figure(none) is None and figures.coverage_figure(none) is None


def test_without_matplotlib_the_report_says_how_to_get_figures(
    tmp_path: Path, result: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    from condvae.experiments.evaluation import report

    monkeypatch.setitem(sys.modules, "matplotlib", None)
    said: list[str] = []
    report.write(result, tmp_path, said.append)
    assert sum("pip install 'condvae[plots]'" in line for line in said) == 1
    assert {path.name for path in tmp_path.iterdir()} == {"results.json", "results.csv", "results.md"}


def test_only_a_report_is_drawn_again(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"holds no results\.json of an evaluation"):
        redraw(tmp_path)
    for altered in ("{}", '{"a": {}}', '{"a": {"metrics": {"fid": {}}}}', "[]"):
        (tmp_path / "results.json").write_text(f'{{"format": "condvae evaluation", "methods": {altered}}}')
        if altered == "{}":
            assert redraw(tmp_path) == []
            continue
        with pytest.raises(ValueError, match=r"results\.json has been altered .* call condvae evaluate"):
            redraw(tmp_path)


def test_names_of_methods_are_shown_as_they_are(tmp_path: Path, result: dict[str, Any]) -> None:
    names = [r"$\frac{$", "_first", "five $", "図"]
    methods = dict.fromkeys(names, result["methods"]["random training image"])
    figure = figures.metrics_figure({**result, "methods": methods})
    assert figure is not None
    shown = [text.get_text().strip().replace(r"\$", "$") for text in figure.legends[0].get_texts()]
    assert shown == names
    figures.draw({**result, "methods": methods}, tmp_path)  # no warning either
    assert (tmp_path / "metrics.png").is_file()


def test_a_number_that_came_out_infinite_is_told(tmp_path: Path, result: dict[str, Any]) -> None:
    from condvae.experiments.evaluation import report

    broken = copy.deepcopy(result)
    broken["methods"]["training mean"]["metrics"]["fid"]["mixture"]["mean"] = None
    said: list[str] = []
    report.write(broken, tmp_path, said.append)
    assert [line for line in said if "no number" in line] == [
        "training mean: fid came out infinite or as no number, for some image at least: shown as -"
    ]
