"""The likelihood regret: how much the bound gains if the latents are optimised for one image."""

import math

import pytest
import torch
from helpers.models import images, small_conditional, small_vae, some_known

from condvae import objectives
from condvae.conditional import ConditionalVAE, PartialConfig
from condvae.ood.features import measure
from condvae.ood.inference import Inference
from condvae.ood.regret import Regret
from condvae.ood.scores import score_of
from condvae.runtime.pixels import to_uint8

SEEDS = [3, 4, 5]


def conditional(form: str = "direct") -> Inference:
    return Inference.of(small_conditional(form=form).double())


@pytest.mark.parametrize("form", ["direct", "relative"])
def test_the_bound_rises_from_that_of_the_encoder(form: str) -> None:
    inference = conditional(form)
    observation = inference.observe(images(3).double(), some_known(3))
    bounds = Regret(steps=8).bounds(inference, observation, SEEDS)
    with torch.no_grad():
        assert isinstance(inference.model, ConditionalVAE)
        first = objectives.reverse(inference.model, observation, noise=SEEDS).nats
    assert bounds.shape == (9, 3) and torch.allclose(bounds[0], first, atol=1e-9)
    assert (bounds[1:] > bounds[0]).all()
    found = Regret(steps=8).features(inference, observation, SEEDS)
    assert found.shape == (3, 1) and torch.equal(found[:, 0], bounds[0] - bounds.amax(dim=0))
    # More steps never lose what fewer steps have gained.
    assert (Regret(steps=3).features(inference, observation, SEEDS) >= found).all()


def test_whole_images_by_q() -> None:
    inference = Inference.of(small_vae().double())
    observation = inference.observe(images(3).double())
    assert (Regret(steps=2).features(inference, observation, SEEDS) < 0).all()


def test_there_is_no_gain_if_the_latents_are_already_optimal() -> None:
    """If nothing is known, the prior is the best source of z, and here c equals the prior."""
    model = ConditionalVAE(small_vae(), PartialConfig(channels=4, form="relative")).double()
    inference = Inference.of(model)
    observation = inference.observe(images(3).double(), torch.zeros(3, 1, 8, 8, dtype=torch.bool))
    assert torch.allclose(
        Regret(steps=3).features(inference, observation, SEEDS), torch.zeros(3, 1).double(), atol=1e-12
    )


def test_steps_that_lower_the_bound_give_zero_regret() -> None:
    inference = conditional()
    observation = inference.observe(images(3).double(), some_known(3))
    score = Regret(steps=2, rate=0.5)  # a far too large step
    assert (score.bounds(inference, observation, SEEDS).diff(dim=0)[0] < -100).all()
    assert torch.equal(score.features(inference, observation, SEEDS), torch.zeros(3, 1).double())


def test_spreads_move_too() -> None:
    """If nothing is known and c differs from the prior only in its std, the gain has a closed form."""
    model = ConditionalVAE(small_vae(), PartialConfig(channels=4, form="relative")).double()
    wider, rate = 0.5, 0.03
    with torch.no_grad():
        for head in model.partial.heads:
            bias = head.get_parameter("c4.bias")
            bias[len(bias) // 2 :] = wider  # the second half holds the log-stds
    inference = Inference.of(model)
    observation = inference.observe(images(3).double(), torch.zeros(3, 1, 8, 8, dtype=torch.bool))
    config = model.artifact.config
    latents = config.latent_channels * sum(stage.resolution**2 for stage in config.group_stages)

    def minus_kl(log_ratio: float) -> float:
        return latents * (log_ratio - math.expm1(2 * log_ratio) / 2)

    # The size of Adam's first step is the learning rate.
    expected = torch.tensor([[minus_kl(wider)], [minus_kl(wider - rate)]]).double().expand(2, 3)
    torch.testing.assert_close(
        Regret(steps=1, rate=rate).bounds(inference, observation, SEEDS), expected, rtol=1e-5, atol=0
    )


@torch.no_grad()
def test_weights_neither_move_nor_get_gradients() -> None:
    inference = conditional()
    before = {name: weight.clone() for name, weight in inference.model.named_parameters()}
    observation = inference.observe(images(3).double(), some_known(3))
    found = Regret(steps=2).features(inference, observation, SEEDS)
    assert not found.requires_grad and (found < 0).all()  # although the caller has turned gradients off
    for name, weight in inference.model.named_parameters():
        assert weight.grad is None and torch.equal(weight, before[name])


def test_no_image_depends_on_another_or_on_hidden_pixels() -> None:
    inference, known = conditional(), some_known(3)
    x = images(3).double()
    together = Regret(steps=4).features(inference, inference.observe(x, known), SEEDS)
    for i in range(3):
        one = inference.observe(torch.where(known, x, -x)[i : i + 1], known[i : i + 1])
        assert torch.allclose(
            Regret(steps=4).features(inference, one, SEEDS[i : i + 1]), together[i : i + 1], rtol=1e-8
        )


def test_invalid_steps_are_refused() -> None:
    with pytest.raises(ValueError, match="the number of steps of the likelihood regret is 0"):
        Regret(steps=0)
    assert Regret(steps=7).name == "regret-7"


def test_images_in_parallel_threads() -> None:
    """Each thread computes its own gradients, and no bit depends on the other images."""
    inference = Inference.of(small_conditional())
    levels, known = to_uint8(images(5)), some_known(5)
    together = measure(score_of("regret-2"), inference, levels, known, seed=1)
    alone = measure(score_of("regret-2"), inference, levels[3:4], known[3:4], seed=1, places=[3])
    assert together.shape == (5, 1) and (together < 0).all() and alone[0, 0] == together[3, 0]
