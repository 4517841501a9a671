"""Resumed, sharded, split differently or extended, an experiment gives the same numbers."""

import json
from pathlib import Path
from typing import Any

from helpers.fixtures import HELPERS
from helpers.ood_runs import SMALL, numbers, small_experiment, small_models
from helpers.resumed_runs import contents, kill_and_repeat, times

from condvae.experiments.resumable_work import Shard

SCRIPT = HELPERS / "ood_runs.py"


def test_killed_and_resumed_by_two_ranks(tmp_path: Path, folder: Path, whole: dict[str, Any]) -> None:
    kill_and_repeat(SCRIPT, tmp_path / "out", parts=10, ranks=2)
    assert numbers(json.loads((tmp_path / "out" / "results.json").read_text())) == numbers(whole)
    assert contents(tmp_path / "out") == contents(folder)


def test_independent_shards(tmp_path: Path, folder: Path, whole: dict[str, Any]) -> None:
    change: dict[str, Any] = {"scores": ("gradient",), "baselines": ("completed-nearest",)}
    model = {"ipa": small_models()["ipa"]}
    for number in (3, 1, 2):
        assert small_experiment(tmp_path, change=change, models=model, shard=Shard(number, 3)) is None
    assert not (tmp_path / "results.json").exists()
    before = times(tmp_path)
    joined = numbers(small_experiment(tmp_path, change=change, models=model))
    assert times(tmp_path) == before
    assert joined["methods"] == {name: whole["methods"][name] for name in joined["methods"]}
    assert contents(tmp_path).items() <= contents(folder).items()


def test_other_block_sizes(tmp_path: Path, whole: dict[str, Any]) -> None:
    """On a CPU images are computed one by one, so the results are identical."""
    change: dict[str, Any] = {"scores": ("parts-2",), "baselines": ("completed-nearest",)}
    model = {"ipa": small_models()["ipa"]}
    found = numbers(small_experiment(tmp_path, change=change, models=model, block=None))["methods"]
    assert found == {name: whole["methods"][name] for name in found} and len(found) == 2


def test_additions_leave_existing_results_untouched(tmp_path: Path, folder: Path, whole: dict[str, Any]) -> None:
    first: dict[str, Any] = {"scores": SMALL.scores[:1], "baselines": (), "sets": ("noise",)}
    model = {"ipa": small_models()["ipa"]}
    poor = small_experiment(tmp_path, change=first, models=model, foreign={})
    assert poor is not None and list(poor["methods"]) == ["ipa gradient"] and poor["means"] == {}
    assert poor["methods"]["ipa gradient"]["auroc"]["noise"] == whole["methods"]["ipa gradient"]["auroc"]["noise"]
    before = times(tmp_path)
    rich = numbers(small_experiment(tmp_path, change={"scores": SMALL.scores[:2], "baselines": ()}))
    assert before.items() <= times(tmp_path).items()
    assert rich["methods"] == {name: whole["methods"][name] for name in rich["methods"]} and len(rich["methods"]) == 4
    assert contents(tmp_path).items() <= contents(folder).items()
