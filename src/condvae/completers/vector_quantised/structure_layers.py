"""The layers of the structure generator: convolutions with weight norm, gated residual blocks, and causal attention.

They follow PixelCNN++ (Salimans et al. 2017) and PixelSNAIL (Chen et al. 2018). Position (y, x) is in raster order: it
comes after all positions of earlier rows, and after those further left in its own row.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from condvae.noise import Noise

TensorMap = Callable[[Tensor], Tensor]


class Padding(NamedTuple):
    """Rows and columns of zeros around a map. A negative number removes some instead."""

    left: int = 0
    right: int = 0
    top: int = 0
    bottom: int = 0

    @staticmethod
    def around(n: int) -> "Padding":
        return Padding(n, n, n, n)


class KernelShape(NamedTuple):
    """The shape of a kernel [height, width], and the padding that decides which neighbours it sees."""

    height: int
    width: int
    padding: Padding


POINT = KernelShape(1, 1, Padding())
"""Sees its own position."""
ABOVE_WIDE = KernelShape(2, 3, Padding(left=1, right=1, top=1))
"""Sees its own row and the one above, one column to both sides: for the vertical stream."""
LEFT_AND_ABOVE = KernelShape(2, 2, Padding(left=1, top=1))
"""Sees its own row and the one above, up to its own column: for the horizontal stream."""
ROWS_BEFORE = KernelShape(2, 3, Padding(left=1, right=1, top=2, bottom=-1))
"""Sees the two rows above its own, so only earlier codes."""
ROW_BEFORE = KernelShape(1, 3, Padding(left=1, right=1, top=1, bottom=-1))
"""Sees the row above its own, so only earlier codes."""
COLUMN_BEFORE = KernelShape(2, 1, Padding(left=1, right=-1, top=1))
"""Sees the column to the left, in its own row and in the one above, so only earlier codes."""


def around(size: int, dilation: int = 1) -> KernelShape:
    """Return the shape of an ordinary square kernel, for networks that need not be causal."""
    return KernelShape(size, size, Padding.around(dilation * (size // 2)))


class WeightNormConv(nn.Module):
    """A convolution with the kernels gain * direction / |direction| (Salimans & Kingma 2016)."""

    def __init__(
        self, inputs: int, outputs: int, shape: KernelShape, *, stride: int = 1, dilation: int = 1, gain: float = 1.0
    ) -> None:
        super().__init__()
        self.shape, self.stride, self.dilation = shape, stride, dilation
        self.inputs = inputs
        self.direction = nn.Parameter(0.05 * torch.randn(outputs, inputs, shape.height, shape.width))
        self.gain = nn.Parameter(torch.full((outputs,), gain))
        self.bias = nn.Parameter(torch.zeros(outputs))

    def weight(self) -> Tensor:
        """Return the kernels, [outputs, inputs, height, width]."""
        length: Tensor = torch.linalg.vector_norm(self.direction, dim=(1, 2, 3))
        return self.direction * (self.gain / length.clamp(min=1e-12)).view(-1, 1, 1, 1)

    def forward(self, x: Tensor) -> Tensor:
        padding = self.shape.padding
        same = padding == Padding.around(padding.left)
        if not same:
            x = F.pad(x, padding)
        symmetric = padding.left if same else 0
        return F.conv2d(x, self.weight(), self.bias, self.stride, symmetric, self.dilation)


class Dropout:
    """Dropout whose masks come from a `Noise`; each call uses the next stream."""

    def __init__(self, noise: Noise, rate: float, first_stream: int) -> None:
        self.noise, self.rate, self.stream = noise, rate, first_stream

    def __call__(self, x: Tensor) -> Tensor:
        kept = self.noise.uniform(self.stream, x.shape, x.device) >= self.rate
        self.stream += 1
        return x * kept / (1 - self.rate)


def no_dropout(x: Tensor) -> Tensor:
    return x


def concat_elu(x: Tensor) -> Tensor:
    """Return ELU(x) and ELU(-x), which doubles the channels."""
    return F.elu(torch.cat((x, -x), dim=1))


def gated_residual(
    x: Tensor, first: TensorMap, second: TensorMap, *, added: Tensor | None, dropout: TensorMap
) -> Tensor:
    """Return x + a sigmoid(b), where (a, b) = second(f(first(f(x)) + added)) and f is `concat_elu`.

    The layers decide whether x is a map [B, C, H, W], or one position of it, [B, C].
    """
    y = first(concat_elu(x))
    if added is not None:
        y = y + added
    a, b = second(dropout(concat_elu(y))).chunk(2, dim=1)
    return x + a * torch.sigmoid(b)


class GatedResidual(nn.Module):
    """A gated residual block, to whose hidden layer 1x1 convolutions of other maps can be added."""

    def __init__(self, width: int, shape: KernelShape, *, dilation: int = 1, others: tuple[int, ...] = ()) -> None:
        super().__init__()
        self.first = WeightNormConv(2 * width, width, shape, dilation=dilation)
        self.second = WeightNormConv(2 * width, 2 * width, shape, dilation=dilation, gain=0.1)
        self.others = nn.ModuleList(WeightNormConv(2 * other, width, POINT) for other in others)

    def forward(self, x: Tensor, *others: Tensor, dropout: TensorMap = no_dropout) -> Tensor:
        """others: one map [B, other, H, W] for each entry of `others`, after `concat_elu`."""
        added = None
        for layer, other in zip(self.others, others, strict=True):
            made: Tensor = layer(other)
            added = made if added is None else added + made
        return gated_residual(x, self.first, self.second, added=added, dropout=dropout)


class CausalAttention(nn.Module):
    """Attention of each position to all earlier ones, whose keys and values also contain their codes.

    position: the coordinates of each position, [1, 2, S, S].
    """

    position: Tensor

    def __init__(self, width: int, code_inputs: int, size: int, *, heads: int, keys: int, values: int) -> None:
        super().__init__()
        self.heads, self.keys, self.values = heads, keys, values
        content = width + code_inputs + 2
        self.content = GatedResidual(content, POINT)
        self.keys_and_values = WeightNormConv(content, heads * (keys + values), POINT)
        self.asking = GatedResidual(width + 2, POINT)
        self.queries = WeightNormConv(width + 2, heads * keys, POINT)
        self.merge = GatedResidual(width, POINT, others=(heads * values,))
        place = (torch.arange(size) + 0.5) / size - 0.5
        position = torch.stack((place[:, None].expand(size, size), place.expand(size, size)))
        self.register_buffer("position", position[None], persistent=False)

    def forward(self, x: Tensor, codes: Tensor, dropout: TensorMap = no_dropout) -> Tensor:
        """Map [B, width, S, S] to the same shape. codes: the inputs of the PixelCNN, [B, code_inputs, S, S]."""
        batch, size = len(x), x.shape[-1]
        place = self.position.to(x.dtype).expand(batch, -1, -1, -1)
        content = self.content(torch.cat((x, codes.to(x.dtype), place), dim=1), dropout=dropout)
        keys, values = self.split(self.keys_and_values(content).flatten(2).mT)
        asking = self.asking(torch.cat((x, place), dim=1), dropout=dropout)
        queries = self.by_head(self.queries(asking).flatten(2).mT)
        places = torch.arange(size * size, device=x.device)
        earlier = places[:, None] > places
        # The first position has nothing to attend to. It attends to itself, and then the result is set to 0.
        found = F.scaled_dot_product_attention(
            queries, keys, values, attn_mask=earlier | (places[:, None] + places == 0)
        )
        found = found * (places > 0)[:, None]
        found = found.transpose(1, 2).flatten(2).mT.reshape(batch, -1, size, size)
        merged: Tensor = self.merge(x, concat_elu(found), dropout=dropout)
        return merged

    def by_head(self, rows: Tensor) -> Tensor:
        """[B, positions, heads * n] -> [B, heads, positions, n]."""
        heads: Tensor = rows.unflatten(2, (self.heads, -1))
        return heads.transpose(1, 2)

    def split(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Return keys [B, heads, positions, keys] and values from the output of `keys_and_values`, as rows."""
        keys, values = self.by_head(rows).split((self.keys, self.values), dim=-1)
        return keys, values
