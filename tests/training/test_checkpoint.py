"""Checkpoints restore the whole state, old or damaged ones are removed, and those of other models are rejected."""

from pathlib import Path

import pytest
import torch
from helpers.models import generator, small_vae

from condvae.runtime.ranks import World
from condvae.training.checkpoint import Checkpoints, Position, pack, unpack
from condvae.training.optimiser import Rule
from condvae.training.step import MicroBatch, TrainingStep
from condvae.training.task import Pretraining
from condvae.vdvae import preset
from condvae.weights import sealed_file


def make_step(seed: int = 0, channels: int = 3) -> TrainingStep:
    vae = small_vae(preset("tiny", channels=channels), seed=seed)
    return TrainingStep(Pretraining(vae), Rule(), World(0, 1, torch.device("cpu")), precision="fp32", flip=True)


def advance(step: TrainingStep, number: int) -> None:
    from condvae.data import LevelBatch

    images = torch.randint(256, (4, 3, 8, 8), dtype=torch.uint8, generator=generator(number))
    step([MicroBatch(LevelBatch(images, None, None), generator(number))], torch.tensor(1e-3), shards=1)


def test_the_next_step_after_loading_equals_the_next_step_of_the_original(tmp_path: Path) -> None:
    one, other = make_step(), make_step(seed=1)
    checkpoints = Checkpoints(tmp_path, keep=1, options={})
    for number in range(3):
        advance(one, number)
    checkpoints.save(Position(step=3), pack(one))
    found = checkpoints.latest(pytest.fail)
    assert found is not None
    unpack(other, found[1], tmp_path)
    for step in (one, other):
        advance(step, 3)
    mine, theirs = one.optimiser, other.optimiser
    for name in ("first", "second", "average", "updates"):
        assert torch.equal(getattr(mine, name), getattr(theirs, name)), name
    assert torch.equal(one.flat.values, other.flat.values)
    assert one.report() == other.report()


def test_the_last_few_and_the_best_are_kept(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path, keep=2, options={})
    tensors = {"x": torch.zeros(1)}
    for number in range(6):
        checkpoints.save(Position(step=number, best_step=1 if number else None), tensors)
    assert checkpoints.steps() == [1, 4, 5]
    checkpoints.discard_after(4)
    assert checkpoints.steps() == [1, 4]


def test_a_damaged_checkpoint_is_skipped_with_a_warning(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path, keep=5, options={})
    for number in (1, 2, 3):
        checkpoints.save(Position(step=number), {"x": torch.full((100,), float(number))})
    damaged = bytearray(checkpoints.path(3).read_bytes())
    damaged[-10] ^= 1  # flips one bit and keeps the length of the file
    checkpoints.path(3).write_bytes(damaged)
    checkpoints.path(2).write_bytes(b"")
    warnings: list[str] = []
    found = checkpoints.latest(warnings.append)
    assert found is not None
    assert found[0].step == 1
    assert len(warnings) == 2 and "step-000000003" in warnings[0]
    checkpoints.path(1).unlink()
    assert checkpoints.latest(warnings.append) is None


def test_a_checkpoint_of_another_model_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"is a checkpoint of another model, .*encoder"):
        unpack(make_step(channels=1), pack(make_step()), tmp_path / "x")


@pytest.mark.parametrize(
    "change",
    [{"step": "3"}, {"step": -1}, {"elapsed": None}, {"best_loss": []}, {"lr_scale": "x" * 999}, {"a\x1b": 1}],
)
def test_a_position_of_other_types_is_rejected(tmp_path: Path, change: dict[str, object]) -> None:
    path = Checkpoints(tmp_path).path(3)
    position = {"step": 3, "rollbacks": 0, **change}
    sealed_file.write(path, kind=sealed_file.CHECKPOINT, description={"position": position}, tensors={})
    with pytest.raises(ValueError, match="is not a checkpoint that this version of condvae can read") as refused:
        Checkpoints.read(path)
    assert str(refused.value).isprintable() and len(str(refused.value)) < 500
