"""Interrupted, sharded, or with replaced files, an experiment gives the numbers of one uninterrupted call."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from helpers.fixtures import HELPERS
from helpers.pretraining_runs import first_seed, inputs, numbers, small_experiment
from helpers.resumed_runs import contents, kill_and_repeat, times

from condvae.experiments.pretraining.measure import PretrainingContext
from condvae.experiments.resumable_work import Shard
from condvae.training.loop import Loop

FIRST: dict[str, Any] = {"artifacts": {"ipa": inputs().artifacts["ipa"]}}


def results(folder: Path) -> dict[str, bytes]:
    """The contents of all snapshots and of their numbers."""
    kept = contents(folder).items()
    return {name: content for name, content in kept if "/step-" in name and "checkpoints" not in name}


def two_arms(whole: dict[str, Any]) -> dict[str, Any]:
    """The numbers of a result for the arms scratch and ipa, with the seed 0 only."""
    return {name: first_seed(arm) for name, arm in numbers(whole)["arms"].items() if name != "transfer"}


def test_killed_and_repeated(tmp_path: Path, folder: Path, whole: dict[str, Any]) -> None:
    kill_and_repeat(HELPERS / "pretraining_runs.py", tmp_path / "out", parts=60)
    assert numbers(json.loads((tmp_path / "out" / "results.json").read_text())) == numbers(whole)
    assert results(tmp_path / "out") == results(folder)


def test_interrupted_while_training_and_while_measuring(
    tmp_path: Path, folder: Path, whole: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    given = {**FIRST, "change": {"seeds": 1, "conditions": ()}}
    step, answers, steps = Loop._one_step, PretrainingContext.answers, 0

    def interrupted_step(loop: Loop, batches: Any) -> None:
        nonlocal steps
        if loop.options.snapshot_at == (2, 4) and loop.position.step == 3:  # of the arm ipa, after its first snapshot
            raise KeyboardInterrupt
        step(loop, batches)
        steps += 1

    monkeypatch.setattr(Loop, "_one_step", interrupted_step)
    with pytest.raises(KeyboardInterrupt):
        small_experiment(tmp_path, **given)
    assert steps == 4 + 4 + 3 + 3  # both paces, from scratch, and some of ipa

    def counted_step(loop: Loop, batches: Any) -> None:
        nonlocal steps
        step(loop, batches)
        steps += 1

    def interrupted_measurement(context: PretrainingContext, model: Any) -> Any:
        if list(tmp_path.glob("runs/ipa-seed-0-*/step-000000002-*")):  # while the second snapshot is measured
            raise KeyboardInterrupt
        return answers(context, model)

    monkeypatch.setattr(Loop, "_one_step", counted_step)
    monkeypatch.setattr(PretrainingContext, "answers", interrupted_measurement)
    with pytest.raises(KeyboardInterrupt):
        small_experiment(tmp_path, **given)
    assert steps == 15  # the training has been resumed, not repeated
    before = times(tmp_path)
    monkeypatch.setattr(PretrainingContext, "answers", answers)
    found = numbers(small_experiment(tmp_path, **given))
    assert before.items() <= times(tmp_path).items() and steps == 15
    assert found["arms"] == two_arms(whole) and found["conditions"] == {}
    assert results(tmp_path).items() <= results(folder).items()


def test_independent_shards(tmp_path: Path, folder: Path, whole: dict[str, Any]) -> None:
    given = {**FIRST, "change": {"seeds": 1, "conditions": ("grey",)}}
    for number in (2, 1):
        assert small_experiment(tmp_path, shard=Shard(number, 2), **given) is None
    assert not (tmp_path / "results.json").exists()
    before = times(tmp_path)
    found = numbers(small_experiment(tmp_path, **given))
    assert times(tmp_path) == before
    assert found["arms"] == two_arms(whole)
    assert found["conditions"] == {"grey": numbers(whole)["conditions"]["grey"]}
    assert results(tmp_path).items() <= results(folder).items()


def test_a_replaced_snapshot_is_found_and_computed_again(tmp_path: Path, folder: Path, whole: dict[str, Any]) -> None:
    out = shutil.copytree(folder, tmp_path / "out")
    (mine,), (other,) = ((out / "runs").glob(f"ipa-seed-{seed}-*") for seed in (0, 1))
    for file in mine.glob("step-*"):
        file.unlink()
    name = "training/snapshots/step-000000002.safetensors"
    shutil.copy(other / name, mine / name)
    words = rf"{mine / name} does not belong to this training \(ipa, seed 0, 2 steps\): delete {mine} and run the same"
    with pytest.raises(ValueError, match=words):
        small_experiment(out)
    (mine / name).unlink()
    with pytest.raises(ValueError, match=f"{mine / name} is missing: delete {mine} and run the same command again"):
        small_experiment(out)
    shutil.rmtree(mine)
    assert small_experiment(out) == whole == json.loads((out / "results.json").read_text())
    assert results(out) == results(folder)
