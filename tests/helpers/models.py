"""Small models for tests. All weights are random, so that layers which start at zero hide no errors."""

import dataclasses

import torch
from torch import Tensor

from condvae.conditional import ConditionalVAE, PartialConfig
from condvae.observe import Process
from condvae.vdvae import VDVAE, Stage, VDVAEConfig, preset

SMALLEST = dataclasses.replace(
    preset("tiny"),
    stages=tuple(Stage(resolution=r, width=8, inner=4, encoder_blocks=1, decoder_blocks=1) for r in (8, 4)),
)
"""A configuration with only two latent groups, for tests in which a model processes many images."""

SMALL_64 = dataclasses.replace(
    preset("tiny"),
    stages=tuple(Stage(resolution=r, width=8, inner=4, encoder_blocks=1, decoder_blocks=1) for r in (64, 16, 4)),
)
"""A small configuration for images of 64 x 64 pixels."""


def randomise(model: torch.nn.Module, seed: int, scale: float = 0.15) -> None:
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(scale * torch.randn(parameter.shape, generator=generator))


def small_vae(config: VDVAEConfig | None = None, *, seed: int = 0) -> VDVAE:
    torch.manual_seed(seed)
    vae = VDVAE(config or preset("tiny"))
    randomise(vae, seed)
    return vae


def small_conditional(
    config: VDVAEConfig | None = None, *, form: str = "direct", train_artifact: bool = False
) -> ConditionalVAE:
    vae = small_vae(config)
    partial = PartialConfig(channels=vae.config.channels + 1, form=form)  # type: ignore[arg-type]
    model = ConditionalVAE(vae, partial, train_artifact=train_artifact)
    randomise(model.partial, 1)
    return model


def small_translator(process: Process, config: VDVAEConfig = SMALL_64) -> ConditionalVAE:
    """A model that observes what this process shows."""
    partial = PartialConfig(channels=process.channels(config.channels))
    model = ConditionalVAE(small_vae(config), partial, process=process)
    randomise(model.partial, 1)
    return model


def images(batch: int, *, size: int = 8, channels: int = 3, seed: int = 0) -> Tensor:
    """Random 8-bit images in [-1, 1]."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(256, (batch, channels, size, size), generator=generator) / 127.5 - 1


def some_known(batch: int, *, size: int = 8, seed: int = 0) -> Tensor:
    return torch.rand(batch, 1, size, size, generator=torch.Generator().manual_seed(seed)) < 0.5


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)
