"""Metrics of groups of test images."""

import csv
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from helpers.evaluation_runs import DEEP_ONLY, SMALL, deep_only, numbers, small_evaluation, units_in
from torch import Tensor

from condvae.data import Dataset
from condvae.experiments.evaluation import (
    EvaluationSettings,
    FeatureNetworks,
    Method,
    Problems,
    Subject,
    baselines,
    experiment,
    methods_of,
)
from condvae.experiments.evaluation.groups import choose_groups, read_groups
from condvae.experiments.evaluation.summary import COLUMNS
from condvae.observe import Observation
from condvae.runtime.messages import silent

pytestmark = pytest.mark.usefixtures("undrawn")

EARLY, LATE = "test/[A-G]*", "[!A-G]*"
"""Patterns that divide the test images by their names, with and without the folder."""


class Black:
    """Completes with black, so that errors are easy to compute."""

    name, varies, identity = "black", False, "black"

    def complete(self, observation: Observation, k: int, seed: int) -> Tensor:
        assert observation.known is not None and observation.pixels is not None
        levels = ((observation.pixels + 1) * 127.5).round()
        return torch.where(observation.known, levels, 0).to(torch.uint8)[:, None].expand(-1, k, -1, -1, -1)


def test_metrics_are_means_over_the_images_of_the_group(tmp_path: Path, data: Dataset) -> None:
    settings = EvaluationSettings(images=20, deep_images=11, n=1, metrics=("pixels",))
    found = experiment(
        [Method.of(Black())],
        data,
        tmp_path,
        settings=settings,
        networks=FeatureNetworks(),
        groups={"early": [EARLY], "two": ["[A-C]*", "[K-M]*"], "late": [LATE]},
        say=silent,
    )
    problems, cpu = Problems.choose(data, settings), torch.device("cpu")
    names = data.test.names
    assert names is not None and found is not None
    for group, letters in (("early", "ABCDEFG"), ("two", "ABCKLM")):
        rows = problems.rows[problems.deep]
        mine = problems.deep[[names[row].removeprefix("test/")[0] in letters for row in rows]]
        assert 2 <= len(mine) == found["groups"][group]["deep_images"] < 11
        truth = problems.truth(mine, cpu).double() / 255
        errors = [((truth**2) * ~problems.known(hole, mine, cpu)).mean(dim=(1, 2, 3)) for hole in range(5)]
        columns = found["methods"]["black"]["groups"][group]["metrics"]["best_mse"]
        for column, values in zip(COLUMNS, (*errors, torch.stack(errors).mean(dim=0)), strict=True):
            assert columns[column]["mean"] == pytest.approx(float(values.mean()), rel=1e-4)
            standard_error = float(values.std()) / len(mine) ** 0.5
            assert columns[column]["standard_error"] == pytest.approx(standard_error, rel=1e-4)
    in_test = sum(name.removeprefix("test/")[0] in "ABCDEFG" for name in names)
    assert found["groups"]["early"] == {
        "patterns": [EARLY],
        "test_images": in_test,
        "deep_images": found["groups"]["early"]["deep_images"],
        "bits_images": int(np.isin(problems.bits, np.arange(in_test)).sum()),  # names are in alphabetical order
    }
    late = found["groups"]["late"]
    assert in_test + late["test_images"] == len(names)


@pytest.fixture(scope="module")
def grouped(tmp_path_factory: pytest.TempPathFactory, data: Dataset, subject: Subject) -> tuple[Path, dict[str, Any]]:
    out = tmp_path_factory.mktemp("grouped")
    found = small_evaluation(
        data,
        subject,
        out,
        settings=replace(SMALL, images=8, deep_images=6, bits_images=32),
        methods=[*methods_of(subject, ["1"], ["mean"], k=SMALL.n), *baselines(["mean", "random"], data)],
        groups={"everyone": ["*"], "early": [EARLY], "late": [LATE]},
        say=silent,
    )
    assert found is not None
    return out, found


def test_the_group_of_all_images_has_the_numbers_of_the_test_set(grouped: tuple[Path, dict[str, Any]]) -> None:
    _, found = grouped
    for kind in ("methods", "models"):
        for one in found[kind].values():
            everyone = one["groups"]["everyone"]
            assert list(everyone["metrics"]) == [
                name for name in one["metrics"] if name not in ("fid", "cfid", "kid", "p_ids", "u_ids")
            ]
            for name, columns in everyone["metrics"].items():
                assert columns == one["metrics"][name]
            for name, columns in everyone.get("coverage", {}).items():
                for column, cell in columns.items():
                    assert cell == {key: one["coverage"][name][column][key] for key in cell}
            assert ("coverage" in everyone) == (kind == "methods")


def test_the_parts_of_the_test_set_add_up(grouped: tuple[Path, dict[str, Any]]) -> None:
    _, found = grouped
    for metrics, name, count in (
        ("hidden_nats_native", "small", "deep_images"),
        ("bits_per_dim_native", "small", "bits_images"),
        ("lpips_diversity", "random training image", "deep_images"),
    ):
        one = found["models" if name == "small" else "methods"][name]
        for column, whole in one["metrics"][metrics].items():
            sizes = [found["groups"][group][count] for group in ("early", "late")]
            means = [one["groups"][group]["metrics"][metrics][column]["mean"] for group in ("early", "late")]
            assert sum(sizes) == found["settings"][count] and min(sizes) > 1
            assert np.average(means, weights=sizes) == pytest.approx(whole["mean"], rel=1e-5)
            assert means[0] != means[1]


def test_csv_and_markdown_show_the_groups(grouped: tuple[Path, dict[str, Any]]) -> None:
    out, found = grouped
    with (out / "results.csv").open() as file:
        rows = list(csv.DictReader(file))
    keys = [(row["method"], row["metric"], row["bin"], row["group"]) for row in rows]
    assert len(set(keys)) == len(keys) and {row["group"] for row in rows} == {"", "everyone", "early", "late"}
    early = [row for row in rows if row["group"] == "early" and row["method"] == "random training image"]
    metrics = found["methods"]["random training image"]["groups"]["early"]["metrics"]
    assert len(early) == sum(map(len, metrics.values()))
    for row in early:
        assert float(row["mean"]) == metrics[row["metric"]][row["bin"]]["mean"]
        assert int(row["images"]) == found["groups"]["early"]["deep_images"] == 3
    bits = {row["group"]: int(row["images"]) for row in rows if row["metric"] == "bits_per_dim_native"}
    assert bits == {"": 32, "everyone": 32, "early": 11, "late": 21}
    assert {row["images"] for row in rows if row["metric"] == "fid"} == {"8"}
    text = (out / "results.md").read_text()
    assert "| early | `test/[A-G]*` | 11 | 3 |" in text
    title = "## By group: LPIPS-GT, nearest of K completions, lower is better"
    lines = text.partition(title)[2].partition("## ")[0].strip().splitlines()
    assert lines[0] == "| mixture of bins | small, t 1 | training mean | random training image |"
    cell = metrics["lpips_gt"]["mixture"]
    assert lines[4].startswith("| early |")
    assert lines[4].endswith(f" {cell['mean']:.4f} ± {cell['standard_error']:.4f} |")
    assert "By group: FID" not in text and "By group: Bits per dimension under the VAE's own" in text
    assert "By group: Calibration error, smooth projections" in text


def test_other_groups_need_no_new_measurement(tmp_path: Path, data: Dataset) -> None:
    out = tmp_path / "out"
    settings = replace(DEEP_ONLY, images=8, deep_images=6)
    methods = baselines(["random"], data)
    first = deep_only(data, out, settings=settings, methods=methods)
    stored = {path: path.stat().st_mtime_ns for path in (out / "parts").rglob("*.safetensors")}
    assert not units_in(out) and numbers(first)["methods"]["random training image"].get("groups") is None
    said: list[str] = []
    options: dict[str, Any] = {"settings": settings, "say": said.append}
    later = deep_only(data, out, methods=baselines(["mean"], data), groups={"early": [EARLY]}, **options)
    assert {path: path.stat().st_mtime_ns for path in stored} == stored
    found = numbers(later)["methods"]
    assert all(list(one["groups"]) == ["early"] for one in found.values()) and len(found) == 2
    assert not [line for line in said if "is replaced" in line]  # the new report has all numbers of the old one
    fresh = deep_only(data, tmp_path / "fresh", methods=methods, groups={"early": [EARLY]}, settings=settings)
    assert found["random training image"] == numbers(fresh)["methods"]["random training image"]
    said.clear()
    last = deep_only(data, out, methods=methods, groups={"late": [LATE]}, **options)
    assert list(numbers(last)["methods"]["training mean"]["groups"]) == ["late"]
    assert not [line for line in said if "images in" in line]
    assert [line for line in said if "is replaced" in line]


def test_a_pattern_with_folders_is_compared_with_as_many_parts_of_a_name(data: Dataset) -> None:
    problems = Problems.choose(data, replace(SMALL, images=32, deep_images=32))

    def count(*patterns: str) -> int:
        (group,) = choose_groups({"some": patterns}, problems, SMALL)
        assert len(group.test) == len(group.deep)
        return len(group.test)

    assert count("*") == count("*.jpg") == count("test/*") == count("t*t/*") == 32
    assert count("[BC]*") == count("test/[BC]*") == count("B*", "C*", "B*") == 5
    for pattern in ("train/*", "test/test/*", "Tes*", "b*", "/test/*", ""):
        with pytest.raises(ValueError, match=r"of the group some matches none of the 32 test images: names are such"):
            count(pattern)


@pytest.mark.parametrize(
    ("groups", "change", "words"),
    [
        ({"one": ["Andrew*"]}, {}, r"the group one \(1 test image\) has 1 of the 32 deep images, but needs 2"),
        (
            {"some": ["[A-D]*"]},
            {"deep_images": 2},
            r"\(8 test images\) has 1 of the 2 deep images, but needs 2: give a larger",
        ),
        ({"some": "A*"}, {}, "the group 'some' has the patterns 'A\\*': give a name and a list of patterns"),
        ({"some": []}, {}, "give a name and a list"),
        ({" ": ["*"]}, {}, "give a name and a list"),
        ({"some": ["*"]}, {"metrics": ("inception",)}, "groups have no metrics of inception, which need many images"),
    ],
)
def test_groups_that_cannot_be_measured(
    data: Dataset, groups: dict[str, Sequence[str]], change: dict[str, Any], words: str
) -> None:
    settings = replace(SMALL, **{"images": 32, "deep_images": 32, **change})
    with pytest.raises(ValueError, match=words):
        choose_groups(groups, Problems.choose(data, settings), settings)


def test_images_without_names_have_no_groups(data: Dataset) -> None:
    unnamed = replace(data, test=replace(data.test, files=None))
    with pytest.raises(ValueError, match="the test images have no names, by which groups are chosen: give a folder"):
        choose_groups({"all": ["*"]}, Problems.choose(unnamed, SMALL), SMALL)
    assert choose_groups({}, Problems.choose(unnamed, SMALL), SMALL) == []


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"a": "*"}', '{"a": []}', '{"a": [1]}', "[" * 100_000])
def test_a_file_that_has_no_groups_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "groups.json"
    path.write_text(text)
    with pytest.raises(ValueError, match=r"groups\.json .*: expected JSON such as"):
        read_groups(path)
    with pytest.raises(ValueError, match="cannot be read"):
        read_groups(tmp_path / "none.json")
    path.write_text(json.dumps({"a": ["*"], "b": ["x*", "y"]}))
    assert read_groups(path) == {"a": ["*"], "b": ["x*", "y"]}
