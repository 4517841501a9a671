"""Pluralistic Image Completion (Zheng et al. 2019, "Pluralistic image completion", CVPR).

A conditional VAE with two paths through one encoder and one generator. The prior q(z | visible pixels) gives
completions. In training, the posterior p(z | hidden pixels) also gives reconstructions, which shape the latents.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from condvae.completers.learned_completer import BaselineConfig, Code, LearnedCompleter
from condvae.completers.learned_names import LEARNED_TITLES
from condvae.completers.pluralistic.pluralistic_blocks import (
    ImageHead,
    LongRangeAttention,
    SpectralPyramid,
    SpectralResidual,
    SpectralUpBlock,
)
from condvae.gaussian import Gaussian, full_precision
from condvae.noise import Noise
from condvae.runtime.checks import check_choice, check_number, check_whole

PRIOR_STREAM = 0
"""The stream of random numbers for latents from the prior."""
POSTERIOR_STREAM = 1
"""The stream of random numbers for latents from the posterior."""

_LEAST_STD = 1e-3
"""Added to standard deviations. It limits the KL divergences, which have the squared standard deviation below them."""


@dataclass(frozen=True, kw_only=True)
class PluralisticConfig(BaselineConfig):
    """Configuration of the networks and of the loss. The defaults suit images of 32 or 64 pixels.

    The paper's network for 256 pixels has width 32, max_width 128, latent_size 8, attention_size 32, output_scales 4.
    """

    width: int = 64
    """Number of channels after the first halving of the resolution. Every further halving doubles it."""
    max_width: int = 256
    """Limit on the number of channels."""
    latent_size: int = 4
    """Resolution of the latents. The image is halved until it has this size."""
    latent_channels: int = 128
    """Number of channels of the latents."""
    prior_blocks: int = 6
    """Number of residual blocks of the prior before its last block."""
    attention_size: int = 16
    """Resolution of the attention in the generator and in the discriminators."""
    output_scales: int = 3
    """Number of resolutions, the finest ones, at which the generator makes an image."""
    reconstruction_weight: float = 20.0
    """Weight of the L1 losses, which are summed over the output scales."""
    kl_weight: float = 20.0
    """Weight of the KL divergences per output scale."""
    adversarial: bool = True
    """Whether to train with discriminators."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_whole(self.width, "the width", least=1)
        check_whole(self.max_width, "the largest width", least=self.width)
        check_whole(self.latent_channels, "the number of latent channels", least=1)
        check_whole(self.prior_blocks, "the number of prior blocks", least=0)
        # The last convolution of a discriminator has no padding: it makes a map of (latent_size - 2)^2 scores.
        check_whole(self.latent_size, "the latent size", least=4)
        sizes = _doublings(self.latent_size, self.image_size)
        if sizes[-1] != self.image_size or len(sizes) < 3:
            raise ValueError(
                f"the latent size is {self.latent_size} and the image size is {self.image_size}, expected an image "
                "size that is 4, 8, 16, ... times the latent size"
            )
        check_choice(self.attention_size, "the attention size", sizes[1:-1])
        check_choice(self.output_scales, "the number of output scales", range(1, len(sizes)))
        for name, weight in (("reconstruction", self.reconstruction_weight), ("KL", self.kl_weight)):
            check_number(weight, f"the {name} weight", least=0)
        check_choice(self.adversarial, "adversarial", (True, False))

    @property
    def blocks(self) -> int:
        return self.prior_blocks

    @property
    def halvings(self) -> int:
        """How often the encoder halves the resolution."""
        return len(_doublings(self.latent_size, self.image_size)) - 1

    @property
    def widths(self) -> tuple[int, ...]:
        """Number of channels after each halving of the resolution, finest first."""
        return tuple(min(self.width * 2**level, self.max_width) for level in range(self.halvings))

    @property
    def attention_level(self) -> int:
        """The level of the encoder whose features have the resolution of the attention."""
        return self.halvings - _doublings(self.latent_size, self.image_size).index(self.attention_size) - 1


class Visible(NamedTuple):
    """What the generator uses of the visible pixels."""

    features: Tensor
    """The encoder's last features, [B, widths[-1], latent_size, latent_size]."""
    attended: Tensor
    """The encoder's features at the resolution of the attention, [B, widths[attention_level], R, R]."""
    known: Tensor
    """The known part of the area of each position at that resolution, [B, 1, R, R] in [0, 1]."""

    def twice(self) -> "Visible":
        """Repeat the batch, for one pass of the generator with latents from both paths."""
        return Visible(*(torch.cat((part, part)) for part in self))


class Paths(NamedTuple):
    """The results of both paths. Images are one tensor [B, C, R, R] per output scale, coarsest first."""

    posterior: Gaussian
    """p(z | hidden pixels)."""
    prior: Gaussian
    """q(z | visible pixels)."""
    reconstructed: Sequence[Tensor]
    """Images from latents of the posterior."""
    generated: Sequence[Tensor]
    """Images from latents of the prior."""


class PluralisticEncoder(nn.Module):
    """The encoder that both paths share, and their distributions of the latents."""

    def __init__(self, config: PluralisticConfig) -> None:
        super().__init__()
        last, outputs = config.widths[-1], 2 * config.latent_channels
        self.pyramid = SpectralPyramid(config.channels, config.widths)
        self.prior = nn.Sequential(
            *(SpectralResidual(last, last) for _ in range(config.prior_blocks)), SpectralResidual(last, outputs)
        )
        self.posterior = SpectralResidual(last, outputs)


class PluralisticGenerator(nn.Module):
    """The generator: from latents and visible features to images at several scales."""

    def __init__(self, config: PluralisticConfig) -> None:
        super().__init__()
        widths, levels = config.widths, config.halvings
        self.input = SpectralResidual(config.latent_channels, widths[-1])
        self.blocks, self.heads = nn.ModuleList(), nn.ModuleList()
        inputs = widths[-1]
        for step, width in enumerate(reversed(widths)):
            self.blocks.append(SpectralUpBlock(inputs, width))
            inputs = width
            if step >= levels - config.output_scales:
                self.heads.append(ImageHead(width, config.channels))
                inputs += config.channels  # the next block also gets the image
        self.attention_step = levels - config.attention_level - 2
        self.attention = LongRangeAttention(widths[config.attention_level + 1], widths[config.attention_level])

    def forward(self, z: Tensor, visible: Visible) -> list[Tensor]:
        """Return images [B, C, R, R] of all output scales, coarsest first. z: [B, latent_channels, h, w]."""
        x = self.input(z) + visible.features
        without_head = len(self.blocks) - len(self.heads)
        images: list[Tensor] = []
        for step, block in enumerate(self.blocks):
            if images:
                x = torch.cat((x, images[-1]), dim=1)
            x = block(x)
            if step == self.attention_step:
                x = self.attention(x, visible.attended, visible.known)
            if step >= without_head:
                images.append(self.heads[step - without_head](x))
        return images


class Pluralistic(LearnedCompleter):
    """Pluralistic Image Completion. It has no truncation: z is drawn from the prior as it is."""

    kind: ClassVar[str] = "pic"
    title: ClassVar[str] = LEARNED_TITLES["pic"]
    varies: ClassVar[bool] = True
    config: PluralisticConfig

    def __init__(self, config: PluralisticConfig) -> None:
        super().__init__(config)
        self.encoder = PluralisticEncoder(config)
        self.generator = PluralisticGenerator(config)

    def encode(self, pixels: Tensor, known: Tensor) -> Code:
        """Return the parts of `Visible`, and the mean and log-std of the prior."""
        visible = self._visible(self.encoder.pyramid(pixels), known)
        return (*visible, *gaussian(self.encoder.prior(visible.features)))

    def decode(self, code: Code, noise: Noise) -> Tensor:
        visible, prior = Visible(*code[:3]), Gaussian(*code[3:])
        finest: Tensor = self.generator(prior.draw(noise, PRIOR_STREAM), visible)[-1]
        return finest

    def paths(self, x: Tensor, known: Tensor, noise: Noise) -> Paths:
        """Compute both paths for training. x: whole images [B, C, H, W] in [-1, 1]. known: [B, 1, H, W] bool."""
        both = torch.cat((torch.where(known, x, 0.0), torch.where(known, 0.0, x)))
        levels = [level.chunk(2) for level in self.encoder.pyramid(both)]
        visible = self._visible([of_visible for of_visible, _ in levels], known)
        _, hidden_features = levels[-1]
        prior = gaussian(self.encoder.prior(visible.features))
        posterior = gaussian(self.encoder.posterior(hidden_features))
        z = torch.cat((posterior.draw(noise, POSTERIOR_STREAM), prior.draw(noise, PRIOR_STREAM)))
        images = [image.chunk(2) for image in self.generator(z, visible.twice())]
        return Paths(posterior, prior, [rec for rec, _ in images], [gen for _, gen in images])

    def _visible(self, levels: Sequence[Tensor], known: Tensor) -> Visible:
        attended = levels[self.config.attention_level]
        return Visible(levels[-1], attended, known_area(known, self.config.attention_size, attended.dtype))


def gaussian(raw: Tensor) -> Gaussian:
    """Make a Gaussian in float32 from network outputs [B, 2 C, H, W]: means, then softplus gives the std."""
    mean, scale = full_precision(raw).chunk(2, dim=1)
    return Gaussian(mean, (F.softplus(scale) + _LEAST_STD).log())


def known_area(known: Tensor, size: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """Return the known part of the area of each pixel of a coarser image, [B, 1, size, size] in [0, 1]."""
    return F.avg_pool2d(known.to(dtype), known.shape[-1] // size)


def _doublings(least: int, most: int) -> tuple[int, ...]:
    """Return least, 2 least, 4 least, ... up to `most`."""
    return tuple(least * 2**i for i in range(max(1, (most // least).bit_length())))
