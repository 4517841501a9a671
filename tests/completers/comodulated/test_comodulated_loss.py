"""The losses of CoModGAN equal their definitions, and the R1 penalty equals closed forms and finite differences."""

import copy
import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from helpers.models import generator, images, some_known
from torch import Tensor, nn

from condvae.completers.comodulated import Comodulated, ComodulatedConfig, ComodulatedLoss
from condvae.completers.comodulated.comodulated_loss import r1_images, r1_penalty
from condvae.noise import GeneratorNoise, SeededNoise
from condvae.training.flat_parameters import FlatParameters

SIZE = 8
TINY: dict[str, Any] = {
    "image_size": SIZE,
    "max_width": 8,
    "latent_features": 6,
    "mapping_layers": 2,
    "code_features": 10,
}
X, KNOWN = images(8, size=SIZE), some_known(8, size=SIZE)


def tiny_loss(**changes: Any) -> ComodulatedLoss:
    """A loss in training mode, with noise in the pixels."""
    torch.manual_seed(0)
    loss = ComodulatedLoss(Comodulated(ComodulatedConfig(**(TINY | changes))))
    for name, parameter in loss.named_parameters():
        if name.endswith("noise_strength"):
            nn.init.constant_(parameter, 0.3)
    return loss.train()


def noise() -> SeededNoise:
    return SeededNoise(range(len(X)))


def has_gradients(module: nn.Module) -> list[bool]:
    return [parameter.grad is not None and bool(parameter.grad.any()) for parameter in module.parameters()]


@pytest.mark.parametrize(("batch", "channels", "size"), [(1, 1, 8), (5, 3, 16)])
def test_r1_of_a_linear_critic(batch: int, channels: int, size: int) -> None:
    a, weight = torch.tensor(0.3, requires_grad=True), 10.0
    x = images(batch, size=size, channels=channels)
    found = r1_penalty(lambda image: a * image.sum(dim=(1, 2, 3)), x, weight)
    pixels = channels * size**2
    assert found.item() == pytest.approx(weight * 0.3**2 * pixels / 2, rel=1e-5)
    (slope,) = torch.autograd.grad(found, a)
    assert slope.item() == pytest.approx(weight * 0.3 * pixels, rel=1e-5)


def test_r1_is_a_mean_over_images() -> None:
    x = torch.stack((torch.full((1, 2, 2), 1.0), torch.full((1, 2, 2), 3.0)))
    found = r1_penalty(lambda image: image.square().sum(dim=(1, 2, 3)), x, 1.0)  # the gradient is 2 x
    assert found.item() == pytest.approx((4 * 2**2 + 4 * 6**2) / 2 / 2)


def test_r1_and_its_gradient_equal_finite_differences() -> None:
    loss = tiny_loss(max_width=4).double()
    critic, x, known = loss.critic, X[:4].double(), KNOWN[:4]

    def penalty() -> Tensor:
        return r1_penalty(lambda image: critic(image, known), x, 10.0)

    step, squares = 1e-5, torch.zeros(4, dtype=torch.float64)
    with torch.no_grad():  # the sum of the logits, because images of a group affect each other
        for pixel in range(3 * SIZE**2):
            shift = torch.zeros(3 * SIZE**2, dtype=torch.float64)
            shift[pixel] = step
            for i in range(4):
                both = []
                for sign in (1, -1):
                    moved = x.clone()
                    moved[i] += sign * shift.view(3, SIZE, SIZE)
                    both.append(critic(moved, known).sum())
                squares[i] += ((both[0] - both[1]) / (2 * step)) ** 2
    torch.testing.assert_close(penalty().detach(), 5 * squares.mean(), rtol=1e-4, atol=0)

    penalty().backward()
    for name in ("input.weight", "blocks.0.c1.weight", "blocks.0.c2.weight", "blocks.0.shortcut.weight", "conv.weight"):
        weight = critic.get_parameter(name)
        direction = torch.randn(weight.shape, generator=generator(), dtype=torch.float64)
        values = []
        for sign in (1, -1):
            with torch.no_grad():
                weight.add_(direction, alpha=sign * step)
                values.append(penalty().item())
                weight.sub_(direction, alpha=sign * step)
        assert weight.grad is not None
        expected = (values[0] - values[1]) / (2 * step)
        assert float((weight.grad * direction).sum()) == pytest.approx(expected, rel=1e-4, abs=1e-7), name


def test_r1_uses_a_part_of_the_batch() -> None:
    batches = {(64, 1 / 16): 4, (128, 1 / 16): 8, (32, 1 / 16): 4, (96, 1 / 16): 8, (3, 1 / 16): 3, (64, 1): 64}
    assert {given: r1_images(*given) for given in batches} == batches
    loss = tiny_loss()
    found = loss.critic_loss(X, KNOWN, noise()).parts["r1"]
    expected = r1_penalty(lambda image: loss.critic(image, KNOWN[:4]), X[:4], 10.0)
    torch.testing.assert_close(found, expected.detach())
    # Its expectation does not depend on the part: two parts of a batch have the mean of the whole batch.
    second = r1_penalty(lambda image: loss.critic(image, KNOWN[4:]), X[4:], 10.0)
    whole = tiny_loss(r1_part=1.0).critic_loss(X, KNOWN, noise()).parts["r1"]
    torch.testing.assert_close(whole, ((expected + second) / 2).detach())


def test_losses_equal_their_definitions() -> None:
    loss = tiny_loss(r1_weight=3.0)
    critic = loss.critic
    made = torch.where(KNOWN, X, loss.completer.decode(loss.completer.encode(X, KNOWN), noise()))
    ones, zeros = torch.ones(8), torch.zeros(8)
    found = loss(X, KNOWN, noise())
    fooled = F.binary_cross_entropy_with_logits(critic(made, KNOWN), ones)
    torch.testing.assert_close(found.total, fooled)
    assert tuple(found.parts) == loss.figures
    found = loss.critic_loss(X, KNOWN, noise())
    parts = {
        "real": F.binary_cross_entropy_with_logits(critic(X, KNOWN), ones),
        "fake": F.binary_cross_entropy_with_logits(critic(made, KNOWN), zeros),
        "r1": r1_penalty(lambda image: critic(image, KNOWN[:4]), X[:4], 3.0),
    }
    assert tuple(found.parts) == loss.critic_figures
    torch.testing.assert_close(dict(found.parts), {name: part.detach() for name, part in parts.items()})
    torch.testing.assert_close(found.total, torch.stack(list(parts.values())).sum())
    assert found.total.dtype == torch.float32 and not any(part.requires_grad for part in found.parts.values())
    without = tiny_loss(r1_weight=0.0).critic_loss(X, KNOWN, noise())
    assert float(without.parts["r1"]) == 0
    torch.testing.assert_close(without.total, parts["real"] + parts["fake"])


def test_gradients_reach_all_weights_of_the_trained_network_and_no_others() -> None:
    loss = tiny_loss()
    loss(X, KNOWN, noise()).total.backward()
    assert all(has_gradients(loss.completer))
    assert all(weight.grad is None and weight.requires_grad for weight in loss.critic.parameters())
    loss.completer.zero_grad()
    loss.critic_loss(X, KNOWN, noise()).total.backward()
    assert all(has_gradients(loss.critic))
    assert all(weight.grad is None and weight.requires_grad for weight in loss.completer.parameters())


def test_r1_trains_weights_that_are_views_of_one_vector() -> None:
    plain = tiny_loss()
    flat_loss = copy.deepcopy(plain)
    flat = FlatParameters(flat_loss.critic.to(memory_format=torch.channels_last))  # type: ignore[call-overload]
    for loss in (plain, flat_loss):
        (0.5 * loss.critic_loss(X, KNOWN, noise()).total).backward()
    for name, gradient in flat.by_name(flat.gradients).items():
        expected = plain.critic.get_parameter(name).grad
        assert expected is not None
        torch.testing.assert_close(gradient, expected, rtol=1e-4, atol=1e-6)
    assert bool(flat.gradients.any())


def test_the_penalty_needs_no_caller_with_gradients() -> None:
    with torch.no_grad():
        found = tiny_loss().critic_loss(X, KNOWN, noise())
    assert all(bool(part.isfinite()) for part in found.parts.values()) and float(found.parts["r1"]) > 0


@pytest.mark.parametrize("channels", [1, 3])
def test_autocast_gives_nearly_the_same_losses_in_float32(channels: int) -> None:
    loss = tiny_loss(channels=channels)
    x = X[:, :channels]
    expected = [part(x, KNOWN, noise()) for part in (loss.forward, loss.critic_loss)]
    loss.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    with torch.autocast("cpu", torch.bfloat16):
        found = [part(x, KNOWN, noise()) for part in (loss.forward, loss.critic_loss)]
    for mine, theirs in zip(found, expected, strict=True):
        assert mine.total.dtype == torch.float32 and all(part.dtype == torch.float32 for part in mine.parts.values())
        torch.testing.assert_close(dict(mine.parts), dict(theirs.parts), rtol=0.03, atol=0.03)
        mine.total.backward()
    # The penalty is computed in float32, so that it is the same number.
    torch.testing.assert_close(found[1].parts["r1"], expected[1].parts["r1"], rtol=1e-4, atol=1e-6)
    assert all(p.grad is not None and bool(p.grad.isfinite().all()) for p in loss.parameters())


@pytest.mark.parametrize("fill", [True, False])
def test_losses_and_gradients_are_finite_for_whole_and_empty_observations(fill: bool) -> None:
    loss = tiny_loss()
    x, known = X[:2], torch.full_like(KNOWN[:2], fill)
    seeds = SeededNoise([0, 1])
    (loss(x, known, seeds).total + loss.critic_loss(x, known, seeds).total).backward()
    assert all(p.grad is None or bool(p.grad.isfinite().all()) for p in loss.parameters())


def test_training_teaches_the_colour_of_images() -> None:
    """Images of one colour: completions start near 0 and come close to the colour, which only the critic knows."""
    loss = tiny_loss(max_width=16, r1_weight=1.0)
    x = torch.full((8, 3, SIZE, SIZE), 0.6) + 0.05 * torch.randn(8, 3, SIZE, SIZE, generator=generator())
    known = torch.zeros_like(KNOWN)
    random = GeneratorNoise(generator())
    optimisers = [torch.optim.Adam(part.parameters(), 4e-3, (0.0, 0.99)) for part in (loss.critic, loss.completer)]

    def error() -> float:
        with torch.no_grad():
            return float((loss.completer(x, known, noise()).mean(dim=(2, 3)) - 0.6).abs().mean())

    before = error()
    for _ in range(60):
        for optimiser, function in zip(optimisers, (loss.critic_loss, loss.forward), strict=True):
            optimiser.zero_grad()
            function(x, known, random).total.backward()
            optimiser.step()
    assert before > 0.4 and error() < 0.5 * before
    assert math.isfinite(error())


def test_the_critic_learns_to_tell_completions_from_images() -> None:
    loss = tiny_loss(r1_weight=0.1)
    optimiser = torch.optim.Adam(loss.critic.parameters(), 1e-2, (0.0, 0.99))
    totals = []
    for _ in range(25):
        optimiser.zero_grad()
        found = loss.critic_loss(X, KNOWN, noise())
        found.total.backward()
        optimiser.step()
        totals.append(float(found.parts["real"] + found.parts["fake"]))
    assert totals[-1] < 0.7 < 1.3 < totals[0]  # 2 log 2 = 1.39 without any knowledge
