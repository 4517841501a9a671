"""Checkpoints restore the whole state, old or damaged ones are removed, and those of other models are rejected."""

from pathlib import Path

import pytest
import torch
from helpers.models import generator, small_vae
from helpers.tiny_baselines import take, tiny_step

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


@pytest.mark.parametrize("kind", ["ce", "pic", "rfr"])
def test_the_critic_and_all_buffers_are_restored(tmp_path: Path, kind: str) -> None:
    one, other = tiny_step(kind), tiny_step(kind, seed=1)
    for seed in range(2):
        take(one, seed)
    tensors = pack(one)
    names = set(tensors)
    for learner, prefix in ((one.model, ""), (one.critic, "critic/")):
        if learner is not None:
            vectors = ("weights", "first", "second", "average")
            assert {f"{prefix}{vector}/{name}" for vector in vectors for name in learner.flat.parameters} <= names
    buffers = [name for network in one.learners.values() for name in buffers_of(network.module)]
    assert len([name for name in names if name.startswith("buffers/")]) == len(buffers) > 0
    assert ("critic/updates" in names) == (one.critic is not None)
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(Position(step=2), tensors)
    take(one, 2)  # checkpoints contain copies
    found = checkpoints.latest(pytest.fail)
    assert found is not None
    unpack(other, found[1], tmp_path)
    take(other, 2)
    assert {name: tensor.tolist() for name, tensor in pack(one).items()} == {
        name: tensor.tolist() for name, tensor in pack(other).items()
    }
    assert one.report() == other.report()


def buffers_of(module: torch.nn.Module) -> list[str]:
    stored = module.state_dict()
    return [name for name, _ in module.named_buffers() if name in stored]


def test_a_checkpoint_of_another_baseline_is_rejected_and_nothing_is_loaded(tmp_path: Path) -> None:
    step = tiny_step("ce")
    before = pack(step)
    without = tiny_step("pic", adversarial=False)
    for other, odd in (
        (pack(tiny_step("pic")), "average/"),
        (pack(tiny_step("ce", width=8)), "average/"),
        (pack(make_step()), "average/"),
        ({name: part for name, part in before.items() if not name.startswith("buffers/")}, "buffers/0/"),
        ({name: part for name, part in before.items() if not name.startswith("critic/")}, "critic/average/"),
    ):
        with pytest.raises(ValueError, match=f"is a checkpoint of another model, .*: {odd}"):
            unpack(step, other, tmp_path / "x")
    with pytest.raises(ValueError, match=r"is a checkpoint of another model"):
        unpack(without, pack(tiny_step("pic")), tmp_path / "x")
    assert all(torch.equal(part, before[name]) for name, part in pack(step).items())


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
