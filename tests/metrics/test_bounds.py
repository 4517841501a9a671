import math

import pytest
import torch
from models import images, small_conditional, small_vae, some_known

from condvae import objectives
from condvae.likelihood import GaussianPixels, LogisticMixture
from condvae.metrics import elbo_bits_per_dim, forward_kl_nats_per_dim
from condvae.vdvae import preset

SEEDS = [5, 6, 7]


@pytest.mark.parametrize("bits", [8, 5])
def test_with_levels_bits_are_those_of_the_elbo(bits: int) -> None:
    vae = small_vae(preset("tiny", likelihood=LogisticMixture(components=3, bits=bits, bins="exact")))
    x = images(3)
    found = elbo_bits_per_dim(vae, x, noise=SEEDS)
    expected = objectives.elbo(vae, x, noise=SEEDS).bits_per_dim.double()
    torch.testing.assert_close(found.native, expected, rtol=1e-5, atol=0)
    if bits == 8:
        assert found.of_8_bits is not None
        torch.testing.assert_close(found.of_8_bits, expected, rtol=1e-5, atol=0)
    else:
        assert found.of_8_bits is None


def test_a_gaussian_pays_for_every_bit_of_8_bit_images() -> None:
    likelihood = GaussianPixels(noise_floor=0.03)
    vae = small_vae(preset("tiny", likelihood=likelihood))
    x = images(3)
    found = elbo_bits_per_dim(vae, x, noise=SEEDS)
    bound = objectives.elbo(vae, x, noise=SEEDS)
    torch.testing.assert_close(found.native, bound.bits_per_dim.double(), rtol=1e-5, atol=0)
    with torch.no_grad():
        descent = vae.descend(vae.posterior(x), batch=3, noise=SEEDS)
        log_mass = likelihood.log_mass(vae.decoder.pixel_parameters(descent.state), x).sum(dim=(1, 2))
    expected = (bound.kl_nats.sum(1) - log_mass) / (bound.image_dims * math.log(2))
    assert found.of_8_bits is not None
    torch.testing.assert_close(found.of_8_bits, expected.double(), rtol=1e-5, atol=0)
    # What lies below the floor s costs log2(s sqrt(2 pi) 127.5) bits at least: all of it if the std is s.
    floor_bits = math.log2(0.03 * math.sqrt(2 * math.pi) * 127.5)
    assert (found.of_8_bits > found.native + floor_bits).all()


def test_forward_kl_is_the_mean_log_ratio_of_the_two_encoders() -> None:
    model, x = small_conditional(), images(1)
    observation = model.observe(x, some_known(1))
    n = 2000
    with torch.no_grad():
        q, c = model.artifact.posterior(x), model.posterior(observation)
        ratios = model.artifact.descend(
            q,
            batch=n,
            noise=torch.Generator().manual_seed(0),
            score=lambda step: (
                (step.drawn_from.log_prob(step.z) - c(step.group, step.state, step.prior).log_prob(step.z))
                .flatten(1)
                .sum(1)
            ),
        ).scores.sum(dim=1) / (3 * 8 * 8)
    seeds = [torch.Generator().manual_seed(i) for i in range(1, 41)]
    found = torch.stack([forward_kl_nats_per_dim(model, x, observation, noise=seed) for seed in seeds])
    error = math.hypot(float(ratios.std()) / n**0.5, float(found.std()) / len(found) ** 0.5)
    assert abs(float(ratios.mean() - found.mean())) < 4 * error
    assert error < 0.05 * float(found.mean())


def test_forward_kl_is_zero_where_the_partial_encoder_is_the_encoder() -> None:
    model, x = small_conditional(), images(3)
    model.start_from_encoder()
    every = torch.ones(3, 1, 8, 8, dtype=torch.bool)
    found = forward_kl_nats_per_dim(model, x, model.observe(x, every), noise=SEEDS)
    assert found.abs().max() < 1e-6
    assert (forward_kl_nats_per_dim(model, x, model.observe(x, ~every), noise=SEEDS) > 1e-3).all()
