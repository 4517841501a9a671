"""Killed and continued, sharded, or in other blocks, an experiment gives the same numbers."""

import json
from pathlib import Path
from typing import Any

from helpers.design_runs import numbers, small_experiment
from helpers.fixtures import HELPERS
from helpers.resumed_runs import contents, kill_and_repeat, times

from condvae.experiments.resumable_work import Shard

SCRIPT = HELPERS / "design_runs.py"


def test_a_killed_experiment_is_continued_by_two_ranks(tmp_path: Path, folder: Path, whole: dict[str, Any]) -> None:
    kill_and_repeat(SCRIPT, tmp_path / "out", parts=10, ranks=2)
    assert numbers(json.loads((tmp_path / "out" / "results.json").read_text())) == numbers(whole)
    assert contents(tmp_path / "out") == contents(folder)


def test_independent_shards(tmp_path: Path, folder: Path, whole: dict[str, Any]) -> None:
    for number in (3, 1, 2):
        assert small_experiment(tmp_path, shard=Shard(number, 3)) is None
    assert not (tmp_path / "results.json").exists()
    before = times(tmp_path)
    joined = small_experiment(tmp_path)
    assert times(tmp_path) == before
    assert numbers(joined) == numbers(whole)
    assert contents(tmp_path) == contents(folder)


def test_the_block_size_does_not_matter(tmp_path: Path, whole: dict[str, Any]) -> None:
    result = small_experiment(tmp_path, block=24)
    assert numbers(result)["policies"]["random"] == numbers(whole)["policies"]["random"]
    for policy, found in numbers(result)["policies"].items():
        assert found["where"] == whole["policies"][policy]["where"]
