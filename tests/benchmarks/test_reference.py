"""The reference of the speed benchmark computes the same loss, gradients and pixels as condvae."""

from typing import Literal

import numpy as np
import pytest
import torch
from helpers.models import generator, images, randomise, some_known
from torch import Tensor

from benchmarks.reference import PlainTraining, plain_copy, plain_known, plain_log_prob, plain_sample
from condvae import objectives
from condvae.conditional import ConditionalVAE, PartialConfig
from condvae.likelihood import LogisticMixture
from condvae.noise import as_noise
from condvae.sampling.plain import sample_conditional
from condvae.vdvae import VDVAE, VDVAEConfig, preset

NETWORKS = {
    name: preset(name, scales="log_std", likelihood=LogisticMixture(components=3)) for name in ("tiny", "demo32")
}
BATCH = 3


def make_vae(config: VDVAEConfig) -> VDVAE:
    """Make a VAE with small random weights everywhere: with large ones, wide networks would overflow."""
    torch.manual_seed(0)
    vae = VDVAE(config)
    randomise(vae, 0, scale=0.03)
    return vae


def make_conditional(config: VDVAEConfig, form: Literal["direct", "relative"] = "direct") -> ConditionalVAE:
    model = ConditionalVAE(make_vae(config), PartialConfig(channels=config.channels + 1, form=form))
    randomise(model.partial, 1, scale=0.03)
    return model


def given_noise(config: VDVAEConfig) -> list[Tensor]:
    shapes = [(BATCH, config.latent_channels, stage.resolution, stage.resolution) for stage in config.group_stages]
    return [torch.randn(shape, generator=generator(i)) for i, shape in enumerate(shapes)]


def gradient_norm(model: torch.nn.Module) -> Tensor:
    gradients = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
    return torch.nn.utils.get_total_norm(gradients)


@pytest.mark.parametrize("network", NETWORKS)
def test_the_unconditional_loss_and_its_gradient(network: str) -> None:
    config = NETWORKS[network]
    vae, x, noise = make_vae(config), images(BATCH, size=config.image_size), given_noise(config)
    plain = plain_copy(vae)
    bound = objectives.elbo(vae, x, noise=noise)
    torch.testing.assert_close(plain(x, noise=noise).kl_nats, bound.kl_nats, rtol=1e-4, atol=1e-3)
    loss = plain.loss("elbo", x, noise=noise)
    torch.testing.assert_close(loss, bound.loss, rtol=1e-4, atol=1e-4)
    loss.backward()
    bound.loss.backward()
    torch.testing.assert_close(gradient_norm(plain), gradient_norm(vae), rtol=1e-4, atol=0)


@pytest.mark.parametrize("objective", ["ipa", "ipa-r"])
@pytest.mark.parametrize("network", NETWORKS)
def test_the_conditional_losses_and_their_gradients(network: str, objective: str) -> None:
    config = NETWORKS[network]
    model, size, noise = make_conditional(config), config.image_size, given_noise(config)
    x, known = images(BATCH, size=size), some_known(BATCH, size=size)
    training = PlainTraining(plain_copy(model), objective, lr=1e-3, skip_above=1e9)  # type: ignore[arg-type]
    plain, observation = training.model, model.observe(x, known)
    if objective == "ipa":
        bound = objectives.forward(model, x, observation, noise=noise)
        kl = plain(x, plain.observe(x, known.float()), noise=noise).kl_nats
        torch.testing.assert_close(kl, bound.kl_nats, rtol=1e-4, atol=1e-3)
    else:
        bound = objectives.reverse(model, observation, noise=noise)
    loss = plain.loss(objective, x, known.float(), noise=noise)  # type: ignore[arg-type]
    torch.testing.assert_close(loss, bound.loss, rtol=1e-4, atol=1e-4)
    loss.backward()
    bound.loss.backward()
    assert len(training.trained) == len(list(model.partial.parameters()))
    torch.testing.assert_close(gradient_norm(plain), gradient_norm(model), rtol=1e-4, atol=0)


def test_pixels_of_completions() -> None:
    config = NETWORKS["demo32"]
    model, size, noise = make_conditional(config), config.image_size, given_noise(config)
    observation = model.observe(images(1, size=size), some_known(1, size=size))
    plain = plain_copy(model)
    y = plain.observe(images(1, size=size), some_known(1, size=size).float())
    torch.testing.assert_close(y, observation.y)
    with torch.no_grad():
        descent = model.artifact.descend(model.posterior(observation), batch=BATCH, noise=noise)
        expected = model.artifact.decoder.pixel_parameters(descent.state)
        parameters = plain(None, y.repeat(BATCH, 1, 1, 1), noise=noise, from_partial=True).parameters
    torch.testing.assert_close(parameters, expected, rtol=1e-4, atol=1e-4)
    torch.manual_seed(0)
    mine, theirs = plain.complete(y, 64), sample_conditional(model, observation, 64, noise=generator()).images
    assert mine.dtype == torch.uint8 and mine.shape == (64, 3, size, size)
    assert (mine / 127.5 - 1).mean().item() == pytest.approx(theirs.mean().item(), abs=0.02)


@pytest.mark.parametrize("bits", [5, 8])
def test_the_mixture(bits: int) -> None:
    mixture = LogisticMixture(components=4, bits=bits)
    parameters = torch.randn(2, 40, 8, 8, generator=generator(1), dtype=torch.float64)
    x = images(2).double()
    log_prob = plain_log_prob(mixture, parameters, x)
    torch.testing.assert_close(log_prob, mixture.log_prob(parameters, x), rtol=1e-6, atol=1e-6)
    many = parameters[:1, :, :1, :1].expand(1, -1, 128, 128)
    torch.manual_seed(0)
    mine, theirs = plain_sample(mixture, many), mixture.sample(many, as_noise(generator(2)))
    # In public code, 5-bit levels are rounded down; samples are then put in the middle of each bin.
    torch.testing.assert_close(mine.mean(dim=(2, 3)), theirs.mean(dim=(2, 3)), atol=0.04, rtol=0)


def test_holes_leave_some_pixels_known() -> None:
    known = plain_known(np.random.default_rng(0), 20, 32)
    assert known.shape == (20, 1, 32, 32)
    assert set(known.unique().tolist()) == {0.0, 1.0}
    assert all(0 < share < 1 for share in known.mean(dim=(1, 2, 3)).tolist())


def test_a_step_trains_only_the_partial_encoder_and_skips_large_gradients() -> None:
    config = NETWORKS["demo32"]
    levels = torch.randint(256, (2, 3, 32, 32), dtype=torch.uint8, generator=generator())
    for skip_above in (1e9, 1e-9):
        training = PlainTraining(plain_copy(make_conditional(config)), "ipa", lr=1e-3, skip_above=skip_above)
        before = {name: value.clone() for name, value in training.model.state_dict().items()}
        first = training(levels)
        changed = {n for n, value in training.model.state_dict().items() if not torch.equal(value, before[n])}
        if skip_above < 1:
            assert not changed
        else:
            trained = {n for n, parameter in training.model.named_parameters() if parameter.requires_grad}
            assert changed == trained and all("partial" in name for name in trained)
            assert np.mean([training(levels) for _ in range(3)]) < first


def test_a_relative_model_is_refused() -> None:
    with pytest.raises(ValueError, match="direct"):
        plain_copy(make_conditional(NETWORKS["tiny"], "relative"))
