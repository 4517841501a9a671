"""The building blocks of Pluralistic Image Completion (Zheng et al. 2019, "Pluralistic image completion").

All convolutions have spectral norm, except for the queries of the attention. Blocks apply the activation before a
convolution. The inner width of a block is the smaller one of its input and output widths.
"""

import itertools
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from condvae.completers.spectral_norm import spectral_norm


def activation(x: Tensor) -> Tensor:
    return F.leaky_relu(x, 0.1)


class SpectralResidual(nn.Module):
    """Two 3x3 convolutions plus a 1x1 shortcut: [B, inputs, R, R] -> [B, outputs, R, R], or R / 2 with `down`."""

    def __init__(self, inputs: int, outputs: int, *, down: bool = False) -> None:
        super().__init__()
        inner = min(inputs, outputs)
        self.down = down
        self.c1 = _convolution(inputs, inner, 3)
        self.c2 = _convolution(inner, outputs, 3)
        self.shortcut = _convolution(inputs, outputs, 1)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.c2(activation(self.c1(activation(x))))
        if self.down:  # the mean over 2x2 pixels commutes with a 1x1 convolution, which is then four times cheaper
            x, y = F.avg_pool2d(x, 2), F.avg_pool2d(y, 2)
        shortcut: Tensor = self.shortcut(x)
        return shortcut + y


class SpectralStem(nn.Module):
    """The first block, on pixels, without an activation before its first convolution: it halves the resolution."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.c1 = _convolution(inputs, outputs, 3)
        self.c2 = _convolution(outputs, outputs, 3)
        self.shortcut = _convolution(inputs, outputs, 1)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.c2(activation(self.c1(x)))
        shortcut: Tensor = self.shortcut(F.avg_pool2d(x, 2))
        return shortcut + F.avg_pool2d(y, 2)


class SpectralPyramid(nn.Module):
    """A stem and residual blocks, each of which halves the resolution: the encoder, and the trunk of a discriminator.

    Level i has widths[i] channels at the resolution image_size / 2^(i + 1).
    """

    def __init__(self, channels: int, widths: Sequence[int]) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(
            [
                SpectralStem(channels, widths[0]),
                *(SpectralResidual(a, b, down=True) for a, b in itertools.pairwise(widths)),
            ]
        )

    def forward(self, x: Tensor) -> list[Tensor]:
        """Return the features of all levels, finest first. x: images [B, C, H, W] in [-1, 1]."""
        levels: list[Tensor] = []
        for block in self.blocks:
            x = block(x)
            levels.append(x)
        return levels


class SpectralUpBlock(nn.Module):
    """A block of the decoder, with instance norms: [B, inputs, R, R] -> [B, outputs, 2 R, 2 R]."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        inner = min(inputs, outputs)
        # A group norm with one channel per group is an instance norm; autocast computes it in float32.
        self.n1 = nn.GroupNorm(inputs, inputs)
        self.c1 = _convolution(inputs, inner, 3)
        self.n2 = nn.GroupNorm(inner, inner)
        self.c2 = _up_convolution(inner, outputs)
        self.shortcut = _up_convolution(inputs, outputs)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.c1(activation(self.n1(x)))
        y = self.c2(activation(self.n2(y)))
        shortcut: Tensor = self.shortcut(x)
        return shortcut + y


class ImageHead(nn.Module):
    """The image at one scale: [B, inputs, R, R] -> [B, C, R, R] in [-1, 1]."""

    def __init__(self, inputs: int, channels: int) -> None:
        super().__init__()
        self.conv = spectral_norm(nn.Conv2d(inputs, channels, 3))

    def forward(self, x: Tensor) -> Tensor:
        padded = F.pad(activation(x), (1, 1, 1, 1), mode="reflect")
        return torch.tanh(self.conv(padded))


class SharedAttention(nn.Module):
    """Self-attention between the positions of a map, whose queries are also the keys: x + gamma A x.

    A = softmax(q^T q) without a scale, where q is a 1x1 convolution of x. gamma starts at 0, so that the layer starts
    as the identity.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.query = nn.Conv2d(width, max(1, width // 4), 1)
        nn.init.orthogonal_(self.query.weight)
        self.gamma = nn.Parameter(torch.zeros(1))

    def forward(self, x: Tensor) -> Tensor:
        return self.merge(self.weights(x), x)

    def weights(self, x: Tensor) -> Tensor:
        """Return A for a map [B, C, R, R]: float32 [B, R R, R R], whose rows sum to 1."""
        q: Tensor = self.query(x).flatten(2)
        with torch.autocast(x.device.type, enabled=False):  # without a scale, the products can be large
            q = q.to(self.gamma.dtype)
            return (q.mT @ q).softmax(dim=-1)

    def merge(self, weights: Tensor, x: Tensor) -> Tensor:
        return x + self.gamma * attend(weights, x)


class LongRangeAttention(nn.Module):
    """Attention of the decoder, which also copies features of the encoder from visible to hidden positions.

    With the same A, self branch: x + gamma A x. Long-range branch: known f + alpha (1 - known) A f, where f are the
    encoder's features at this resolution. A residual block merges the two. gamma and alpha start at 0.
    """

    def __init__(self, width: int, encoder_width: int) -> None:
        super().__init__()
        self.attention = SharedAttention(width)
        self.alpha = nn.Parameter(torch.zeros(1))
        self.output = SpectralResidual(width + encoder_width, width)

    def forward(self, x: Tensor, encoder_features: Tensor, known: Tensor) -> Tensor:
        """Map [B, width, R, R] to the same shape.

        encoder_features: [B, encoder_width, R, R]. known: [B, 1, R, R], the known part of the area of each position.
        """
        weights = self.attention.weights(x)
        copied = self.alpha * (1 - known) * attend(weights, encoder_features)
        branches = (self.attention.merge(weights, x), known * encoder_features + copied)
        merged: Tensor = self.output(torch.cat(branches, dim=1))
        return merged


def attend(weights: Tensor, x: Tensor) -> Tensor:
    """Return the average of x [B, C, R, R] for each row of attention weights [B, R R, R R]."""
    return (x.flatten(2) @ weights.to(x.dtype).mT).view_as(x)


def _convolution(inputs: int, outputs: int, kernel: int) -> nn.Conv2d:
    return spectral_norm(nn.Conv2d(inputs, outputs, kernel, padding=kernel // 2))


def _up_convolution(inputs: int, outputs: int) -> nn.ConvTranspose2d:
    """Make a transposed convolution that doubles the resolution."""
    return spectral_norm(nn.ConvTranspose2d(inputs, outputs, 3, stride=2, padding=1, output_padding=1))
