"""The network of the diffusion completer: its configuration, and a U-Net that is conditioned on the noise level.

Normalisation is over the channels of each pixel: in the channels-last layout this is one pass over the memory, which is
several times as fast as a GroupNorm.
"""

import math
from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from condvae.completers.diffusion.ode_solvers import SOLVERS, evaluations
from condvae.completers.learned_completer import BaselineConfig
from condvae.runtime.checks import check_choice, check_number, check_whole, whole_numbers
from condvae.runtime.fast_paths import fast_path

_HEAD = 32
"""The number of channels of an attention head, if the width is a multiple of it; else there is one head."""
_LOWEST_FREQUENCY, _HIGHEST_FREQUENCY = 0.25, 32.0
"""The range of the frequencies, in periods per unit of log(sigma) / 4, that embed the noise level."""


@dataclass(frozen=True, kw_only=True)
class DiffusionConfig(BaselineConfig):
    """Configuration of the network, its training and its sampling. Constants are those of EDM (Karras et al. 2022)."""

    widths: tuple[int, ...] = (64, 96, 96)
    """Number of channels at each resolution. The first is that of the image, and each of the others is halved."""
    level_blocks: int = 2
    """Residual blocks at each resolution, on the way down and again on the way up."""
    attention_sizes: tuple[int, ...] = (16, 8)
    """The resolutions whose blocks are followed by self-attention."""
    embedding: int = 128
    """Number of features that describe the noise level."""
    solver: Literal["dpm++", "heun"] = "dpm++"
    """Solver of the ODE: DPM-Solver++(2M) or Heun's method."""
    sampling_steps: int = 20
    """Steps of the solver. Heun's method evaluates the network twice in each but the last."""
    least_noise: float = 0.002
    """The lowest noise level of sampling before 0."""
    most_noise: float = 80.0
    """The noise level at which sampling starts."""
    noise_log_mean: float = -1.2
    """In training, the logarithm of the noise level is normally distributed with this mean."""
    noise_log_std: float = 1.2
    """The standard deviation of the logarithm of the noise level."""
    data_std: float = 0.5
    """The standard deviation of pixels in [-1, 1] that the preconditioning assumes."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("widths", "attention_sizes"):
            object.__setattr__(self, name, whole_numbers(getattr(self, name), name, least=1))
        check_whole(self.level_blocks, "the number of blocks at each level", least=1)
        check_whole(self.embedding, "the embedding", least=2)
        if self.embedding % 2:
            raise ValueError(f"the embedding is {self.embedding}, expected an even number of features")
        check_choice(self.solver, "the solver", tuple(SOLVERS))
        check_whole(self.sampling_steps, "the number of sampling steps", least=1)
        for name in ("least_noise", "most_noise", "noise_log_std", "data_std"):
            check_number(getattr(self, name), name, least=1e-6)
        check_number(self.noise_log_mean, "noise_log_mean", least=-20, most=20)
        if not self.least_noise < self.most_noise:
            raise ValueError(
                f"least_noise is {self.least_noise} and most_noise is {self.most_noise}, expected a smaller least_noise"
            )
        if self.image_size % 2 ** (len(self.widths) - 1):
            raise ValueError(
                f"the image size is {self.image_size}, which cannot be halved {len(self.widths) - 1} times: give fewer "
                "widths"
            )

    @property
    def blocks(self) -> int:
        return len(self.widths) * self.level_blocks  # one on the way down and one on the way up count as one

    @property
    def sides(self) -> tuple[int, ...]:
        """The resolution of each level, finest first."""
        return tuple(self.image_size // 2**level for level in range(len(self.widths)))

    @property
    def evaluations(self) -> int:
        """How often the network is evaluated for one completion."""
        return evaluations(self.solver, self.sampling_steps)


def pixel_norm(x: Tensor) -> Tensor:
    """Normalise the channels of each pixel to mean 0 and variance 1, in the precision of x. x: [B, C, H, W]."""
    with torch.autocast(x.device.type, enabled=False):  # autocast would make it float32, with twice the memory traffic
        return F.layer_norm(x.permute(0, 2, 3, 1), (x.shape[1],)).permute(0, 3, 1, 2)


def activated(x: Tensor, modulation: Tensor | None = None) -> Tensor:
    """Return SiLU((1 + scale) pixel_norm(x) + shift). modulation: [B, 2 C], scale and shift; None for 0.

    Without gradients, a GPU computes this in one kernel.
    """
    if not torch.is_grad_enabled() and (fast := fast_path("normalised activation", x.device)):
        y: Tensor = fast(x, modulation)
        return y
    normal = pixel_norm(x)
    if modulation is not None:
        scale, shift = modulation[..., None, None].chunk(2, dim=1)
        normal = torch.addcmul(shift, normal, 1 + scale)
    return F.silu(normal)


class NoiseEmbedding(nn.Module):
    """Features of the noise level: sines and cosines of log(sigma) / 4, and two dense layers."""

    frequencies: Tensor

    def __init__(self, features: int) -> None:
        super().__init__()
        steps = torch.linspace(math.log(_LOWEST_FREQUENCY), math.log(_HIGHEST_FREQUENCY), features // 2)
        self.register_buffer("frequencies", 2 * math.pi * steps.exp(), persistent=False)
        self.layers = nn.Sequential(nn.Linear(features, features), nn.SiLU(), nn.Linear(features, features), nn.SiLU())

    def forward(self, log_noise: Tensor) -> Tensor:
        """Embed log(sigma) / 4, [B], as [B, features]."""
        angles = log_noise[:, None].float() * self.frequencies
        embedded: Tensor = self.layers(torch.cat((angles.cos(), angles.sin()), dim=1))
        return embedded


class UnetBlock(nn.Module):
    """A residual block: two convolutions, of which the second is modulated by the noise level, then attention."""

    def __init__(self, inputs: int, width: int, embedding: int, *, attention: bool) -> None:
        super().__init__()
        self.first = nn.Conv2d(inputs, width, 3, padding=1)
        self.modulation = nn.Linear(embedding, 2 * width)
        self.second = nn.Conv2d(width, width, 3, padding=1)
        self.shortcut = nn.Conv2d(inputs, width, 1) if inputs != width else nn.Identity()
        self.attention = PixelAttention(width) if attention else nn.Identity()
        nn.init.zeros_(self.second.weight)  # a block begins as its shortcut

    def forward(self, x: Tensor, noise: Tensor) -> Tensor:
        y = self.second(activated(self.first(activated(x)), self.modulation(noise)))
        z: Tensor = self.attention(self.shortcut(x) + y)
        return z


class PixelAttention(nn.Module):
    """Residual self-attention among all pixels."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.heads = width // _HEAD if width % _HEAD == 0 else 1
        self.projections = nn.Linear(width, 3 * width)
        self.output = nn.Linear(width, width)
        nn.init.zeros_(self.output.weight)

    def forward(self, x: Tensor) -> Tensor:
        pixels = pixel_norm(x).permute(0, 2, 3, 1).flatten(1, 2)  # [B, H W, C]
        query, key, value = self.projections(pixels).unflatten(2, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        found = F.scaled_dot_product_attention(query, key, value).transpose(1, 2).flatten(2)
        change: Tensor = self.output(found).unflatten(1, x.shape[2:]).permute(0, 3, 1, 2)
        return x + change


class Unet(nn.Module):
    """The network F of EDM: from a noisy image, the mask of known pixels and the noise level to an image."""

    def __init__(self, config: DiffusionConfig) -> None:
        super().__init__()

        def block(inputs: int, level: int) -> UnetBlock:
            attention = config.sides[level] in config.attention_sizes
            return UnetBlock(inputs, config.widths[level], config.embedding, attention=attention)

        self.noise = NoiseEmbedding(config.embedding)
        self.input = nn.Conv2d(config.channels + 1, config.widths[0], 3, padding=1)
        self.down, self.up = nn.ModuleList(), nn.ModuleList()
        width = config.widths[0]
        for level, own in enumerate(config.widths):
            self.down.append(
                nn.ModuleList(block(own if number else width, level) for number in range(config.level_blocks))
            )
            width = own
        self.middle = block(width, len(config.widths) - 1)
        for level, own in reversed(list(enumerate(config.widths))):
            blocks = (block(own + (own if number else width), level) for number in range(config.level_blocks))
            self.up.append(nn.ModuleList(blocks))
            width = own
        self.output = nn.Conv2d(width, config.channels, 3, padding=1)
        nn.init.zeros_(self.output.weight)

    def forward(self, image: Tensor, known: Tensor, log_noise: Tensor) -> Tensor:
        """Return [B, C, H, W]. image: [B, C, H, W]. known: [B, 1, H, W] bool. log_noise: [B], log(sigma) / 4."""
        noise = self.noise(log_noise)
        x = self.input(torch.cat((image, known.to(image.dtype)), dim=1))
        skips = []
        for level, blocks in enumerate(self.down):
            x = F.avg_pool2d(x, 2) if level else x
            for block in blocks:  # type: ignore[attr-defined]
                x = block(x, noise)
                skips.append(x)
        x = self.middle(x, noise)
        for level, blocks in enumerate(self.up):
            x = F.interpolate(x, scale_factor=2) if level else x
            for block in blocks:  # type: ignore[attr-defined]
                x = block(torch.cat((x, skips.pop()), dim=1), noise)
        made: Tensor = self.output(activated(x))
        return made
