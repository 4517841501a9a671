"""JSON, CSV, Markdown and figures contain the same numbers, and altered numbers are refused."""

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.pretraining_runs import SMALL, TEST, TRAIN, first_seed
from PIL import Image

from condvae.experiments.pretraining import figures, redraw, tables
from condvae.experiments.pretraining.plan import COMPLETION, TARGETS, metrics_for
from condvae.experiments.pretraining.report import REPORT

METRICS = metrics_for(COMPLETION)


def with_one_seed(whole: dict[str, Any]) -> dict[str, Any]:
    """The result of an experiment with one seed and without other conditions."""
    settings = {**whole["settings"], "seeds": 1}
    return {**whole, "settings": settings, "arms": first_seed(whole["arms"]), "conditions": {}}


def test_files_contain_the_same_numbers(folder: Path, whole: dict[str, Any]) -> None:
    assert json.loads((folder / "results.json").read_text()) == whole
    assert whole["format"] == REPORT.format and whole["settings"]["steps"] == list(SMALL["steps"])
    assert whole["images"] == {"training": TRAIN - SMALL["validation"], "test": TEST}
    with open(folder / "results.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    found = {tuple(row[key] for key in ("arm", "steps", "metric", "seed")): row for row in rows}
    # Arms, points, metrics and seeds; arms, targets and seeds; points of two conditions.
    assert len(found) == len(rows) == 3 * 2 * 4 * 2 + 3 * 2 * 2 + 2 * 3
    for condition, of_condition in whole["conditions"].items():
        for name, points in of_condition["arms"].items():
            for point in points:
                row = found[name, str(point["steps"]), f"-ELBO in nats, {condition}", "0"]
                assert float(row["value"]) == point["nats"]["mean"]
    for name, arm in whole["arms"].items():
        for target, title in TARGETS.items():
            for seed, value in enumerate(arm["held_out"][target]["values"]):
                metric = f"-ELBO in nats, held-out images, {title}"
                row = found[name, str(arm["points"][-1]["steps"]), metric, str(seed)]
                assert float(row["value"]) == value
        for point in arm["points"]:
            for metric in METRICS:
                for seed, value in enumerate(point[metric]["values"]):
                    row = found[name, str(point["steps"]), metric, str(seed)]
                    told = [float(row[key]) for key in ("minutes", "minutes with pretraining", "value")]
                    assert told == [point["minutes"], point["total_minutes"], value]


def test_the_page_contains_every_mean_with_its_standard_deviation(folder: Path, whole: dict[str, Any]) -> None:
    text = (folder / "results.md").read_text()
    titles = ("from scratch", "ipa, artifact pretrained for 7.5 min", "transfer, artifact pretrained for 3.2 min")
    for title, arm in zip(titles, whole["arms"].values(), strict=True):
        table = text.partition(f"## {title}\n")[2].partition("##")[0]
        for point in arm["points"]:
            times = [f"{point['steps']}", f"{point['minutes']:.2f}", f"{point['total_minutes']:.2f}"]
            cells = [
                f"{point[metric]['mean']:.{digits}f} ±{point[metric]['std']:.{digits}f}"
                for metric, digits in (("bits_per_dim", 4), ("fid", 2), ("p_ids", 2), ("lpips_gt", 4))
            ]
            assert f"| {' | '.join([*times, *cells])} |" in table
    for condition, found in whole["conditions"].items():
        ipa, scratch = (found["arms"][name][-1]["nats"]["mean"] for name in ("ipa", "scratch"))
        difference, information = found["ipa_minus_scratch_nats"], found["information_nats"]
        cells = [f"{ipa:,.1f}", f"{scratch:,.1f}"]
        cells += [f"{difference['mean']:+.1f} ±{difference['standard_error']:.1f}"]
        if condition == "grey":
            cells += [f"{information[name]['mean']:.1f}" for name in ("measured", "calibrated")]
        else:
            cells += [f"at most {information['most']['mean']:.2f}", ""]
        assert f"| {condition} | {' | '.join(cells)} |" in text
    for name, arm in whole["arms"].items():
        cells = [f"{arm['held_out'][one]['mean']:.1f} ±{arm['held_out'][one]['std']:.1f}" for one in TARGETS]
        assert f"| {name} | {' | '.join(cells)} |" in text
    last = whole["arms"]["ipa"]["points"][-1]["fid"]
    assert f", ipa {last['mean']:.2f} ±{last['std']:.2f}, transfer " in tables.summary_line(whole)


def test_one_seed_shows_no_standard_deviation(whole: dict[str, Any]) -> None:
    text = tables.as_markdown(with_one_seed(whole))
    body = text.partition("## ")[2]
    assert "±" not in body and "Other conditions" not in body
    for arm in whole["arms"].values():
        assert f" {arm['points'][-1]['lpips_gt']['values'][0]:.4f} |" in body
    assert tables.summary_line(with_one_seed(whole)).startswith("FID at the end, over 1 seed: scratch ")


def test_sheets_show_the_arms(folder: Path) -> None:
    cells = set()
    # Originals and what is seen of them, except labels; then the first and last answer of three arms, or four of two.
    for name, columns in (("completion", 2 + 3 * 2), ("grey", 2 + 2 * 4), ("label-classes=10", 1 + 2 * 4)):
        with Image.open(folder / f"sheet-{name}.png") as sheet:
            cells.add(((sheet.width - 4) / columns, sheet.height))
    assert len(cells) == 1


@pytest.mark.usefixtures("drawn")
def test_figures_show_every_arm(tmp_path: Path, whole: dict[str, Any]) -> None:
    (tmp_path / "results.json").write_text(json.dumps(whole))
    assert [path.name for path in redraw(tmp_path)] == list(figures.NAMES)
    figure = figures.curves_figure(whole)
    assert [axis.get_title() for axis in figure.axes] == 2 * [metric.title for metric in METRICS.values()]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == list(whole["arms"])
    for axis, time, metric in ((figure.axes[1], "minutes", "fid"), (figure.axes[7], "total_minutes", "lpips_gt")):
        for bars, arm in zip(axis.containers, whole["arms"].values(), strict=True):
            line, _, (spread,) = bars
            assert line.get_xdata().tolist() == [point[time] for point in arm["points"]]
            assert line.get_ydata().tolist() == [point[metric]["mean"] for point in arm["points"]]
            lengths = [float(np.ptp(segment[:, 1])) / 2 for segment in spread.get_segments()]
            assert lengths == pytest.approx([point[metric]["std"] for point in arm["points"]], abs=1e-6)
    conditions = figures.conditions_figure(whole)
    assert conditions is not None and [axis.get_title() for axis in conditions.axes] == list(SMALL["conditions"])
    for altered in ({"format": REPORT.format}, {**whole, "arms": {"ipa": {"points": [{}]}}}):
        (tmp_path / "results.json").write_text(json.dumps(altered))
        with pytest.raises(ValueError, match=r"has been altered .*: run `recipes/pretraining.py` again"):
            redraw(tmp_path)


def test_one_seed_without_conditions_is_drawn(whole: dict[str, Any]) -> None:
    result = with_one_seed(whole)
    assert figures.conditions_figure(result) is None
    (line, *_) = figures.fid_figure(result).axes[0].get_lines()
    points = [[point["bits_per_dim"]["mean"], point["fid"]["mean"]] for point in result["arms"]["scratch"]["points"]]
    assert np.asarray(line.get_xydata()).tolist() == points
    _, _, (spread,) = figures.curves_figure(result).axes[0].containers[1]
    assert all(np.ptp(segment[:, 1]) == 0 for segment in spread.get_segments())
