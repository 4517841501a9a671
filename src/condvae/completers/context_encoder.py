"""Context Encoder (CE): regression through a bottleneck, with a light adversarial term.

Pathak et al. 2016, "Context encoders: feature learning by inpainting", with the squared error over the whole image.
It is deterministic: its only answer lies close to the mean of all possible ones.
"""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from condvae.completers.learned_completer import (
    BaselineConfig,
    Code,
    CompleterLoss,
    LearnedCompleter,
    Losses,
    batch_norm,
    without_gradients,
)
from condvae.completers.learned_names import LEARNED_TITLES
from condvae.noise import Noise
from condvae.runtime.checks import check_number, check_whole

_FILL = (117.0, 104.0, 123.0)
"""The colour of hidden pixels in the input, as RGB grey levels; this method has no channel that marks them."""
_INITIAL_STD = 0.02
_LAST_SIDE = 4  # the side of the feature map in front of the bottleneck


@dataclass(frozen=True, kw_only=True)
class ContextEncoderConfig(BaselineConfig):
    """Configuration of a context encoder."""

    bottleneck: int = 512
    """Number of features in the bottleneck; 4000 in the paper."""
    width: int = 64
    """Number of channels after the first halving of the resolution. Further halvings of 32 x 32 and less double it."""
    adversarial: float = 0.001
    """Weight of the adversarial loss. The squared error has the rest, 1 minus this."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_whole(self.bottleneck, "the bottleneck", least=1)
        check_whole(self.width, "the width", least=1)
        check_number(self.adversarial, "the adversarial weight", least=0, most=1)
        if self.image_size & (self.image_size - 1):
            raise ValueError(f"the image size is {self.image_size}, expected a power of two, such as 32 or 64")

    @property
    def widths(self) -> tuple[int, ...]:
        """The numbers of channels after each halving, down to 4 x 4."""
        widths, side = [self.width], self.image_size // 2
        while side > _LAST_SIDE:
            widths.append(widths[-1] * (2 if side <= 32 else 1))
            side //= 2
        return tuple(widths)


class ContextEncoder(LearnedCompleter):
    """The generator: an encoder down to 4 x 4, a bottleneck without spatial structure, and a mirrored decoder."""

    kind: ClassVar[str] = "ce"
    title: ClassVar[str] = LEARNED_TITLES["ce"]
    varies: ClassVar[bool] = False
    config: ContextEncoderConfig
    fill: Tensor

    def __init__(self, config: ContextEncoderConfig) -> None:
        super().__init__(config)
        widths = config.widths
        self.encoder = nn.Sequential(
            *_halvings(config.channels, widths),
            nn.Conv2d(widths[-1], config.bottleneck, _LAST_SIDE, bias=False),
            batch_norm(config.bottleneck),
            nn.LeakyReLU(0.2),
        )
        up: list[nn.Module] = [nn.ConvTranspose2d(config.bottleneck, widths[-1], _LAST_SIDE, bias=False)]
        outputs = [*reversed(widths[:-1]), config.channels]
        for before, after in zip(reversed(widths), outputs, strict=True):
            up += [batch_norm(before), nn.ReLU(), nn.ConvTranspose2d(before, after, 4, 2, 1, bias=False)]
        self.decoder = nn.Sequential(*up, nn.Tanh())
        colour = torch.tensor(_FILL if config.channels == 3 else (sum(_FILL) / 3,)) / 127.5 - 1
        self.register_buffer("fill", colour.view(1, -1, 1, 1), persistent=False)
        self.apply(_initialise)

    def encode(self, pixels: Tensor, known: Tensor) -> Code:
        return (self(pixels, known),)

    def decode(self, code: Code, noise: Noise) -> Tensor:
        return code[0]

    def forward(self, pixels: Tensor, known: Tensor) -> Tensor:
        """Return whole images [B, C, H, W] in [-1, 1]."""
        image: Tensor = self.decoder(self.encoder(torch.where(known, pixels, self.fill)))
        return image


class Discriminator(nn.Module):
    """Tells real images from completions. It sees whole images, before known pixels are pasted in."""

    def __init__(self, config: ContextEncoderConfig) -> None:
        super().__init__()
        widths = config.widths
        last = nn.Conv2d(widths[-1], 1, _LAST_SIDE, bias=False)
        self.layers = nn.Sequential(*_halvings(config.channels, widths), last)
        self.apply(_initialise)

    def forward(self, x: Tensor) -> Tensor:
        """Return the logit that each image is real, float32 [B]."""
        logits: Tensor = self.layers(x).flatten()
        return logits.float()


class ContextEncoderLoss(CompleterLoss):
    """Squared error over the whole image, and a small part of the adversarial loss."""

    completer: ContextEncoder
    figures = ("squared_error", "adversarial")
    critic_figures = ("real", "fake")

    def __init__(self, completer: ContextEncoder) -> None:
        super().__init__()
        self.completer = completer
        self.critic = Discriminator(completer.config)

    def forward(self, x: Tensor, known: Tensor, noise: Noise) -> Losses:
        made = self.completer(x, known)
        weight = self.completer.config.adversarial
        assert self.critic is not None
        with without_gradients(self.critic):
            adversarial = _cross_entropy(self.critic(made), real=True)
        error = (made.float() - x).square().mean()
        total = weight * adversarial + (1 - weight) * error
        return Losses(total, {"squared_error": error.detach(), "adversarial": adversarial.detach()})

    def critic_loss(self, x: Tensor, known: Tensor, noise: Noise) -> Losses:
        assert self.critic is not None
        with torch.no_grad():
            made = self.completer(x, known)
        real, fake = _cross_entropy(self.critic(x), real=True), _cross_entropy(self.critic(made), real=False)
        return Losses(real + fake, {"real": real.detach(), "fake": fake.detach()})


def _halvings(channels: int, widths: Sequence[int]) -> list[nn.Module]:
    """Return the layers that halve the resolution once for each width."""
    layers: list[nn.Module] = [nn.Conv2d(channels, widths[0], 4, 2, 1, bias=False), nn.LeakyReLU(0.2)]
    for before, after in itertools.pairwise(widths):
        layers += [nn.Conv2d(before, after, 4, 2, 1, bias=False), batch_norm(after), nn.LeakyReLU(0.2)]
    return layers


def _cross_entropy(logits: Tensor, *, real: bool) -> Tensor:
    """Return -log of the probability that the critic gives to the right answer, averaged over the batch."""
    return F.softplus(-logits if real else logits).mean()


def _initialise(module: nn.Module) -> None:
    initialise: Callable[..., Tensor] = nn.init.normal_
    if isinstance(module, nn.Conv2d | nn.ConvTranspose2d):
        initialise(module.weight, std=_INITIAL_STD)
    elif isinstance(module, nn.BatchNorm2d):
        initialise(module.weight, mean=1.0, std=_INITIAL_STD)
