"""Draw codes from a PixelCNN in raster order, and compute each activation only once.

A plain pass of the network per code would compute the whole map every time. Here, the vertical stream is computed once
per row, and the horizontal one once per position. Layers keep their inputs at earlier positions. Up to rounding, the
logits are those of `PixelCNN.forward`. No result is read by the CPU.
"""

from collections.abc import Sequence
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from condvae.completers.vector_quantised.structure_layers import (
    CausalAttention,
    GatedResidual,
    WeightNormConv,
    concat_elu,
    gated_residual,
    no_dropout,
)
from condvae.completers.vector_quantised.structure_network import CausalBlock, PixelCNN, with_ones


def choose(logits: Tensor, uniform: Tensor) -> Tensor:
    """Return a code for each row, int64 [B], by inversion of the distribution. uniform: [B] in [0, 1)."""
    cumulative = logits.float().softmax(dim=1).cumsum(dim=1)
    threshold = uniform[:, None] * cumulative[:, -1:]
    # Rounding can put the threshold at the very end.
    return (cumulative <= threshold).sum(dim=1).clamp(max=logits.shape[1] - 1)


@torch.no_grad()
def sample_codes(network: PixelCNN, condition: Tensor, vectors: Tensor, uniform: Tensor) -> Tensor:
    """Draw a map of codes for each row of the batch, int64 [B, S, S].

    condition: [B, width, S, S]. vectors: of all codes, [K, d]. uniform: random numbers [B, S S] in [0, 1).
    """
    size = condition.shape[-1]
    stepwise = StepwisePixelCNN(network, condition)
    drawn: list[Tensor] = []
    for y in range(size):
        stepwise.start_row(y)
        for x in range(size):
            drawn.append(choose(stepwise.logits(y, x), uniform[:, len(drawn)]))
            stepwise.put(y, x, vectors[drawn[-1]])
    return torch.stack(drawn, dim=1).view(len(condition), size, size)


class StepwisePixelCNN:
    """A PixelCNN that is computed position by position.

    For each row call `start_row`, and then for each position `logits` and `put`.
    """

    def __init__(self, network: PixelCNN, condition: Tensor) -> None:
        size = condition.shape[-1]
        self.network = network
        activated = concat_elu(condition)

        def remembering(layer: WeightNormConv) -> _Remembering:
            return _Remembering(layer, activated, size)

        self.inputs = [remembering(layer) for layer in (network.rows_input, network.row_input, network.column_input)]
        blocks = cast("Sequence[CausalBlock]", network.blocks)
        self.blocks = [
            (_Stream(block.vertical, activated, size), _Stream(block.horizontal, activated, size)) for block in blocks
        ]
        self.from_vertical = [_Point(block.horizontal.others[1]) for block in blocks]
        attentions = cast("Sequence[CausalAttention]", network.attentions)
        self.attentions = [_Attention(layer, len(condition)) for layer in attentions]
        self.output_blocks = [_PointResidual(block) for block in network.output_blocks]
        self.last = _Point(network.logits)
        self.added: list[Tensor] = []
        self.row_input = condition

    def start_row(self, y: int) -> None:
        """Compute what depends only on the rows above: the vertical stream, and what the horizontal one gets of it."""
        vertical, self.row_input = self.inputs[0].row(y), self.inputs[1].row(y)
        self.added = []
        for (stream, other), layer in zip(self.blocks, self.from_vertical, strict=True):
            vertical = stream.row(vertical, y)
            self.added.append(layer.row(concat_elu(vertical)) + other.condition[:, :, y : y + 1])

    def logits(self, y: int, x: int) -> Tensor:
        """Return the logits of one position, [B, K]. All earlier codes must have been put."""
        h = self.row_input[:, :, 0, x] + self.inputs[2].at(y, x)
        every = self.network.attention_every
        for number, ((_, stream), added) in enumerate(zip(self.blocks, self.added, strict=True), start=1):
            h = stream.at(h, added[:, :, 0, x], y, x)
            if number % every == 0:
                h = self.attentions[number // every - 1].at(h, y, x)
        for block in self.output_blocks:
            h = block(h)
        return self.last(F.elu(h))

    def put(self, y: int, x: int, vectors: Tensor) -> None:
        """Give the code of the position whose logits were computed last. vectors: [B, d]."""
        codes = with_ones(vectors)
        for layer in self.inputs:
            layer.put(codes, y, x)
        for attention in self.attentions:
            attention.put(codes, y, x)


class _Point:
    """A 1x1 convolution."""

    def __init__(self, layer: nn.Module) -> None:
        assert isinstance(layer, WeightNormConv)
        self.weight, self.bias = layer.weight(), layer.bias
        self.matrix = self.weight[:, :, 0, 0].contiguous()

    def __call__(self, x: Tensor) -> Tensor:
        """[B, inputs] -> [B, outputs]."""
        return F.linear(x, self.matrix, self.bias)

    def row(self, x: Tensor) -> Tensor:
        """[B, inputs, H, W] -> [B, outputs, H, W]."""
        return F.conv2d(x, self.weight, self.bias)


class _Remembering:
    """A causal convolution that remembers its inputs: position (y, x) of the input is [y + top, x + left] in `seen`."""

    def __init__(self, layer: WeightNormConv, like: Tensor, size: int) -> None:
        self.shape, self.size = layer.shape, size
        self.weight, self.bias = layer.weight(), layer.bias
        self.matrix = self.weight.flatten(1).contiguous()
        left, right, top, _ = layer.shape.padding
        self.seen = like.new_zeros(len(like), layer.inputs, size + top, size + left + max(right, 0))

    def put(self, x: Tensor, row: int, column: int) -> None:
        """x: [B, inputs]."""
        padding = self.shape.padding
        self.seen[:, :, row + padding.top, column + padding.left] = x

    def put_row(self, x: Tensor, row: int) -> None:
        """x: [B, inputs, 1, S]."""
        padding = self.shape.padding
        self.seen[:, :, row + padding.top, padding.left : padding.left + self.size] = x[:, :, 0]

    def at(self, row: int, column: int) -> Tensor:
        """Return one position of the output, [B, outputs]."""
        window = self.seen[:, :, row : row + self.shape.height, column : column + self.shape.width]
        return F.linear(window.flatten(1), self.matrix, self.bias)

    def row(self, row: int) -> Tensor:
        """Return a row of the output, [B, outputs, 1, S]."""
        window = self.seen[:, :, row : row + self.shape.height, : self.size + self.shape.width - 1]
        return F.conv2d(window, self.weight, self.bias)


class _Stream:
    """A block of one stream, with what the condition adds to it."""

    def __init__(self, block: GatedResidual, activated_condition: Tensor, size: int) -> None:
        self.first = _Remembering(block.first, activated_condition, size)
        self.second = _Remembering(block.second, activated_condition, size)
        self.condition: Tensor = block.others[0](activated_condition)

    def row(self, x: Tensor, y: int) -> Tensor:
        def apply(layer: _Remembering, inputs: Tensor) -> Tensor:
            layer.put_row(inputs, y)
            return layer.row(y)

        return gated_residual(
            x,
            lambda inputs: apply(self.first, inputs),
            lambda inputs: apply(self.second, inputs),
            added=self.condition[:, :, y : y + 1],
            dropout=no_dropout,
        )

    def at(self, h: Tensor, added: Tensor, y: int, x: int) -> Tensor:
        def apply(layer: _Remembering, inputs: Tensor) -> Tensor:
            layer.put(inputs, y, x)
            return layer.at(y, x)

        return gated_residual(
            h,
            lambda inputs: apply(self.first, inputs),
            lambda inputs: apply(self.second, inputs),
            added=added,
            dropout=no_dropout,
        )


class _PointResidual:
    """A block of 1x1 convolutions."""

    def __init__(self, block: nn.Module) -> None:
        assert isinstance(block, GatedResidual)
        self.first, self.second = _Point(block.first), _Point(block.second)
        self.others = [_Point(layer) for layer in block.others]

    def __call__(self, x: Tensor, *others: Tensor) -> Tensor:
        """others: [B, 2 * other], after `concat_elu`."""
        added = self.others[0](others[0]) if others else None
        return gated_residual(x, self.first, self.second, added=added, dropout=no_dropout)


class _Attention:
    """An attention layer that remembers keys and values."""

    def __init__(self, layer: CausalAttention, batch: int) -> None:
        self.layer, self.size = layer, layer.position.shape[-1]
        self.content, self.asking, self.merge = map(_PointResidual, (layer.content, layer.asking, layer.merge))
        self.keys_and_values, self.queries = _Point(layer.keys_and_values), _Point(layer.queries)
        shape = (batch, layer.heads, self.size**2)
        self.keys = layer.position.new_zeros(*shape, layer.keys)
        self.values = layer.position.new_zeros(*shape, layer.values)
        self.last_input: Tensor | None = None

    def at(self, h: Tensor, y: int, x: int) -> Tensor:
        self.last_input = h
        earlier = y * self.size + x
        asking = self.asking(torch.cat((h, self._place(h, y, x)), dim=1))
        queries = self.layer.by_head(self.queries(asking)[:, None])
        if earlier:
            keys, values = self.keys[:, :, :earlier], self.values[:, :, :earlier]
            scores = queries @ keys.mT * self.layer.keys**-0.5
            found = (scores.softmax(dim=-1) @ values).flatten(1)
        else:
            found = torch.zeros_like(self.values[:, :, 0]).flatten(1)
        return self.merge(h, concat_elu(found))

    def put(self, codes: Tensor, y: int, x: int) -> None:
        assert self.last_input is not None
        h, place = self.last_input, y * self.size + x
        content = self.content(torch.cat((h, codes, self._place(h, y, x)), dim=1))
        keys, values = self.layer.split(self.keys_and_values(content)[:, None])
        self.keys[:, :, place], self.values[:, :, place] = keys[:, :, 0], values[:, :, 0]

    def _place(self, h: Tensor, y: int, x: int) -> Tensor:
        return self.layer.position[:, :, y, x].expand(len(h), -1)
