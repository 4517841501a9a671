import pytest
import torch
from helpers.models import randomise

from condvae.gaussian import Gaussian
from condvae.vdvae import Encoder, preset

CONFIG = preset("tiny")


def standard(batch: int, resolution: int) -> Gaussian:
    shape = (batch, CONFIG.latent_channels, resolution, resolution)
    return Gaussian(torch.randn(shape), torch.randn(shape))


def test_the_last_activation_at_each_resolution_is_kept() -> None:
    encoder = Encoder(CONFIG, 3)
    x = torch.randn(2, 3, 8, 8)
    state = encoder.pyramid.input(x)
    outputs = {8: state}
    for block in encoder.pyramid.blocks:
        state = block(state)
        outputs[state.shape[-1]] = state
    activations = encoder.pyramid(x)
    assert sorted(activations) == [1, 4, 8]
    for resolution, activation in activations.items():
        torch.testing.assert_close(activation, outputs[resolution])


def test_a_relative_encoder_starts_as_the_prior() -> None:
    encoder = Encoder(CONFIG, 3, relative=True)
    posterior = encoder(torch.randn(2, 3, 8, 8))
    prior = standard(2, 1)
    assert posterior(0, torch.randn(2, 16, 1, 1), lambda: prior).kl_to(prior).abs().max() == 0
    randomise(encoder, 0)
    shifted = encoder(torch.randn(2, 3, 8, 8))(0, torch.randn(2, 16, 1, 1), lambda: prior)
    assert shifted.kl_to(prior).sum() > 0.01


def test_several_states_can_share_one_encoding() -> None:
    encoder = Encoder(CONFIG, 4)
    y = torch.randn(2, 4, 8, 8)
    state, prior = torch.randn(6, 16, 4, 4), standard(6, 4)
    once = encoder(y)(1, state, lambda: prior)
    thrice = encoder(y.repeat_interleave(3, dim=0))(1, state, lambda: prior)
    torch.testing.assert_close(once.mean, thrice.mean)
    torch.testing.assert_close(once.log_std, thrice.log_std)


def test_a_wrong_number_of_channels_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"expected \[B, 4, H, W\]"):
        Encoder(CONFIG, 4)(torch.zeros(1, 3, 8, 8))


def test_residual_branches_start_smaller_in_deeper_networks() -> None:
    torch.manual_seed(0)
    blocks = Encoder(CONFIG, 3).pyramid.blocks
    # By default, torch draws weights uniformly within 1 / sqrt(fan_in); the scale keeps the variance of the sum.
    limit = CONFIG.stages[0].inner ** -0.5 * len(blocks) ** -0.5
    for block in blocks:
        largest = float(block.c4.weight.detach().abs().max())  # type: ignore[union-attr, operator]
        assert 0.8 * limit < largest <= limit
