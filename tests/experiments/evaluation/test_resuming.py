"""Resumed, shared, differently split and extended runs give the same numbers, and settings are never mixed."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from helpers.evaluation_runs import DEEP_ONLY, SMALL, deep_only, numbers, small_networks, units_in
from helpers.fixtures import HELPERS
from helpers.processes import PATIENCE, started
from helpers.resumed_runs import kill_and_repeat

from condvae.data import Dataset
from condvae.experiments.evaluation import (
    FeatureNetworks,
    Subject,
    UnitSizes,
    baselines,
    experiment,
    methods_of,
    problems,
)
from condvae.experiments.resumable_work import Shard
from condvae.runtime.messages import silent

SCRIPT = HELPERS / "evaluation_runs.py"


def test_a_killed_run_is_resumed_by_two_ranks(tmp_path: Path, whole: dict[str, Any]) -> None:
    out = tmp_path / "killed"
    kill_and_repeat(SCRIPT, out, parts=20, ranks=2)
    found = numbers(json.loads((out / "results.json").read_text()))
    assert found["models"] == numbers(whole)["models"]
    assert found["methods"] == {name: numbers(whole)["methods"][name] for name in found["methods"]}
    assert all(path.parent.name.startswith("test-images-") for path in units_in(out))
    assert not list(out.rglob(".*.part"))  # incomplete files of the killed process are deleted


def test_two_processes_with_the_same_work(tmp_path: Path, whole: dict[str, Any]) -> None:
    """Both write to one folder at the same time without losing results."""
    out = tmp_path / "both"
    said = [tmp_path / f"{number}.log" for number in range(2)]
    with started(SCRIPT, out, said=said[0]) as one, started(SCRIPT, out, said=said[1]) as other:
        for process, text in zip((one, other), said, strict=True):
            process.join(PATIENCE)
            assert process.exitcode == 0, text.read_text()
    found = numbers(json.loads((out / "results.json").read_text()))
    assert found["methods"] == {name: numbers(whole)["methods"][name] for name in found["methods"]}
    assert len(found["methods"]) == 3


def test_shards_are_independent(tmp_path: Path, data: Dataset) -> None:
    for number in (3, 1, 2):
        assert deep_only(data, tmp_path / "shards", shard=Shard(number, 3)) is None
    assert not (tmp_path / "shards" / "results.json").exists()
    before = {path: path.stat().st_mtime_ns for path in units_in(tmp_path / "shards")}
    joined = deep_only(data, tmp_path / "shards", keep_parts=True)
    after = {path: path.stat().st_mtime_ns for path in units_in(tmp_path / "shards")}
    assert before == after  # nothing was measured twice, and keep_parts kept the files
    assert numbers(joined) == numbers(deep_only(data, tmp_path / "whole"))


def test_results_do_not_depend_on_unit_sizes(
    tmp_path: Path, data: Dataset, subject: Subject, whole: dict[str, Any]
) -> None:
    ours = methods_of(subject, ["1"], ["mean"], k=SMALL.n)
    methods = [*ours, *baselines(["random"], data)]
    again = experiment(
        methods,
        data,
        tmp_path,
        settings=SMALL,
        networks=small_networks(),
        unit_sizes=UnitSizes(wide=8, deep=3),
        say=silent,
    )
    for method in methods:
        mine, theirs = numbers(again)["methods"][method.name], numbers(whole)["methods"][method.name]
        for metric, columns in mine["metrics"].items():
            for column, cell in columns.items():
                expected = theirs["metrics"][metric][column]
                assert cell["mean"] == pytest.approx(expected["mean"], rel=1e-3, abs=1e-6), (method.name, metric)


def test_only_an_added_method_is_measured(tmp_path: Path, data: Dataset) -> None:
    first = deep_only(data, tmp_path, methods=baselines(["random"], data))
    (final,) = (tmp_path / "parts").rglob("*.safetensors")
    stored = final.stat().st_mtime_ns
    said: list[str] = []
    both = deep_only(data, tmp_path, methods=baselines(["mean"], data), say=said.append)
    assert "replaced" not in " ".join(said)  # the first report is contained in the second
    assert final.stat().st_mtime_ns == stored
    found = numbers(both)["methods"]
    assert list(found) == ["training mean", "random training image"]
    assert found["random training image"] == numbers(first)["methods"]["random training image"]


@pytest.mark.parametrize("change", [{"n": 3}, {"seed": 1}, {"deep_images": 3}, {"images": 5}])
def test_results_of_other_options_are_never_mixed(tmp_path: Path, data: Dataset, change: dict[str, Any]) -> None:
    before = deep_only(data, tmp_path, methods=baselines(["random", "mean"], data), keep_parts=True)
    settings = replace(DEEP_ONLY, **change)
    said: list[str] = []
    after = deep_only(data, tmp_path, methods=baselines(["random"], data), settings=settings, say=said.append)
    replaced = f"the report of an earlier call with other settings is replaced: its measurements are kept in {tmp_path}"
    assert [replaced in line for line in said].count(True) == 1
    assert list(numbers(after)["methods"]) == ["random training image"]  # the mean was measured with other settings
    fresh = deep_only(data, tmp_path / "fresh", methods=baselines(["random"], data), settings=settings)
    assert numbers(after) == numbers(fresh)
    assert numbers(after)["methods"] != numbers(before)["methods"]


def test_results_of_another_network_are_never_mixed(tmp_path: Path, data: Dataset) -> None:
    from helpers.lpips_networks import random_lpips

    before = deep_only(data, tmp_path)
    after = deep_only(data, tmp_path, networks=FeatureNetworks(lpips=random_lpips(1)))
    assert numbers(after)["methods"].keys() == numbers(before)["methods"].keys()
    assert numbers(after) != numbers(before)


def test_damaged_parts_are_an_error(tmp_path: Path, data: Dataset) -> None:
    deep_only(data, tmp_path, shard=Shard(1, 2))
    damaged = next((tmp_path / "parts").rglob("*.safetensors"))
    damaged.write_bytes(damaged.read_bytes()[:-1])
    with pytest.raises(ValueError, match="delete the file and run the same command again"):
        deep_only(data, tmp_path)
    damaged.unlink()
    assert numbers(deep_only(data, tmp_path)) == numbers(deep_only(data, tmp_path / "fresh"))


def test_no_hole_is_drawn_if_all_results_are_final(
    tmp_path: Path, data: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*arguments: object, **options: object) -> None:
        raise AssertionError("a hole was drawn")

    first = deep_only(data, tmp_path)
    problems.draw_holes.cache_clear()
    monkeypatch.setattr(problems, "known_in_bin", never)
    assert numbers(deep_only(data, tmp_path)) == numbers(first)
    with pytest.raises(AssertionError, match="a hole was drawn"):
        deep_only(data, tmp_path / "new")
