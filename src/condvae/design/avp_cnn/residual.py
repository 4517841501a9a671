"""A small residual network of plain 3 x 3 convolutions, which are fast on GPUs. It has no pretrained weights."""

import torch.nn.functional as F
from torch import Tensor, nn

from condvae.design.avp_cnn.layers import ConvNorm
from condvae.runtime.checks import check_choice, check_whole

_MOMENTUM = 0.1
"""Momentum of the batch normalisations. It is larger than in Lite0, because their statistics start untrained."""


class BasicBlock(nn.Module):
    """Two 3 x 3 convolutions with a shortcut connection."""

    def __init__(self, inputs: int, outputs: int, *, stride: int) -> None:
        super().__init__()
        self.stride = stride
        alike = stride == 1 and inputs == outputs
        self.first = ConvNorm(inputs, outputs, 3, stride=stride, activation="relu", momentum=_MOMENTUM)
        self.second = ConvNorm(outputs, outputs, 3, activation="none", momentum=_MOMENTUM)
        self.shortcut = None if alike else ConvNorm(inputs, outputs, 1, activation="none", momentum=_MOMENTUM)

    def forward(self, x: Tensor) -> Tensor:
        # A stride of the 1 x 1 convolution would do the same, but on processors without AVX-512 its gradient in torch
        # writes outside its memory if the number of channels is not a multiple of 8.
        seen = x[:, :, :: self.stride, :: self.stride]
        return F.relu(self.second(self.first(x)) + (x if self.shortcut is None else self.shortcut(seen)))


class Residual(nn.Module):
    """A first convolution (stem), then `blocks` residual blocks for each number of channels in `widths`.

    The first block with each number of channels halves the resolution.
    """

    def __init__(self, channels: int, *, widths: tuple[int, ...], blocks: int, stem_stride: int = 2) -> None:
        super().__init__()
        check_whole(channels, "channels", least=1)
        check_whole(blocks, "blocks", least=1)
        check_choice(stem_stride, "stem_stride", (1, 2))
        if not widths:
            raise ValueError("the plain trunk has no widths: give channels for one or more stages, such as 32 64 128")
        for width in widths:
            check_whole(width, "a width of the plain trunk", least=1)
        self.stem = ConvNorm(channels, widths[0], 5, stride=stem_stride, activation="relu", momentum=_MOMENTUM)
        inputs = (widths[0], *widths[:-1])
        self.blocks = nn.Sequential(
            *(
                BasicBlock(before if i == 0 else width, width, stride=2 if i == 0 else 1)
                for before, width in zip(inputs, widths, strict=True)
                for i in range(blocks)
            )
        )
        self.width = widths[-1]

    def forward(self, x: Tensor) -> Tensor:
        features: Tensor = self.blocks(self.stem(x))
        return features
