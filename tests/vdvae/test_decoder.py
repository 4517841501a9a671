import torch
import torch.nn.functional as F
from helpers.models import randomise

from condvae.gaussian import Gaussian
from condvae.vdvae import VDVAE, Stage, Step, VDVAEConfig
from condvae.vdvae.decoder import Decoder, LatentBlock

CONFIG = VDVAEConfig(
    stages=(
        Stage(resolution=16, width=6, inner=3, encoder_blocks=1, decoder_blocks=2, latent_blocks=1),
        Stage(resolution=4, width=8, inner=4, encoder_blocks=1, decoder_blocks=1),
        Stage(resolution=1, width=10, inner=5, encoder_blocks=0, decoder_blocks=1),
    ),
    latent_channels=2,
    largest_bias=4,
)


def one_pass(decoder: Decoder, z: list[torch.Tensor]) -> tuple[torch.Tensor, list[Gaussian]]:
    """The final state and the priors of a pass with given latents."""
    vae = VDVAE(CONFIG)
    vae.decoder = decoder
    priors: list[Gaussian] = []

    def remember(step: Step) -> torch.Tensor:
        priors.append(step.prior())
        return step.z.flatten(1).sum(dim=1)

    return vae.descend(None, batch=len(z[0]), noise=[], given=z, score=remember).state, priors


def test_states_follow_the_formula() -> None:
    """Compute by hand: bias image + upsampled state; + features + projected z; residual; plain block; gain and bias."""
    torch.manual_seed(0)
    decoder = Decoder(CONFIG)
    randomise(decoder, 0)
    z = [torch.randn(3, 2, r, r) for r in (1, 4, 16)]
    at_one, at_four, at_sixteen, plain = decoder.blocks

    def latent_block(block: torch.nn.Module, state: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
        assert isinstance(block, LatentBlock)
        feature = block.prior(state)[:, 4:]
        merged = state + feature + block.projection(z)
        out: torch.Tensor = block.residual(merged)
        return out

    h1 = latent_block(at_one, decoder.starts["1"].expand(3, -1, -1, -1), z[0])
    h4 = latent_block(at_four, decoder.starts["4"] + F.interpolate(h1, scale_factor=4)[:, :8], z[1])
    h16 = latent_block(at_sixteen, F.interpolate(h4, scale_factor=4)[:, :6], z[2])
    expected = plain(h16) * decoder.gain + decoder.bias
    assert sorted(decoder.starts) == ["1", "4"]  # there are none above largest_bias
    torch.testing.assert_close(one_pass(decoder, z)[0], expected)


def test_priors_start_standard_normal_and_see_only_earlier_groups() -> None:
    decoder = Decoder(CONFIG)
    z = [torch.randn(1, 2, r, r) for r in (1, 4, 16)]
    _, priors = one_pass(decoder, z)
    assert all(not prior.mean.any() and not prior.log_std.any() for prior in priors)
    randomise(decoder, 0)
    _, before = one_pass(decoder, z)
    for changed in range(3):
        _, after = one_pass(decoder, [zl + 1 if i == changed else zl for i, zl in enumerate(z)])
        for group in range(3):
            assert torch.equal(before[group].mean, after[group].mean) == (group <= changed)


def test_residual_branches_start_smaller_in_deeper_networks() -> None:
    torch.manual_seed(0)
    decoder = Decoder(CONFIG)
    block = decoder.blocks[0]
    assert isinstance(block, LatentBlock)
    # By default, torch draws weights uniformly within 1 / sqrt(fan_in); with four blocks, the range is halved.
    assert 0.4 / 5**0.5 < float(block.residual.c4.weight.detach().abs().max()) < 0.5 / 5**0.5
    assert float(block.projection.weight.detach().abs().max()) < 0.5 / 2**0.5
