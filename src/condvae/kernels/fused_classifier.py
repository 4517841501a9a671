"""The lite0 classifier computed by fused kernels, for inference only.

One kernel computes the convolution, bias, ReLU6 and residual of a layer. Where kernels are not available, the plain
torch classifier is used instead.
"""

# mypy: disable-error-code="no-untyped-call"

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn

from condvae.kernels.convolution import ConvInput, Kernel, Shape, convolve
from condvae.kernels.depthwise import ConvGeometry, depthwise, taps_of
from condvae.kernels.stem import stem, stem_weight


class FoldedBlock(NamedTuple):
    """The convolutions of an inverted residual block, with batch normalisation folded into their weights."""

    expand: nn.Conv2d | None
    depthwise: nn.Conv2d
    project: nn.Conv2d
    adds: bool
    """Whether the block's input is added to its output."""


@dataclass(frozen=True, kw_only=True)
class _Pointwise:
    """A 1 x 1 convolution with half-precision weights, which tensor cores need, and a float32 bias."""

    kernel: Kernel
    bias: Tensor

    @classmethod
    def of(cls, conv: nn.Conv2d, dtype: torch.dtype) -> "_Pointwise":
        outputs, inputs = conv.weight.shape[:2]
        # Rows start at multiples of 16 numbers, so that the compiler loads eight numbers at once.
        rows = torch.zeros(outputs, 1, 1, -(-inputs // 16) * 16, dtype=dtype, device=conv.weight.device)
        weight = rows.permute(0, 3, 1, 2)[:, :inputs].copy_(conv.weight.detach())
        return cls(kernel=Kernel.of(weight), bias=_bias(conv))

    def __call__(self, x: Tensor, shape: Shape, *, relu6: bool = False, add: Tensor | None = None) -> Tensor:
        return convolve(ConvInput(x, self.kernel), shape=shape, bias=self.bias, relu6_out=relu6, add=add).out


class _FusedInvertedResidual:
    """An inverted residual block, computed by three kernels, or by two if it has no expansion layer."""

    def __init__(self, block: FoldedBlock, dtype: torch.dtype) -> None:
        self.expand = None if block.expand is None else _Pointwise.of(block.expand, dtype)
        self.project = _Pointwise.of(block.project, dtype)
        self.look = _look(block.depthwise)
        self.taps, self.bias = taps_of(block.depthwise.weight), _bias(block.depthwise)
        self.adds = block.adds

    def __call__(self, x: Tensor, shape: Shape) -> tuple[Tensor, Shape]:
        inner = x if self.expand is None else self.expand(x, shape, relu6=True)
        inner = depthwise(inner, self.taps, self.bias, shape=shape, look=self.look)
        made = self.look.out(shape)
        return self.project(inner, made, add=x if self.adds else None), made


class FusedLite0:
    """An EfficientNet-Lite0 classifier that sees only known pixels: its input is concat(x * known, known).

    first, blocks, head, last: its float32 layers, with batch normalisation folded into the weights. scale, shift: a
    pixel is normalised to x = pixel * scale + shift.
    """

    def __init__(
        self,
        first: nn.Conv2d,
        blocks: Sequence[FoldedBlock],
        head: nn.Conv2d | None,
        last: nn.Linear,
        *,
        scale: float,
        shift: float,
        dtype: torch.dtype = torch.float16,
    ) -> None:
        self.scale, self.shift = scale, shift
        self.look = _look(first)
        self.stem, self.stem_bias = stem_weight(first.weight, dtype), _bias(first)
        self.blocks = [_FusedInvertedResidual(block, dtype) for block in blocks]
        self.head = None if head is None else _Pointwise.of(head, dtype)
        # float32 costs next to nothing here: there are only a few thousand products per image.
        self.weight, self.bias = last.weight.detach().float().clone(), last.bias.detach().float().clone()

    @torch.no_grad()
    def __call__(self, pixels: Tensor, known: Tensor) -> Tensor:
        """Return the n logits of each image, [B, n] float32, before calibration.

        pixels: [B, C, H, W] in [-1, 1]; known: [B, 1, H, W] bool.
        """
        step = self.at_once(Shape(*pixels.shape[2:]))
        with torch.autocast(pixels.device.type, enabled=False):  # even if the caller uses autocast
            return torch.cat([self._few(*few) for few in zip(pixels.split(step), known.split(step), strict=True)])

    def at_once(self, shape: Shape) -> int:
        """Return how many images of this size fit into one batch, so that int32 can index every tensor."""
        shape = self.look.out(shape)
        largest = shape.height * shape.width * len(self.stem_bias)
        for block in self.blocks:
            largest = max(largest, shape.height * shape.width * len(block.bias))
            shape = block.look.out(shape)
        largest = max(largest, shape.height * shape.width * self.weight.shape[1] // 2)
        return max(1, (2**31 - 1) // largest)

    def _few(self, pixels: Tensor, known: Tensor) -> Tensor:
        shape = self.look.out(Shape(*pixels.shape[2:]))
        x = stem(pixels, known, self.stem, self.stem_bias, scale=self.scale, shift=self.shift, look=self.look)
        for block in self.blocks:
            x, shape = block(x, shape)
        if self.head is not None:
            x = self.head(x, shape, relu6=True)
        features = x.view(len(pixels), shape.height * shape.width, -1)
        pooled = torch.cat((features.mean(dim=1, dtype=torch.float32), features.amax(dim=1).float()), dim=1)
        return nn.functional.linear(pooled, self.weight, self.bias)


def _look(conv: nn.Conv2d) -> ConvGeometry:
    side, stride, padding = conv.kernel_size, conv.stride, conv.padding
    assert side[0] == side[1] and stride[0] == stride[1] and not isinstance(padding, str) and padding[0] == padding[1]
    return ConvGeometry(side[0], stride[0], int(padding[0]), int(padding[0]))


def _bias(conv: nn.Conv2d) -> Tensor:
    assert conv.bias is not None
    return conv.bias.detach().float().clone()
