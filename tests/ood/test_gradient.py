"""The temperature gradient compared with autograd, finite differences and closed forms."""

from collections.abc import Sequence
from typing import Literal

import pytest
import torch
from helpers.models import generator, images, small_vae, some_known
from helpers.ood_models import observing
from torch import Tensor

from condvae import objectives
from condvae.conditional import ConditionalVAE, PartialConfig
from condvae.gaussian import Gaussian
from condvae.noise import SeededNoise
from condvae.observe import Edges, Observation
from condvae.observe.batch import Batch
from condvae.ood.gradient import TemperatureGradient, gradient_and_bound, temperature_gradient
from condvae.ood.inference import Inference
from condvae.vdvae.encoder import Prior
from condvae.vdvae.model import Step

KINDS = ("direct", "relative", "whole")
SEEDS = [3, 8, 21]


def example(kind: str) -> tuple[Inference, Observation]:
    """Return a direct model, a relative model or the artifact alone, in float64, and three observed images."""
    if kind == "whole":
        inference = Inference.of(small_vae().double())
        return inference, inference.observe(images(3))
    form: Literal["direct", "relative"] = "direct" if kind == "direct" else "relative"
    inference = Inference.of(observing(form).double())
    return inference, inference.observe(images(3), some_known(3))


def bound_at(inference: Inference, observation: Observation, t: Tensor) -> Tensor:
    """Return the bound on log p(y; t) with the noise of SEEDS, [B]."""
    assert observation.pixels is not None and observation.known is not None
    return objectives.evidence(
        inference.vae,
        inference.source(observation),
        observation.pixels,
        observation.known[:, 0],
        noise=SEEDS,
        prior_temperature=t,
    ).nats


@pytest.mark.parametrize("kind", KINDS)
def test_it_is_the_derivative_that_autograd_finds(kind: str) -> None:
    inference, observation = example(kind)
    t = torch.ones(3, inference.groups, dtype=torch.float64, requires_grad=True)
    (expected,) = torch.autograd.grad(bound_at(inference, observation, t).sum(), t)
    found = temperature_gradient(inference, observation, noise=SEEDS).total
    assert found.shape == (3, inference.groups)
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_it_is_the_derivative_with_one_temperature_per_channel_too(kind: str) -> None:
    inference, observation = example(kind)
    channels = inference.vae.config.latent_channels
    t = torch.ones(3, inference.groups, channels, dtype=torch.float64, requires_grad=True)

    def minus_kl(step: Step) -> Tensor:
        prior = step.prior()
        wider = Gaussian(prior.mean, prior.log_std + t[:, step.group, :, None, None].log())
        return -step.drawn_from.total_kl_to(wider)

    descent = inference.vae.descend(inference.source(observation), batch=3, noise=SEEDS, score=minus_kl)
    (expected,) = torch.autograd.grad(descent.scores.sum(), t)
    found = temperature_gradient(inference, observation, noise=SEEDS).by_channel
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-9)


@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_it_is_the_limit_of_finite_differences(kind: str) -> None:
    inference, observation = example(kind)
    found = temperature_gradient(inference, observation, noise=SEEDS).total
    step = 1e-5
    for group in range(inference.groups):
        t = torch.ones(inference.groups, dtype=torch.float64)
        higher, lower = t.clone(), t.clone()
        higher[group] += step
        lower[group] -= step
        difference = bound_at(inference, observation, higher) - bound_at(inference, observation, lower)
        torch.testing.assert_close(found[:, group], difference / (2 * step), rtol=1e-6, atol=1e-5)


def test_its_terms_are_those_of_diagonal_gaussians(monkeypatch: pytest.MonkeyPatch) -> None:
    # c is 2 prior standard deviations away and half as wide everywhere: shift 4 and spread 1/4 - 1 per latent.
    inference, observation = example("whole")

    def source(self: Inference, observation: Observation) -> object:
        def shifted(group: int, state: Tensor, prior: Prior) -> Gaussian:
            mean, log_std = prior()
            return Gaussian(mean + 2 * log_std.exp(), log_std - torch.log(torch.tensor(2.0, dtype=log_std.dtype)))

        return shifted

    monkeypatch.setattr(Inference, "source", source)
    gradient = temperature_gradient(inference, observation, noise=SEEDS)
    config = inference.vae.config
    latents = [config.latent_channels * stage.resolution**2 for stage in config.group_stages]
    expected = torch.tensor(latents, dtype=torch.float64).expand(3, -1)
    torch.testing.assert_close(gradient.shift, 4 * expected)
    torch.testing.assert_close(gradient.spread, -0.75 * expected)
    torch.testing.assert_close(gradient.total, 3.25 * expected)


def test_a_partial_encoder_equal_to_the_prior_has_no_gradient() -> None:
    # A relative partial encoder starts equal to the prior, so the bound is highest at t = 1 for any image.
    inference = Inference.of(observing("relative").double())
    with torch.no_grad():
        for head in inference.model.partial.heads:  # type: ignore[union-attr]
            for parameter in head.c4.parameters():
                parameter.zero_()
    gradient = temperature_gradient(inference, inference.observe(images(2), some_known(2)), noise=[1, 2])
    assert gradient.shift.abs().max() < 1e-12 and gradient.spread.abs().max() < 1e-12


@pytest.mark.parametrize("kind", KINDS)
def test_images_of_a_batch_are_independent(kind: str) -> None:
    inference, observation = example(kind)
    together = temperature_gradient(inference, observation, noise=SEEDS, walks=2)
    for i, seed in enumerate(SEEDS):
        alone = temperature_gradient(inference, observation[i : i + 1], noise=[seed], walks=2)
        for single, batched in zip(alone, together, strict=True):
            torch.testing.assert_close(single[0], batched[i], rtol=1e-10, atol=1e-10)
    other = inference.observe(
        torch.cat((images(2), torch.ones(1, 3, 8, 8))), None if kind == "whole" else some_known(3)
    )
    changed = temperature_gradient(inference, other, noise=SEEDS, walks=2)
    torch.testing.assert_close(changed.total[:2], together.total[:2], rtol=1e-12, atol=1e-12)
    assert not torch.allclose(changed.total[2], together.total[2])


def test_several_passes_are_averaged_over_new_latents() -> None:
    inference, observation = example("direct")
    four = temperature_gradient(inference, observation, noise=SEEDS, walks=4)

    def walk(number: int) -> TemperatureGradient:
        class Later:
            def normal(self, stream: int, shape: Sequence[int], device: torch.device) -> Tensor:
                return SeededNoise(SEEDS).normal(number * inference.groups + stream, shape, device)

            uniform = normal

        return temperature_gradient(inference, observation, noise=Later())

    walks = [walk(number) for number in range(4)]
    torch.testing.assert_close(four.total, torch.stack([one.total for one in walks]).mean(dim=0))
    # The coarsest latent group depends on no other latents, so it is the same in each pass.
    torch.testing.assert_close(walks[0].total[:, 0], walks[1].total[:, 0])
    assert not torch.allclose(walks[0].total[:, -1], walks[1].total[:, -1])


@pytest.mark.parametrize("kind", KINDS)
def test_the_bound_of_the_same_pass_is_that_of_the_objectives(kind: str) -> None:
    inference, observation = example(kind)
    assert observation.pixels is not None
    gradient, nats = gradient_and_bound(inference, observation, noise=SEEDS)
    if kind == "whole":
        expected = objectives.elbo(inference.vae, observation.pixels, noise=SEEDS)
    else:
        expected = objectives.reverse(inference.model, observation, noise=SEEDS)  # type: ignore[arg-type]
    torch.testing.assert_close(nats, expected.nats.detach(), rtol=1e-12, atol=1e-9)
    alone = temperature_gradient(inference, observation, noise=SEEDS)
    assert torch.equal(gradient.total, alone.total)


def test_hidden_pixels_do_not_matter() -> None:
    inference = Inference.of(observing())
    x, known = images(2), some_known(2)
    spoilt = torch.where(known, x, torch.nan)
    clean, other = (gradient_and_bound(inference, inference.observe(one, known), noise=[1, 2]) for one in (x, spoilt))
    assert torch.equal(clean[0].total, other[0].total) and torch.equal(clean[1], other[1])


def test_observations_need_not_be_pixels() -> None:
    process = Edges()
    model = ConditionalVAE(small_vae(), PartialConfig(channels=process.channels(3)), process=process)
    inference = Inference.of(model)
    observation = inference.draw(Batch(x=images(2)), generator())
    assert temperature_gradient(inference, observation, noise=[1, 2]).total.isfinite().all()
    with pytest.raises(ValueError, match="contains no pixels"):
        gradient_and_bound(inference, observation, noise=[1, 2])
    with pytest.raises(ValueError, match="observes edges"):
        inference.observe(images(2), some_known(2))


def test_weights_get_no_gradients() -> None:
    inference = Inference.of(small_vae())
    found = temperature_gradient(inference, inference.observe(images(2)), noise=[1, 2])
    assert not found.total.requires_grad and found.total.dtype == torch.float64
    assert all(parameter.grad is None for parameter in inference.vae.parameters())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("value", "said"), [(float("nan"), "NaN"), (3.0, r"\[-1, 1\]")])
def test_invalid_pixel_values_are_refused(kind: str, value: float, said: str) -> None:
    inference, observation = example(kind)
    assert observation.pixels is not None and observation.known is not None
    x = observation.pixels.clone()
    x[tuple(observation.known.expand_as(x).nonzero()[0])] = value  # one known pixel
    spoilt = inference.observe(x, observation.known)
    for function in (temperature_gradient, gradient_and_bound):
        with pytest.raises(ValueError, match=said):
            function(inference, spoilt, noise=SEEDS)


@pytest.mark.parametrize("walks", [0, 1.5])
def test_invalid_numbers_of_passes_are_refused(walks: float) -> None:
    inference, observation = example("direct")
    with pytest.raises(ValueError, match="number of passes"):
        temperature_gradient(inference, observation, noise=SEEDS, walks=walks)  # type: ignore[arg-type]
