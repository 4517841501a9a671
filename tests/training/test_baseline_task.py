"""A baseline trains by Adam, its critic first; a step that went wrong leaves no trace; errors count hidden pixels."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from helpers.tiny_baselines import EXACT, SIZE, WITH_CRITIC, levels, micro_batch, take, tiny_loss, tiny_step
from torch import Tensor, nn

from condvae.completers.context_encoder import ContextEncoderLoss
from condvae.data import ImageSet
from condvae.noise import as_noise
from condvae.observe import Halves, parse
from condvae.observe.batch import Batch
from condvae.runtime.ranks import World
from condvae.runtime.seeds import Seeds
from condvae.training import baseline_task
from condvae.training.baseline_task import BaselineTraining
from condvae.training.step import MicroBatch, TrainingStep


def state(module: nn.Module | None) -> dict[str, Tensor]:
    """Copies of all weights and buffers of a network."""
    assert module is not None
    return {name: value.detach().clone() for name, value in module.state_dict().items()}


def weights(module: nn.Module | None) -> list[Tensor]:
    assert module is not None
    return [parameter.detach().clone() for parameter in module.parameters()]


def same(one: list[Tensor], other: list[Tensor]) -> bool:
    return all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


def drawn(batch: MicroBatch, dice: torch.Generator | None) -> tuple[Tensor, Tensor]:
    """The images of a micro-batch, half of them mirrored, and their known pixels."""
    assert dice is not None
    x = batch.levels.batch().x
    mirrored = torch.rand(len(x), generator=dice) < 0.5
    return torch.where(mirrored[:, None, None, None], x.flip(3), x), Halves().draw(len(x), SIZE, dice)


def test_a_step_of_a_gan_updates_the_critic_and_then_the_model() -> None:
    """Three steps of a context encoder equal those of torch's Adam with losses that are written out here."""
    step = tiny_step("ce", adversarial=0.3)
    reference = tiny_loss("ce", adversarial=0.3).train()
    net, critic = reference.completer, reference.critic
    assert isinstance(reference, ContextEncoderLoss) and critic is not None
    options: dict[str, Any] = {"lr": 1e-3, "betas": (EXACT.beta1, EXACT.beta2)}
    optimisers = [torch.optim.Adam(one.parameters(), **options) for one in (critic, net)]
    bce = F.binary_cross_entropy_with_logits
    logged: list[tuple[float, float]] = []
    for seed in range(3):
        batch = micro_batch(seed)
        x, known = drawn(batch, batch.critic_generator)
        made = net(x, known).detach()
        logits = critic(x), critic(made)
        critic_loss = bce(logits[0], torch.ones(len(x))) + bce(logits[1], torch.zeros(len(x)))
        reference.zero_grad()
        critic_loss.backward()
        optimisers[0].step()
        x, known = drawn(batch, batch.generator)  # other holes, and the critic has changed
        made = net(x, known)
        loss = 0.3 * bce(critic(made), torch.ones(len(x))) + 0.7 * F.mse_loss(made, x)
        reference.zero_grad()
        loss.backward()
        optimisers[1].step()
        logged.append((loss.item(), critic_loss.item()))
        take(step, seed)
    for mine, theirs in ((step.task.model, net), (step.task.critic, critic)):
        expected = state(theirs)
        for name, value in state(mine).items():
            torch.testing.assert_close(value, expected[name], rtol=1e-3, atol=1e-5, msg=name)
    progress = step.report()
    losses, critic_losses = zip(*logged, strict=True)
    assert progress.loss == pytest.approx(np.mean(losses), rel=1e-4)
    assert progress.critic["loss"] == pytest.approx(np.mean(critic_losses), rel=1e-4)
    assert progress.critic["loss"] == pytest.approx(progress.critic["real"] + progress.critic["fake"], rel=1e-5)
    assert progress.loss == pytest.approx(
        0.3 * progress.figures["adversarial"] + 0.7 * progress.figures["squared_error"], rel=1e-5
    )


@pytest.mark.parametrize("kind", WITH_CRITIC)
def test_each_update_moves_its_own_network_only(kind: str) -> None:
    step = tiny_step(kind)
    assert step.critic is not None
    assert list(step.learners) == ["critic", "model"]
    for learner, other in ((step.critic, step.model), (step.model, step.critic)):
        step.begin()
        mine, theirs = weights(learner.module), weights(other.module)
        trained = [parameter.requires_grad for parameter in other.module.parameters()]
        step.learn(learner, micro_batch(1), share=1.0)
        assert bool(learner.flat.gradients.any()) and not bool(other.flat.gradients.any())
        step.update(learner, torch.tensor(1e-3))
        assert not same(weights(learner.module), mine)
        assert same(weights(other.module), theirs)
        assert [parameter.requires_grad for parameter in other.module.parameters()] == trained and any(trained)


def test_micro_batches_add_up_without_batch_statistics() -> None:
    step, reference = tiny_step("anp"), tiny_loss("anp").train()
    losses = []
    for seed in range(2):
        batch = micro_batch(seed)
        x, known = drawn(batch, batch.generator)
        losses.append(reference(x, known, as_noise(batch.generator)))
    mean = (losses[0].total + losses[1].total) / 2
    mean.backward()
    step([micro_batch(seed) for seed in range(2)], torch.tensor(1e-3), shards=2)
    for name, parameter in reference.completer.named_parameters():
        mine = step.flat.view(step.flat.gradients, name)
        torch.testing.assert_close(mine, parameter.grad, rtol=1e-3, atol=1e-6, msg=name)
    progress = step.report()
    assert progress.loss == pytest.approx(mean.item(), rel=1e-5)
    assert progress.critic == {}
    for name, value in progress.figures.items():
        assert value == pytest.approx(np.mean([loss.parts[name].item() for loss in losses]), rel=1e-5)


@contextmanager
def nan_in(step: TrainingStep, name: str) -> Iterator[None]:
    """Context in which the images are NaN in the loss of this name."""
    whole = getattr(step.task, name)

    def broken(batch: Batch, generator: torch.Generator) -> Any:
        return whole(Batch(x=torch.full_like(batch.x, torch.nan)), generator)

    setattr(step.task, name, broken)
    try:
        yield
    finally:
        setattr(step.task, name, whole)


@pytest.mark.parametrize("kind", ["ce", "pic", "rfr"])
def test_steps_with_nan_leave_no_trace_and_training_recovers(kind: str) -> None:
    """Weights, moments, averages, BatchNorm's statistics and spectral norm's u equal those of a run without them."""
    step, spared = tiny_step(kind), tiny_step(kind)
    assert len(step.buffers.values) > 0
    for seed in range(4):
        if seed in (0, 3):
            take(step, seed)
            take(spared, seed)
            continue
        with nan_in(step, "loss"), nan_in(step, "critic_loss"):
            take(step, seed)
        assert torch.equal(step.buffers.values, spared.buffers.values)
    assert torch.equal(step.buffers.values, spared.buffers.values)
    for name, learner in step.learners.items():
        expected = spared.learners[name].optimiser.vectors()
        for vector, values in learner.optimiser.vectors().items():
            assert torch.equal(values, expected[vector]), f"{name} {vector}"
        assert learner.optimiser.updates.item() == 2
    assert all(bool(torch.isfinite(value).all()) for value in state(step.task.model).values())
    progress, other = step.report(), spared.report()
    assert (progress.steps, progress.skipped, progress.longest_streak, progress.streak) == (4, 2, 2, 0)
    assert (progress.loss, progress.figures, progress.critic) == (other.loss, other.figures, other.critic)


@pytest.mark.parametrize("kind", WITH_CRITIC)
def test_a_nan_in_the_model_alone_skips_its_update_and_counts(kind: str) -> None:
    step = tiny_step(kind)
    take(step, 0)
    assert step.critic is not None
    kept, critics, models = step.buffers.values.clone(), weights(step.task.critic), weights(step.task.model)
    with nan_in(step, "loss"):
        take(step, 1)
    assert same(weights(step.task.model), models) and torch.equal(step.buffers.values, kept)
    assert not same(weights(step.task.critic), critics)
    assert (step.critic.optimiser.updates.item(), step.optimiser.updates.item()) == (2, 1)
    progress = step.report()
    assert (progress.steps, progress.skipped, progress.streak) == (2, 1, 1)


@pytest.mark.parametrize("kind", WITH_CRITIC)
def test_a_nan_in_the_critic_alone_skips_its_update_and_counts(kind: str) -> None:
    step = tiny_step(kind)
    take(step, 0)
    step.report()
    assert step.critic is not None
    kept, critics, models = step.buffers.values.clone(), weights(step.task.critic), weights(step.task.model)
    moments = step.critic.optimiser.second.clone()
    with nan_in(step, "critic_loss"):
        take(step, 1)
    assert same(weights(step.task.critic), critics) and torch.equal(step.critic.optimiser.second, moments)
    assert torch.equal(step.buffers.values, kept)
    assert not same(weights(step.task.model), models)  # the model's own loss was finite
    assert all(bool(torch.isfinite(value).all()) for value in weights(step.task.model))
    assert (step.critic.optimiser.updates.item(), step.optimiser.updates.item()) == (1, 2)
    progress = step.report()
    assert (progress.steps, progress.skipped, progress.streak) == (1, 1, 1)
    assert math.isnan(progress.loss) and math.isnan(progress.critic["loss"])
    take(step, 2)
    again = step.report()
    assert (again.steps, again.skipped, again.streak) == (1, 0, 0)
    assert math.isfinite(again.loss) and math.isfinite(again.critic["loss"])


class Echo(World):
    """The world of one of two ranks that both have the same images and random numbers."""

    def sum(self, tensor: Tensor) -> Tensor:
        return tensor.mul_(2)


@pytest.mark.parametrize("kind", WITH_CRITIC)
def test_two_ranks_with_the_same_images_equal_one_rank(kind: str) -> None:
    """Gradients are summed over ranks, and buffers averaged."""
    alone, echo = tiny_step(kind), tiny_step(kind, world=Echo(0, 2, torch.device("cpu")))
    for seed in range(2):
        take(alone, seed)
        echo([micro_batch(seed)], torch.tensor(1e-3), shards=2)
    torch.testing.assert_close(echo.buffers.values, alone.buffers.values)
    torch.testing.assert_close(echo.flat.values, alone.flat.values)
    assert echo.report().loss == pytest.approx(alone.report().loss, rel=1e-5)


def held_out(n: int) -> ImageSet:
    return ImageSet(images=levels(n).images.permute(0, 2, 3, 1).numpy().copy(), rows=np.arange(n))


@pytest.mark.parametrize("kind", ["ce", "anp"])
def test_the_held_out_error_is_the_mean_over_images_of_errors_of_hidden_pixels(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(baseline_task, "_CHUNK", 4)
    step = tiny_step(kind, process=parse(("boxes", "halves")))  # type: ignore[arg-type]
    task = step.task
    assert isinstance(task, BaselineTraining)
    for seed in range(3):
        take(step, seed)
    before = state(task.model)
    images = held_out(9)
    found = task.evaluate(step, images, seed=4)
    x = images.take(np.arange(9)).batch().x
    seeds, cpu = Seeds(4, "evaluation"), torch.device("cpu")
    known = torch.cat([task.process.draw(n, SIZE, seeds.generator(i, cpu)) for i, n in enumerate((4, 4, 1))])
    made = task.model.complete(task.model.observe(x, known), 1, 4)[:, 0]
    wrong = (made.double() - images.take(np.arange(9)).images.double()).abs()
    errors = [float(wrong[i][:, ~known[i, 0]].mean()) for i in range(9)]
    assert found.images == 9
    assert found.loss == pytest.approx(np.mean(errors), rel=1e-6)
    assert found.standard_error == pytest.approx(np.std(errors) / 3, rel=1e-6)
    # An evaluation changes nothing.
    assert task.model.training
    assert all(torch.equal(value, before[name]) for name, value in state(task.model).items())


def test_evaluations_repeat_exactly() -> None:
    step = tiny_step("anp", width=2)
    found = step.task.evaluate(step, held_out(7), seed=1)
    assert found == step.task.evaluate(step, held_out(7), seed=1)
    assert found.loss != step.task.evaluate(step, held_out(7), seed=2).loss
    with pytest.raises(ValueError, match="there are no images to evaluate on"):
        step.task.evaluate(step, held_out(0), seed=1)


def test_holes_do_not_depend_on_the_precision_and_the_critic_has_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Tensor] = []
    draw = Halves.draw

    def note(self: Halves, n: int, size: int, generator: torch.Generator) -> Tensor:
        seen.append(draw(self, n, size, generator))
        return seen[-1]

    monkeypatch.setattr(Halves, "draw", note)
    steps = [tiny_step("ce"), tiny_step("ce", precision="bf16")]
    for step in steps:
        take(step, 5)
    critic, model, *others = seen
    assert torch.equal(critic, others[0]) and torch.equal(model, others[1])
    assert not torch.equal(critic, model)
    exact, coarse = (step.report() for step in steps)
    assert coarse.loss == pytest.approx(exact.loss, rel=0.05) and coarse.loss != exact.loss
