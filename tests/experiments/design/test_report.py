"""JSON, CSV, Markdown and figures of a report agree."""

import copy
import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.design_runs import FINDINGS, small_data, small_experiment
from PIL import Image

from condvae.experiments.design import figures, redraw, tables
from condvae.experiments.design.report import REPORT


def test_files_agree(folder: Path, whole: dict[str, Any]) -> None:
    assert json.loads((folder / "results.json").read_text()) == whole
    assert whole["format"] == REPORT.format
    assert whole["model"] == {"name": None, "temperature": 1.0, "pixels": "mean", "precision": "fp32"}
    assert whole["classifier"] == {"name": None, "precision": "not stated"}
    with open(folder / "results.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    (row,) = [
        row
        for row in rows
        if (row["policy"], row["metric"], row["task"], row["scans"]) == ("eig-nearest", "auroc", "no finding", "2-3")
    ]
    cell = whole["policies"]["eig-nearest"]["auroc"]["no finding"][4]
    assert [float(row[key]) for key in ("mean", "low", "high")] == [cell[key] for key in ("mean", "low", "high")]
    crossed = [row for row in rows if row["policy"] == "eig-ipa for edema" and row["task"] == "effusion"]
    assert [row["scans"] for row in crossed] == ["3", "1-3"]
    text = (folder / "results.md").read_text()
    after_one = whole["policies"]["eig-nearest"]["auroc"]["edema"][1]["mean"]
    assert f"| eig-nearest | 0.500 [0.500, 0.500] | {after_one:.3f} [" in text
    assert "24 test images of 12 patients of patches; positives: edema 8, effusion 8, no finding 5." in text
    assert "Averaged over 2 tries with new random draws: random, uncond, non-greedy." in text
    for policy in whole["policies"]:
        assert text.count(f"| {policy} |") >= 5


@pytest.mark.usefixtures("drawn")
def test_figures_show_every_policy_and_task(tmp_path: Path, whole: dict[str, Any]) -> None:
    figure = figures.curves_figure(whole, "auroc")
    assert figure is not None
    assert [axis.get_title() for axis in figure.axes] == ["mean of 3 tasks", "edema", "effusion", "no finding"]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == [*list(whole["policies"])[:-1], "full image"]
    line = next(line for line in figure.axes[1].get_lines() if line.get_label() == "random")
    shown = [cell["mean"] for cell in whole["policies"]["random"]["auroc"]["edema"][1:4]]
    assert np.asarray(line.get_ydata()).tolist() == shown
    matrix = figures.cross_tasks_figure(whole)
    assert matrix is not None
    written = [text.get_text() for text in matrix.axes[0].texts]
    assert written == [f"{cell['mean']:.3f}" for line in whole["cross_tasks"]["eig-ipa"]["last"] for cell in line]
    maps = figures.where_figure(whole)
    assert maps is not None and len(maps.axes) == 6 * 3
    (tmp_path / "results.json").write_text(json.dumps(whole))
    assert [path.name for path in redraw(tmp_path)] == list(figures.NAMES)
    for name in figures.NAMES:
        with Image.open(tmp_path / name) as image:
            assert min(image.size) > 200


@pytest.mark.usefixtures("drawn")
def test_a_report_with_few_numbers_has_few_figures(tmp_path: Path) -> None:
    change: dict[str, Any] = {"policies": ("full",), "tasks": ("edema",)}
    nobody = small_data(without=FINDINGS)
    (tmp_path / "runs").mkdir()
    (tmp_path / "auroc.png").write_text("a figure of an earlier report whose numbers are gone")
    result = small_experiment(tmp_path, change=change, data=nobody, model=None)
    assert result is not None
    assert [path.name for path in tmp_path.glob("*.png")] == ["nll.png"]
    assert "| full | - | - | - | - | - |" in tables.as_markdown(result)


@pytest.mark.usefixtures("drawn")
def test_edited_numbers_are_not_drawn(tmp_path: Path, whole: dict[str, Any]) -> None:
    short, worded = copy.deepcopy(whole), copy.deepcopy(whole)
    short["policies"]["random"]["where"]["all tasks"].pop()
    worded["policies"]["random"]["nll"]["edema"][1]["mean"] = "much"
    for altered in ({"format": REPORT.format}, short, worded):
        (tmp_path / "results.json").write_text(json.dumps(altered))
        with pytest.raises(ValueError, match=r"has been altered .*: run `condvae design experiment` again"):
            redraw(tmp_path)
