"""Shared out, cut otherwise, added to: the same numbers."""

from pathlib import Path
from typing import Any

from helpers.ood_runs import SMALL, numbers, small_experiment, small_models
from helpers.sittings import contents, times

from condvae.experiments.resumable_work import Shard

SOME: dict[str, Any] = {"change": {"scores": ("parts-2",), "baselines": ("completed-nearest",)}}
"""Of both models."""


def test_shards_that_know_nothing_of_each_other(tmp_path: Path, folder: Path, whole: dict[str, Any]) -> None:
    for number in (3, 1, 2):
        assert small_experiment(tmp_path, shard=Shard(number, 3), **SOME) is None
    assert not (tmp_path / "results.json").exists()
    before = times(tmp_path)
    found = numbers(small_experiment(tmp_path, **SOME))["methods"]
    assert times(tmp_path) == before
    assert found == {name: whole["methods"][name] for name in found} and len(found) == 4
    assert contents(tmp_path).items() <= contents(folder).items()


def test_other_blocks(tmp_path: Path, whole: dict[str, Any]) -> None:
    """On a CPU images are computed one by one, so nothing differs at all."""
    found = numbers(small_experiment(tmp_path, block=None, **SOME))["methods"]
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
