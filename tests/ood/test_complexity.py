"""The likelihood corrected for complexity: both terms, and that a hole's shape does not count."""

import dataclasses
import math

import numpy as np
import pytest
import torch
from helpers.models import images, small_conditional, small_vae, some_known

from condvae import objectives
from condvae.likelihood import GaussianPixels, LogisticMixture
from condvae.ood.complexity import Complexity, png_bits
from condvae.ood.inference import Inference
from condvae.ood.scores import score_of
from condvae.vdvae import preset

SEEDS = [3, 4, 5]


def hole() -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
    """Return which pixels are known: all except a disc."""
    y, x = np.mgrid[:32, :32]
    return np.asarray((y - 14) ** 2 + (x - 17) ** 2 > 100)


def noise(channels: int = 3, size: int = 32) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
    return np.random.RandomState(0).randint(256, size=(channels, size, size)).astype(np.uint8)


@pytest.mark.parametrize("channels", [1, 3])
def test_noise_takes_eight_bits_per_number(channels: int) -> None:
    for known in (np.ones((32, 32), dtype=bool), hole()):
        assert png_bits(noise(channels), known) == pytest.approx(8 * channels * known.sum(), rel=0.12)


def test_where_the_hole_is_costs_nothing() -> None:
    flat = np.full((3, 32, 32), 200, dtype=np.uint8)
    for known in (hole(), np.ones((32, 32), dtype=bool)):
        assert abs(png_bits(flat, known)) <= 0.03 * png_bits(noise(), known)
        assert png_bits(np.zeros_like(flat), known) == 0
    ramp = np.broadcast_to(np.arange(32, dtype=np.uint8) * 8, (3, 32, 32))
    assert 0 < png_bits(ramp, np.ones((32, 32), dtype=bool)) < png_bits(noise(), np.ones((32, 32), dtype=bool)) / 20


def test_hidden_pixels_do_not_matter() -> None:
    other = np.where(hole(), noise(), 255 - noise())
    assert png_bits(other, hole()) == png_bits(noise(), hole())


@pytest.mark.parametrize("likelihood", [GaussianPixels(), LogisticMixture(), LogisticMixture(bits=5, bins="exact")])
def test_bits_of_the_model_and_of_png(likelihood: GaussianPixels | LogisticMixture) -> None:
    config = dataclasses.replace(preset("tiny"), likelihood=likelihood)
    model = small_conditional(config)
    inference = Inference.of(model)
    known, x = some_known(3), images(3)
    observation = inference.observe(x, known)
    found = Complexity().features(inference, observation, SEEDS)
    vae = inference.vae
    with torch.no_grad():
        bound = objectives.reverse(model, observation, noise=SEEDS)
        state = vae.descend(inference.source(observation), batch=3, noise=SEEDS).state
        parameters, seen = vae.decoder.pixel_parameters(state), torch.where(known, x, 0)
        scored = likelihood.log_mass if isinstance(likelihood, GaussianPixels) else likelihood.log_prob
        mass = scored(parameters, seen)
        log_p = torch.where(known[:, 0], mass, 0).sum(dim=(1, 2)) - bound.kl_nats.sum(dim=1)
    levels = ((x + 1) * 127.5).round().to(torch.uint8).numpy() // 2 ** (8 - likelihood.bits)
    for i in range(3):
        expected = float(log_p[i]) / math.log(2) + png_bits(levels[i], known[i, 0].numpy())
        assert float(found[i, 0]) == pytest.approx(expected, rel=1e-5)


def test_whole_images_by_q() -> None:
    inference = Inference.of(small_vae())
    found = Complexity().features(inference, inference.observe(images(3)), SEEDS)
    assert found.shape == (3, 1) and torch.isfinite(found).all() and not found.requires_grad


def test_names() -> None:
    for name in ("complexity", "ratio-4", "regret-3"):
        assert score_of(name).name == name and not score_of(name).fitted
    with pytest.raises(ValueError, match="unknown score complexity-3: complexity takes no number"):
        score_of("complexity-3")
