"""Killed and taken up again, shared out, cut otherwise: the same numbers."""

import json
from pathlib import Path
from typing import Any

import pytest
from helpers.design_runs import numbers, small_experiment
from helpers.fixtures import HELPERS
from helpers.resumed_runs import contents, times
from helpers.training import kill_and_repeat, run

from condvae.experiments.resumable_work import Shard

SCRIPT = HELPERS / "design_runs.py"


def test_killed_and_taken_up_again(tmp_path: Path, folder: Path, whole: dict[str, Any]) -> None:
    out = tmp_path / "killed"
    kill_and_repeat(SCRIPT, out, parts=10)
    assert numbers(json.loads((out / "results.json").read_text())) == numbers(whole)
    assert contents(out) == contents(folder)


def test_two_ranks(tmp_path: Path, whole: dict[str, Any]) -> None:
    run(tmp_path / "out", script=SCRIPT, ranks=2)
    assert numbers(json.loads((tmp_path / "out" / "results.json").read_text())) == numbers(whole)


def test_shards_that_know_nothing_of_each_other(tmp_path: Path, folder: Path, whole: dict[str, Any]) -> None:
    for number in (3, 1, 2):
        assert small_experiment(tmp_path, shard=Shard(number, 3)) is None
    assert not (tmp_path / "results.json").exists()
    before = times(tmp_path)
    joined = small_experiment(tmp_path)
    assert times(tmp_path) == before
    assert numbers(joined) == numbers(whole)
    assert contents(tmp_path) == contents(folder)


def test_other_blocks(tmp_path: Path, whole: dict[str, Any]) -> None:
    result = small_experiment(tmp_path, block=24)
    assert numbers(result)["policies"]["random"] == numbers(whole)["policies"]["random"]
    for policy, found in numbers(result)["policies"].items():
        assert found["where"] == whole["policies"][policy]["where"]


def test_a_damaged_part_is_one_sentence(tmp_path: Path) -> None:
    change: dict[str, Any] = {"policies": ("random",)}
    small_experiment(tmp_path, change=change)
    part = next(tmp_path.rglob("*.safetensors"))
    part.write_bytes(part.read_bytes()[:-1])
    with pytest.raises(ValueError, match="remove it and run once more"):
        small_experiment(tmp_path, change=change)
    part.unlink()
    assert small_experiment(tmp_path, change=change) is not None
