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


def test_forward_kl_is_that_of_the_objective() -> None:
    for model in (small_conditional(), small_conditional(train_artifact=True)):
        x = images(3)
        observation = model.observe(x, some_known(3))
        found = forward_kl_nats_per_dim(model, x, observation, noise=SEEDS)
        bound = objectives.forward(model, x, observation, noise=SEEDS)
        torch.testing.assert_close(found, bound.kl_nats.detach().double().sum(1) / (3 * 8 * 8), rtol=1e-5, atol=0)
