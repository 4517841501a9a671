"""The building block of VD-VAE computed by fused kernels, forward and backward.

A block has four convolutions, c1 to c4, with GELU before each. The decoder needs the result after c3, so the block can
also run in two parts: `HiddenFunction` ends with c3, and `OutputFunction` starts with the GELU before c4. Weights are
in half precision; biases and sums are in float32. Autograd only sees the gradients of activations. Kernels add the
gradients of weights and biases to tensors that the caller provides.
"""

# mypy: disable-error-code="no-untyped-call"

from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from condvae.kernels.convolution import ConvInput, Kernel, Shape, convolve
from condvae.kernels.double_convolution import convolve_twice
from condvae.kernels.tiles import WIDEST
from condvae.kernels.weight_gradient import WeightGradients


@dataclass(frozen=True)
class LayerWeights:
    """The weights and bias of one convolution, and the tensors to which kernels add their gradients."""

    weight: Tensor
    """[N, K, 1, 1] or [N, K, 3, 3] in half precision, for K input channels and N output channels."""
    bias: Tensor
    """[N] float32, one number per output channel."""
    weight_gradient: Tensor | None = None
    """The gradient of `weight`: float32, in the memory layout of `weight`; None if the layer is frozen."""
    bias_gradient: Tensor | None = None

    @property
    def kernel(self) -> Kernel:
        return Kernel.of(self.weight)

    def rows(self, first: int, last: int) -> "LayerWeights":
        """Return the weights that compute the output channels first, ..., last - 1."""
        parts = (self.weight, self.bias, self.weight_gradient, self.bias_gradient)
        return LayerWeights(*(None if part is None else part[first:last] for part in parts))  # type: ignore[arg-type]


_ROWS_THAT_PAY = 4_000


def pays(x: Tensor, layers: tuple[LayerWeights, ...]) -> bool:
    """Return whether the last two convolutions of a block are faster as one kernel than as two.

    They are slower as one kernel if there are too few pixels to occupy the GPU, or if the values between the two
    convolutions do not fit into registers.
    """
    inner = layers[2].weight.shape[0]
    return x.shape[0] * x.shape[2] * x.shape[3] >= _ROWS_THAT_PAY and inner <= WIDEST


def without_gradients(
    x: Tensor, extra_input: Tensor | None, layers: tuple[LayerWeights, ...], *, add: bool, dtype: torch.dtype
) -> Tensor:
    """Compute the whole block for inference: the result cannot be differentiated. add: add the block's input x."""
    if pays(x, layers):
        return second_half(half_way(x, extra_input, layers), layers, add=x if add else None, dtype=dtype)
    shape, rows, last = Shape(*x.shape[2:]), _rows(x), layers[3]
    h, _ = _hidden(rows, None if extra_input is None else _rows(extra_input), layers[:3], shape, keep=False)
    part = ConvInput(h, last.kernel, gelu=True)
    y = convolve(part, shape=shape, bias=last.bias, add=rows if add else None, dtype=dtype).out
    return _images(y, x.shape[0], shape)


def half_way(x: Tensor, extra_input: Tensor | None, layers: tuple[LayerWeights, ...]) -> Tensor:
    """Return GELU(c2(GELU(c1(GELU(x), extra_input)))), from which `second_half` computes the block's output."""
    shape = Shape(*x.shape[2:])
    a2, _ = _half(_rows(x), None if extra_input is None else _rows(extra_input), layers[:2], shape, keep=False)
    return _images(a2, x.shape[0], shape)


def second_half(
    half: Tensor,
    layers: tuple[LayerWeights, ...],
    *,
    z: Tensor | None = None,
    projection: LayerWeights | None = None,
    add: Tensor | None = None,
    dtype: torch.dtype,
) -> Tensor:
    """Return c4(GELU(c3(half))), where `half` is from `half_way`; add projection(z) and the tensor `add` if given."""
    shape, third, last = Shape(*half.shape[2:]), layers[2], layers[3]
    extra_input, bias = None, last.bias
    if projection is not None:
        assert z is not None
        extra_input, bias = ConvInput(_rows(z), projection.kernel), bias + projection.bias
    y = convolve_twice(
        _rows(half),
        third.kernel,
        third.bias,
        last.kernel,
        bias,
        shape=shape,
        extra_input=extra_input,
        add=None if add is None else _rows(add),
        dtype=dtype,
    )
    return _images(y, half.shape[0], shape)


class _Saved(NamedTuple):
    """Tensors that the backward pass needs: h1, h2 are the outputs of c1, c2, and a1, a2 are GELU(h1), GELU(h2)."""

    g: Tensor
    """GELU(x), where x is the input of the block."""
    h1: Tensor
    a1: Tensor
    h2: Tensor
    a2: Tensor


class HiddenFunction(torch.autograd.Function):
    """Compute c3(GELU(c2(GELU(c1(GELU(x), extra_input))))). GELU has already been applied to extra_input."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        extra_input: Tensor | None,
        anchor: Tensor,
        layers: tuple[LayerWeights, ...],
        recompute: bool,
    ) -> Tensor:
        shape = Shape(*x.shape[2:])
        rows, extra_rows = _rows(x), None if extra_input is None else _rows(extra_input)
        trains = any(ctx.needs_input_grad)
        assert not trains or extra_input is None or len(extra_input) == len(x), (
            "with gradients, x and the extra input need equally many images"
        )
        h, saved = _hidden(rows, extra_rows, layers, shape, keep=trains and not recompute)
        if trains:
            ctx.shape, ctx.layers, ctx.batch = shape, layers, x.shape[0]
            # Keep x only if its gradient passes through GELU, or if everything is recomputed.
            ctx.save_for_backward(rows if ctx.needs_input_grad[0] or not saved else None, extra_rows, *(saved or ()))
        return _images(h, x.shape[0], shape)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dh: Tensor) -> tuple[Tensor | None, ...]:
        x, extra_input, *kept = ctx.saved_tensors
        if not kept:
            _, saved = _hidden(x, extra_input, ctx.layers, ctx.shape, keep=True)
            kept = list(saved or ())
        gradients = _gradients(ctx.layers, len(kept[0]))
        dx, d_extra = _hidden_backward(ctx, _rows(dh), x, extra_input, _Saved(*kept), gradients)
        return dx, d_extra, None, None, None


class OutputFunction(torch.autograd.Function):
    """Compute c4(GELU(h)), where h is from `HiddenFunction`; add projection(z) and the tensor `add` if given."""

    @staticmethod
    def forward(
        ctx: Any,
        h: Tensor,
        z: Tensor | None,
        add: Tensor | None,
        anchor: Tensor,
        last: LayerWeights,
        projection: LayerWeights | None,
        dtype: torch.dtype | None,
    ) -> Tensor:
        shape = Shape(*h.shape[2:])
        rows, rows_z = _rows(h), None if z is None else _rows(z)
        extra_input = None
        bias = last.bias
        if projection is not None:
            assert rows_z is not None
            extra_input = ConvInput(rows_z, projection.kernel)
            bias = bias + projection.bias
        trains = any(ctx.needs_input_grad)
        y, _, activated = convolve(
            ConvInput(rows, last.kernel, gelu=True),
            extra_input,
            shape=shape,
            bias=bias,
            add=None if add is None else _rows(add),
            keep_activated=trains,
            dtype=dtype,
        )
        if trains:
            ctx.shape, ctx.last, ctx.projection, ctx.batch = shape, last, projection, h.shape[0]
            ctx.save_for_backward(rows, activated, rows_z)
        return _images(y, h.shape[0], shape)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor | None, ...]:
        h, activated, z = ctx.saved_tensors
        last, projection, shape = ctx.last, ctx.projection, ctx.shape
        rows = _rows(dy.to(h.dtype))
        dh = dz = None
        if ctx.needs_input_grad[0]:
            dh = _images(
                convolve(ConvInput(rows, last.kernel.transposed), shape=shape, slope_of=h).out, ctx.batch, shape
            )
        if projection is not None and ctx.needs_input_grad[1]:
            dz = _images(convolve(ConvInput(rows, projection.kernel.transposed), shape=shape).out, ctx.batch, shape)
        gradients = _gradients((last, projection) if projection is not None else (last,), len(rows))
        if gradients is not None:
            if last.weight_gradient is not None:
                gradients.add(last.weight_gradient, last.bias_gradient, rows, activated, shape=shape)
            if projection is not None and projection.weight_gradient is not None:
                gradients.add(projection.weight_gradient, projection.bias_gradient, rows, z, shape=shape)
            gradients.finish()
        return dh, dz, dy if ctx.needs_input_grad[2] else None, None, None, None, None


class BlockFunction(torch.autograd.Function):
    """Compute a whole block, c4(GELU(c3(...))), and add its input x if adds_input is True.

    This is one autograd function, so that a convolution kernel can add the residual's gradient to that of x.
    """

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        extra_input: Tensor | None,
        anchor: Tensor,
        layers: tuple[LayerWeights, ...],
        adds_input: bool,
        recompute: bool,
        dtype: torch.dtype | None,
    ) -> Tensor:
        shape = Shape(*x.shape[2:])
        rows, extra_rows = _rows(x), None if extra_input is None else _rows(extra_input)
        trains = any(ctx.needs_input_grad)
        keep = trains and not recompute
        assert not trains or extra_input is None or len(extra_input) == len(x), (
            "with gradients, x and the extra input need equally many images"
        )
        h, saved = _hidden(rows, extra_rows, layers[:3], shape, keep=keep)
        y, _, a = convolve(
            ConvInput(h, layers[3].kernel, gelu=True),
            shape=shape,
            bias=layers[3].bias,
            add=rows if adds_input else None,
            keep_activated=keep,
            dtype=dtype,
        )
        if trains:
            ctx.shape, ctx.layers, ctx.batch, ctx.adds_input = shape, layers, x.shape[0], adds_input
            kept = (h, a, *saved) if saved else ()
            ctx.save_for_backward(rows if ctx.needs_input_grad[0] or not saved else None, extra_rows, *kept)
        return _images(y, x.shape[0], shape)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor | None, ...]:
        x, extra_input, *kept = ctx.saved_tensors
        if not kept:
            h, saved = _hidden(x, extra_input, ctx.layers[:3], ctx.shape, keep=True)
            kept = [h, F.gelu(h), *(saved or ())]
        h, a, *inner = kept
        rows = _rows(dy.to(h.dtype))
        last, gradients = ctx.layers[3], _gradients(ctx.layers, len(rows))
        if gradients is not None:
            gradients.add(last.weight_gradient, last.bias_gradient, rows, a, shape=ctx.shape)
        dh = convolve(ConvInput(rows, last.kernel.transposed), shape=ctx.shape, slope_of=h).out
        add = rows if ctx.adds_input else None
        dx, d_extra = _hidden_backward(ctx, dh, x, extra_input, _Saved(*inner), gradients, add=add)
        return dx, d_extra, None, None, None, None, None


def _hidden(
    x: Tensor, extra_input: Tensor | None, layers: tuple[LayerWeights, ...], shape: Shape, *, keep: bool
) -> tuple[Tensor, _Saved | None]:
    a2, saved = _half(x, extra_input, layers[:2], shape, keep=keep)
    h = convolve(ConvInput(a2, layers[2].kernel), shape=shape, bias=layers[2].bias).out
    return h, saved


def _half(
    x: Tensor, extra_input: Tensor | None, layers: tuple[LayerWeights, ...], shape: Shape, *, keep: bool
) -> tuple[Tensor, _Saved | None]:
    first, second = layers
    one, two = _inputs(x, extra_input, first)
    a1, h1, g = convolve(one, two, shape=shape, bias=first.bias, gelu_out=True, keep_pre=keep, keep_activated=keep)
    a2, h2, _ = convolve(ConvInput(a1, second.kernel), shape=shape, bias=second.bias, gelu_out=True, keep_pre=keep)
    if not keep:
        return a2, None
    assert g is not None and h1 is not None and h2 is not None
    return a2, _Saved(g, h1, a1, h2, a2)


def _inputs(x: Tensor, extra_input: Tensor | None, first: LayerWeights) -> tuple[ConvInput, ConvInput | None]:
    kernel, k = first.kernel, x.shape[1]
    one = ConvInput(x, kernel.columns(0, k), gelu=True)
    return one, None if extra_input is None else ConvInput(extra_input, kernel.columns(k, kernel.inputs))


def _hidden_backward(
    ctx: Any,
    dh: Tensor,
    x: Tensor | None,
    extra_input: Tensor | None,
    saved: _Saved,
    gradients: WeightGradients | None,
    *,
    add: Tensor | None = None,
) -> tuple[Tensor | None, Tensor | None]:
    """Return the gradients of x and extra_input, and add the gradients of the weights to `gradients`.

    add: the residual's gradient, which is added to the gradient of x.
    """
    shape, (first, second, third) = ctx.shape, ctx.layers[:3]
    k = saved.g.shape[1]
    dh2 = convolve(ConvInput(dh, third.kernel.transposed), shape=shape, slope_of=saved.h2).out
    dh1 = convolve(ConvInput(dh2, second.kernel.transposed), shape=shape, slope_of=saved.h1).out
    if gradients is not None:
        gradients.add(third.weight_gradient, third.bias_gradient, dh, saved.a2, shape=shape)
        gradients.add(second.weight_gradient, second.bias_gradient, dh2, saved.a1, shape=shape)
        gradients.add(first.weight_gradient, first.bias_gradient, dh1, saved.g, shape=shape)
        if extra_input is not None:
            gradients.add(first.weight_gradient, None, dh1, extra_input, shape=shape, column=k)
        gradients.finish()
    dx = d_extra = None
    if ctx.needs_input_grad[0]:
        back = ConvInput(dh1, first.kernel.columns(0, k).transposed)
        dx = _images(convolve(back, shape=shape, slope_of=x, add=add).out, ctx.batch, shape)
    if extra_input is not None and ctx.needs_input_grad[1]:
        back = ConvInput(dh1, first.kernel.columns(k, first.kernel.inputs).transposed)
        d_extra = _images(convolve(back, shape=shape).out, ctx.batch, shape)
    return dx, d_extra


def _gradients(layers: tuple[LayerWeights, ...], m: int) -> WeightGradients | None:
    """Return an object that sums the layers' weight gradients over m pixels; None if all layers are frozen."""
    views = [view for layer in layers for view in (layer.weight_gradient, layer.bias_gradient) if view is not None]
    return WeightGradients(views, m) if views else None


def _rows(images: Tensor) -> Tensor:
    """Reshape images [B, C, H, W] to rows [M, C], one per pixel. Nothing is copied if memory is channels_last."""
    return images.permute(0, 2, 3, 1).reshape(-1, images.shape[1]).contiguous()


def _images(rows: Tensor, batch: int, shape: Shape) -> Tensor:
    """View rows [M, C], one per pixel, as images [B, C, H, W] in channels_last memory."""
    return rows.view(batch, shape.height, shape.width, -1).permute(0, 3, 1, 2)
