"""CoModGAN (Zhao et al. 2021, "Large scale image completion via co-modulated generative adversarial networks", ICLR).

A StyleGAN2 generator whose layers are modulated by two vectors: w from random numbers, and c from the known pixels.
Neither style mixing nor truncation is used.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from condvae.completers.comodulated.comodulated_layers import (
    GAIN,
    EqualConv,
    EqualDense,
    StyledLayer,
    ToImage,
    activation,
    minibatch_std,
    normalise,
    resample,
    up_matrix,
)
from condvae.completers.learned_completer import BaselineConfig, Code, LearnedCompleter
from condvae.completers.learned_names import LEARNED_TITLES
from condvae.gaussian import full_precision
from condvae.noise import Noise
from condvae.runtime.checks import check_number, check_whole

LATENT_STREAM = 0
"""The stream of random numbers for z."""
DROPOUT_STREAM = 1
"""The stream of random numbers for the dropout of c."""
FIRST_LAYER_STREAM = 2
"""The stream of random numbers for the pixels of the first layer of the generator; each further layer has the next."""

_LEAST_SIDE = 4
_MAPPING_RATE = 0.01
"""Factor on the learning rate of the mapping network."""


@dataclass(frozen=True, kw_only=True)
class ComodulatedConfig(BaselineConfig):
    """Configuration of the networks and of the loss. The defaults train in minutes.

    The networks of the paper have max_width 512, latent_features 512, mapping_layers 8 and code_features 1024.
    """

    max_width: int = 128
    """Limit on the number of channels."""
    width_base: int = 2**15
    """Features of a resolution of R x R have width_base / R channels, but at most max_width."""
    latent_features: int = 128
    """Number of features of the random vector z, and of w, which is computed from it."""
    mapping_layers: int = 4
    """Number of layers that compute w from z."""
    code_features: int = 256
    """Number of features of c, which is computed from the known pixels."""
    dropout: float = 0.5
    """Probability that a feature of c is set to 0, in training and for completions."""
    r1_weight: float = 10.0
    """Weight of the R1 penalty (gamma): r1_weight / 2 times the squared gradient of the discriminator."""
    r1_part: float = 1 / 16
    """Part of the batch for which the R1 penalty is computed. At least 4 images are used."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_whole(self.max_width, "the largest width", least=1)
        check_whole(self.latent_features, "the number of latent features", least=1)
        check_whole(self.mapping_layers, "the number of mapping layers", least=1)
        check_whole(self.code_features, "the number of code features", least=1)
        check_number(self.dropout, "the dropout", least=0, most=1)
        if self.dropout == 1:
            raise ValueError("the dropout is 1, expected a number below 1, so that some features of c are left")
        check_number(self.r1_weight, "the R1 weight", least=0)
        check_number(self.r1_part, "the R1 part", least=0, most=1)
        if self.image_size & (self.image_size - 1):
            raise ValueError(f"the image size is {self.image_size}, expected a power of two, such as 32 or 64")
        check_whole(self.width_base, "the width base", least=self.image_size)

    @property
    def blocks(self) -> int:
        return self.mapping_layers // 4  # a mapping layer has 2 tensors of weights

    @property
    def sides(self) -> tuple[int, ...]:
        """The resolutions of features, coarsest first: 4, 8, ..., the image size."""
        return tuple(2**power for power in range(int(math.log2(_LEAST_SIDE)), self.image_size.bit_length()))

    @property
    def widths(self) -> tuple[int, ...]:
        """The number of channels at each resolution, coarsest first."""
        return tuple(min(self.width_base // side, self.max_width) for side in self.sides)


class ConditionEncoder(nn.Module):
    """Computes features of all resolutions, and the vector c before its dropout, from the known pixels."""

    def __init__(self, config: ComodulatedConfig) -> None:
        super().__init__()
        widths = config.widths[::-1]  # finest first
        self.input = EqualConv(config.channels + 1, widths[0], 1)
        self.keep = nn.ModuleList(EqualConv(width, width, 3) for width in widths)
        self.down = nn.ModuleList(EqualConv(a, b, 3, down=True) for a, b in itertools.pairwise(widths))
        self.output = EqualDense(widths[-1] * _LEAST_SIDE**2, config.code_features, gain=GAIN)

    def forward(self, pixels: Tensor, known: Tensor) -> Code:
        """Return c [B, code_features], and features [B, width, R, R] of all resolutions, coarsest first."""
        x = activation(self.input(with_known(torch.where(known, pixels, 0.0), known)))
        features: list[Tensor] = []
        for keep, down in itertools.zip_longest(self.keep, self.down):
            x = activation(keep(x))
            features.append(x)
            if down is not None:
                x = activation(down(x))
        return (activation(self.output(x.flatten(1))), *reversed(features))


class StyledGenerator(nn.Module):
    """The generator: from w, c and features of the known pixels to images.

    One dense layer computes the styles of all layers, each from [w, c].
    """

    def __init__(self, config: ComodulatedConfig) -> None:
        super().__init__()
        self.config = config
        widths = config.widths
        self.input = EqualDense(config.code_features, widths[0] * _LEAST_SIDE**2, gain=GAIN)
        self.up = nn.ModuleList(StyledLayer(a, b, up=True) for a, b in itertools.pairwise(widths))
        self.convs = nn.ModuleList(StyledLayer(width, width) for width in widths)
        self.images = nn.ModuleList(ToImage(width, config.channels) for width in widths)
        self.style_sizes = (*widths[:-1], *widths, *widths)  # of up, of convs, of images
        self.styles = EqualDense(config.latent_features + config.code_features, sum(self.style_sizes))
        for side in config.sides[:-1]:
            self.register_buffer(f"up_matrix_{side}", up_matrix(side), persistent=False)

    def forward(self, w: Tensor, c: Tensor, features: Sequence[Tensor], noise: Noise) -> Tensor:
        """Return images [B, C, H, W] in float32. features: as from the encoder, coarsest first."""
        styles = (full_precision(self.styles(torch.cat((w, c), dim=1))) + 1).split(self.style_sizes, dim=1)
        levels = len(self.convs)
        of_up, of_convs, of_images = styles[: levels - 1], styles[levels - 1 : -levels], styles[-levels:]
        x = activation(self.input(c)).view(features[0].shape)
        image: Tensor | None = None
        for level, side in enumerate(self.config.sides):
            first = FIRST_LAYER_STREAM + 2 * level
            if level:
                x = self.up[level - 1](x, of_up[level - 1], self._noise(noise, first - 1, x, side))
            x = self.convs[level](features[level] + x, of_convs[level], self._noise(noise, first, x, side))
            part: Tensor = self.images[level](x, of_images[level])
            image = part if image is None else part + self._doubled(image)
        assert image is not None
        return image

    def _noise(self, noise: Noise, stream: int, x: Tensor, side: int) -> Tensor:
        return noise.normal(stream, (len(x), 1, side, side), x.device)

    def _doubled(self, image: Tensor) -> Tensor:
        matrix: Tensor = getattr(self, f"up_matrix_{image.shape[-1]}")
        with torch.autocast(image.device.type, enabled=False):
            return resample(image, matrix)


class Comodulated(LearnedCompleter):
    """CoModGAN. The random numbers of a completion are z, the dropout of c, and noise for each pixel of each layer."""

    kind: ClassVar[str] = "comodgan"
    title: ClassVar[str] = LEARNED_TITLES["comodgan"]
    varies: ClassVar[bool] = True
    config: ComodulatedConfig

    def __init__(self, config: ComodulatedConfig) -> None:
        super().__init__(config)
        size = config.latent_features
        self.mapping = nn.ModuleList(
            EqualDense(size, size, gain=GAIN, rate=_MAPPING_RATE) for _ in range(config.mapping_layers)
        )
        self.encoder = ConditionEncoder(config)
        self.generator = StyledGenerator(config)

    def encode(self, pixels: Tensor, known: Tensor) -> Code:
        """Return c before its dropout, and features of all resolutions, coarsest first."""
        code: Code = self.encoder(pixels, known)
        return code

    def decode(self, code: Code, noise: Noise) -> Tensor:
        c, *features = code
        z = noise.normal(LATENT_STREAM, (len(c), self.config.latent_features), c.device)
        uniform = noise.uniform(DROPOUT_STREAM, c.shape, c.device)
        images: Tensor = self.generator(self.mapped(z), dropped(c, uniform, self.config.dropout), features, noise)
        return images

    def forward(self, pixels: Tensor, known: Tensor, noise: Noise) -> Tensor:
        """Return completed images [B, C, H, W] in float32, in which known pixels are exact."""
        made = self.decode(self.encode(pixels, known), noise)
        return torch.where(known, pixels.to(made.dtype), made)

    def mapped(self, z: Tensor) -> Tensor:
        """Compute w from z, both [B, latent_features]."""
        w = normalise(z)
        for layer in self.mapping:
            w = activation(layer(w))
        return w


class _DiscriminatorBlock(nn.Module):
    """Two 3x3 convolutions and a shortcut: [B, inputs, R, R] -> [B, outputs, R / 2, R / 2].

    The result is (a + b) / sqrt(2) for the branch a = sqrt(2) LeakyReLU(...) and the shortcut b. The factors are part
    of the scales of the weights.
    """

    down_matrix: Tensor

    def __init__(self, inputs: int, outputs: int, side: int) -> None:
        super().__init__()
        self.c1 = EqualConv(inputs, inputs, 3)
        self.c2 = EqualConv(inputs, outputs, 3, gain=1.0, down=True)
        self.shortcut = EqualConv(inputs, outputs, 1, gain=1 / GAIN, bias=False)
        self.register_buffer("down_matrix", up_matrix(side // 2).mT / 2, persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        y = activation(self.c2(activation(self.c1(x))))
        shortcut: Tensor = self.shortcut(resample(x, self.down_matrix))
        return shortcut + y


class ComodulatedDiscriminator(nn.Module):
    """Tells real images from completions. It also sees which pixels were known."""

    def __init__(self, config: ComodulatedConfig) -> None:
        super().__init__()
        widths, sides = config.widths[::-1], config.sides[::-1]  # finest first
        self.input = EqualConv(config.channels + 1, widths[0], 1)
        self.blocks = nn.ModuleList(
            _DiscriminatorBlock(a, b, side) for (a, b), side in zip(itertools.pairwise(widths), sides[:-1], strict=True)
        )
        last = widths[-1]
        self.conv = EqualConv(last + 1, last, 3)
        self.dense = EqualDense(last * _LEAST_SIDE**2, last, gain=GAIN)
        self.output = EqualDense(last, 1)

    def forward(self, images: Tensor, known: Tensor, *, batches: int = 1) -> Tensor:
        """Return the logit that each image is real, float32 [B]. images: [B, C, H, W] with known pixels pasted in.

        batches: how many batches of the same size `images` consists of; each has its own statistics.
        """
        x = activation(self.input(with_known(images, known)))
        for block in self.blocks:
            x = block(x)
        x = activation(self.conv(minibatch_std(x, batches=batches)))
        x = activation(self.dense(x.flatten(1)))
        with torch.autocast(x.device.type, enabled=False):
            logits: Tensor = self.output(full_precision(x)).flatten()
        return logits


def with_known(images: Tensor, known: Tensor) -> Tensor:
    """Return [known - 0.5, images], the input of the encoder and of the discriminator."""
    return torch.cat((known.to(images.dtype) - 0.5, images), dim=1)


def dropped(c: Tensor, uniform: Tensor, probability: float) -> Tensor:
    """Set features to 0 with a probability, and scale the others up. uniform: random numbers in [0, 1), like c."""
    return torch.where(uniform < probability, 0.0, c / (1 - probability))
