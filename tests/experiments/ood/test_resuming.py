"""Killed and taken up again, shared out, cut otherwise, added to: the same numbers."""

import json
from pathlib import Path
from typing import Any

import pytest
from helpers.fixtures import HELPERS
from helpers.ood_runs import SMALL, numbers, small_experiment, small_models
from helpers.resumed_runs import contents, times
from helpers.training import kill_and_repeat, run

from condvae.experiments.resumable_work import Shard

SCRIPT = HELPERS / "ood_runs.py"


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
    """On a CPU images are computed one by one, so nothing differs at all."""
    change: dict[str, Any] = {"scores": ("parts-2",), "baselines": ("completed-nearest",)}
    found = numbers(small_experiment(tmp_path, change=change, block=None))["methods"]
    assert found == {name: whole["methods"][name] for name in found} and len(found) == 4


def test_what_is_added_later_leaves_the_rest_untouched(tmp_path: Path, folder: Path, whole: dict[str, Any]) -> None:
    first: dict[str, Any] = {"scores": SMALL.scores[:1], "baselines": (), "sets": ("noise",)}
    model = {"ipa": small_models()["ipa"]}
    poor = small_experiment(tmp_path, change=first, models=model, foreign={})
    assert poor is not None and list(poor["methods"]) == ["ipa gradient"] and poor["means"] == {}
    assert poor["methods"]["ipa gradient"]["auroc"]["noise"] == whole["methods"]["ipa gradient"]["auroc"]["noise"]
    before = times(tmp_path)
    rich = small_experiment(tmp_path)
    assert before.items() <= times(tmp_path).items()
    assert numbers(rich) == numbers(whole) and contents(tmp_path) == contents(folder)


def test_a_damaged_part_is_one_sentence(tmp_path: Path) -> None:
    change: dict[str, Any] = {"scores": ("likelihood",), "baselines": (), "sets": ("noise",)}
    small_experiment(tmp_path, change=change, foreign={})
    part = next(tmp_path.rglob("*.safetensors"))
    part.write_bytes(part.read_bytes()[:-1])
    with pytest.raises(ValueError, match="remove it and run once more"):
        small_experiment(tmp_path, change=change, foreign={})
    part.unlink()
    assert small_experiment(tmp_path, change=change, foreign={}) is not None
