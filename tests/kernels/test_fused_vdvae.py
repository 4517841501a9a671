"""A network computed by kernels equals the plain one: bounds, gradients of every weight, samples."""

import pytest
import torch
from helpers.models import generator, images, small_conditional, small_vae, some_known
from torch import Tensor, nn

from condvae import objectives
from condvae.conditional import ConditionalVAE
from condvae.training.flat_parameters import FlatParameters
from condvae.vdvae import VDVAE, Stage, VDVAEConfig, preset

pytest.importorskip("triton")
from condvae.kernels.fused_vdvae import Fused

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
STAGES = (
    Stage(resolution=4, width=16, inner=8, encoder_blocks=1, decoder_blocks=2, latent_blocks=1),
    Stage(resolution=1, width=12, inner=6, encoder_blocks=1, decoder_blocks=1),
)
# Interpreted kernels are slow. A network of one block covers all ways of reading scales and estimating the KL; the
# other cases cover how blocks are connected.
ONE_BLOCK = (Stage(resolution=4, width=16, inner=8, encoder_blocks=1, decoder_blocks=1),)
CASES = [
    ("elbo", "log_std", "analytic", STAGES),
    ("elbo", "softplus", "sampled", ONE_BLOCK),
    ("forward", "log_std", "analytic", STAGES),
    ("forward", "softplus", "sampled", ONE_BLOCK),
    ("relative", "log_std", "sampled", STAGES),
    ("relative", "softplus", "analytic", ONE_BLOCK),
    ("reverse", "log_std", "analytic", STAGES),
    ("scratch", "softplus", "analytic", STAGES),
    ("scratch relative", "log_std", "analytic", STAGES),
]
pytestmark = pytest.mark.usefixtures("roomy_tiles")


def make(kind: str, config: VDVAEConfig) -> nn.Module:
    if kind == "elbo":
        model: nn.Module = small_vae(config)
    else:
        form = "relative" if "relative" in kind else "direct"
        model = small_conditional(config, form=form, train_artifact="scratch" in kind)
    return model.to(DEVICE).to(memory_format=torch.channels_last)  # type: ignore[call-overload, no-any-return]


def loss_of(kind: str, model: nn.Module, *, kl: objectives.KLEstimate = "analytic") -> Tensor:
    x, known = images(2, size=4).to(DEVICE), some_known(2, size=4).to(DEVICE)
    noise = [torch.randn(s, generator=generator(i)).to(DEVICE) for i, s in enumerate(latent_shapes(model))]
    if isinstance(model, VDVAE):
        return objectives.elbo(model, x, noise=noise, kl=kl).loss
    assert isinstance(model, ConditionalVAE)
    observation = model.observe(x, known)
    if kind == "reverse":
        return objectives.reverse(model, observation, noise=noise, kl=kl).loss
    return objectives.forward(model, x, observation, noise=noise, likelihood="scratch" in kind, kl=kl).loss


def latent_shapes(model: nn.Module) -> list[tuple[int, ...]]:
    vae = model if isinstance(model, VDVAE) else model.artifact
    assert isinstance(vae, VDVAE)
    channels = vae.config.latent_channels
    return [(2, channels, stage.resolution, stage.resolution) for stage in vae.config.group_stages]


def fused_in_float32(model: nn.Module, flat: FlatParameters) -> Fused:
    trained = {p: (flat.view(flat.values, n), flat.view(flat.gradients, n)) for n, p in flat.parameters.items()}
    return Fused(model, torch.float32, trained, streams=2)


@pytest.mark.parametrize(("kind", "scales", "kl", "stages"), CASES)
def test_bounds_and_gradients_are_those_of_the_plain_network(
    kind: str, scales: str, kl: objectives.KLEstimate, stages: tuple[Stage, ...]
) -> None:
    config = preset("tiny", scales=scales, stages=stages)
    plain, other = make(kind, config), make(kind, config)
    flat, other_flat = FlatParameters(plain), FlatParameters(other)
    wanted = loss_of(kind, plain, kl=kl)
    wanted.backward()
    fused = fused_in_float32(other, other_flat)
    with fused.attached():
        got = loss_of(kind, other, kl=kl)
    got.backward()
    fused.release()
    torch.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(other_flat.gradients, flat.gradients, rtol=1e-3, atol=1e-4)


def test_widths_that_change_and_blocks_without_latents() -> None:
    config = preset("demo32", likelihood=preset("tiny").likelihood)
    vae = small_vae(config).to(DEVICE).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    noise = [
        torch.randn(1, config.latent_channels, s.resolution, s.resolution, generator=generator(i)).to(DEVICE)
        for i, s in enumerate(config.group_stages)
    ]
    with torch.no_grad():
        wanted = vae.descend(None, batch=1, noise=noise).state
        with Fused(vae, torch.float32).attached():
            got = vae.descend(None, batch=1, noise=noise).state
    assert (got - wanted).abs().max() < 1e-4 * wanted.abs().max()


def test_the_model_is_plain_again_outside_even_after_an_error() -> None:
    vae = small_vae().to(DEVICE)
    fused = Fused(vae, torch.float32)

    def attached() -> bool:
        return any(name in vars(module) for module, name, _ in fused.methods)

    def fail() -> None:
        with fused.attached():
            assert attached()
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert not attached()


def test_a_prior_without_its_features_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("condvae.kernels.block._ROWS_THAT_PAY", 0)
    model = small_conditional().to(DEVICE)
    x = images(1).to(DEVICE)
    with torch.no_grad(), Fused(model, torch.float32).attached(), pytest.raises(AssertionError, match="prior=False"):
        model.artifact.descend(
            model.artifact.posterior(x),
            batch=1,
            noise=generator() if DEVICE.type == "cpu" else torch.Generator(DEVICE),
            score=lambda step: step.prior().mean.flatten(1).sum(1),
            asks_prior=False,
        )
