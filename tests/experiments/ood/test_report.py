"""JSON, CSV, Markdown and figures contain the same numbers, and altered numbers are refused."""

import copy
import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.ood_runs import OTHERS, TESTS
from PIL import Image

from condvae.experiments.ood import figures, redraw
from condvae.experiments.ood.report import REPORT

QUICK: dict[str, Any] = {"scores": ("likelihood",), "baselines": (), "sets": ("noise",)}


def test_files_contain_the_same_numbers(folder: Path, whole: dict[str, Any]) -> None:
    assert json.loads((folder / "results.json").read_text()) == whole
    assert whole["format"] == REPORT.format
    with open(folder / "results.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    (row,) = [row for row in rows if (row["method"], row["set"], row["hidden"]) == ("ipa parts-2", "flip", "mean")]
    cell = whole["methods"]["ipa parts-2"]["auroc"]["flip"][5]
    assert [float(row[key]) for key in ("auroc", "low", "high")] == [cell[key] for key in ("mean", "low", "high")]
    (row,) = [
        row
        for row in rows
        if (row["method"], row["set"], row["hidden"]) == ("ipa parts-2 - ipa likelihood-2", "all sets", "0-0.2")
    ]
    assert float(row["auroc"]) == whole["differences"]["ipa parts-2 - ipa likelihood-2"]["all sets"][0]["mean"]
    text = (folder / "results.md").read_text()
    assert (
        f"test images of slopes against sets of strange images: noise {TESTS}, flip {TESTS}, digits {OTHERS}." in text
    )
    assert "images of flip stay together with the test images they are made from" in text
    means = [whole["methods"]["ipa gradient"]["auroc"][name][5] for name in ("noise", "flip", "digits", "all sets")]
    line = " | ".join(f"{cell['mean']:.3f} [{cell['low']:.3f}, {cell['high']:.3f}]" for cell in means)
    assert f"| ipa gradient | {line} |" in text
    for method in whole["methods"]:
        assert text.count(f"| {method} |") >= 5


def test_examples_of_the_sets_are_shown(folder: Path, whole: dict[str, Any]) -> None:
    with Image.open(folder / "sets.png") as image:
        tall, wide = image.height, image.width
    assert tall > wide > 4 * 90  # whole and behind five holes, for the test images and three sets


@pytest.mark.usefixtures("drawn")
def test_figures_show_every_method_and_set(tmp_path: Path, whole: dict[str, Any]) -> None:
    figure = figures.auroc_figure(whole)
    assert figure is not None
    assert [axis.get_title() for axis in figure.axes] == ["all sets", "noise", "flip", "digits"]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == list(whole["methods"])
    line = next(line for line in figure.axes[1].get_lines() if line.get_label() == "other likelihood-2")
    shown = [cell["mean"] for cell in whole["methods"]["other likelihood-2"]["auroc"]["noise"][:5]]
    assert np.asarray(line.get_ydata()).tolist() == shown
    (tmp_path / "results.json").write_text(json.dumps(whole))
    assert [path.name for path in redraw(tmp_path)] == list(figures.NAMES)
    with Image.open(tmp_path / "auroc.png") as image:
        assert min(image.size) > 200


@pytest.mark.usefixtures("drawn")
def test_altered_numbers_are_not_drawn(tmp_path: Path, whole: dict[str, Any]) -> None:
    short, worded = copy.deepcopy(whole), copy.deepcopy(whole)
    short["methods"]["ipa gradient"]["auroc"]["noise"].pop()
    worded["methods"]["ipa gradient"]["auroc"]["noise"][1]["mean"] = "much"
    for altered in ({"format": REPORT.format}, short, worded):
        (tmp_path / "results.json").write_text(json.dumps(altered))
        with pytest.raises(ValueError, match=r"has been altered .*: run `condvae ood experiment` again"):
            redraw(tmp_path)
