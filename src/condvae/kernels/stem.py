"""The first convolution of a classifier that sees only the known pixels of an image.

The network's input is concat(x * known, known). The kernel forms it from the pixels x and the flags `known`, so that it
is never written to memory.
"""

# mypy: disable-error-code="untyped-decorator,no-untyped-def,no-untyped-call,no-any-return"

import torch
import triton  # type: ignore[import-untyped, unused-ignore]
import triton.language as tl  # type: ignore[import-untyped, unused-ignore]
from torch import Tensor

from condvae.kernels.convolution import Shape, relu6
from condvae.kernels.depthwise import ConvGeometry, pixels_of
from condvae.kernels.tiles import choose_window, next_power_of_two

_PIXELS = 64
"""Number of output pixels that one program of the kernel computes."""


@triton.jit(do_not_specialize=["images", "height", "width", "out_height", "out_width", "down", "right"])
def _stem(
    x, known, w, bias, out, scale, shift, images, height, width, out_height, out_width, down, right,
    CHANNELS: tl.constexpr, N: tl.constexpr, SIDE: tl.constexpr, STRIDE: tl.constexpr, BEFORE: tl.constexpr,
    BI: tl.constexpr, BH: tl.constexpr, BW: tl.constexpr, BK: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    """Compute the convolution as one matrix product: taps and channels are few, so they are all loaded at once."""
    first, image, row, column = pixels_of(tl.program_id(0), down, right, BI, BH, BW)
    there = (first + image < images) & (row < out_height) & (column < out_width)
    k = tl.arange(0, BK)
    n = tl.arange(0, BN)
    in_k = k < SIDE * SIDE * (CHANNELS + 1)
    tap = k // (CHANNELS + 1)
    channel = k % (CHANNELS + 1)
    y = (row * STRIDE - BEFORE)[:, None] + (tap // SIDE)[None, :]
    z = (column * STRIDE - BEFORE)[:, None] + (tap % SIDE)[None, :]
    inside = there[:, None] & in_k[None, :] & (y >= 0) & (y < height) & (z >= 0) & (z < width)
    # As in `depthwise`, offsets are counted from the first image.
    known += first.to(tl.int64) * height * width
    x += first.to(tl.int64) * CHANNELS * height * width
    out += first.to(tl.int64) * out_height * out_width * N
    seen = tl.load(known + (image[:, None] * height + y) * width + z, mask=inside, other=0)
    # Hidden pixels are never loaded: they may hold anything, including NaN.
    shows = (seen != 0) & (channel < CHANNELS)[None, :]
    at = ((image * CHANNELS)[:, None] + channel[None, :]) * height + y
    values = tl.load(x + at * width + z, mask=shows, other=0.0).to(tl.float32) * scale + shift
    a = tl.where((channel < CHANNELS)[None, :], tl.where(shows, values, 0.0), seen.to(tl.float32))
    b = tl.load(w + k[:, None] * N + n[None, :], mask=in_k[:, None] & (n < N)[None, :], other=0.0)
    acc = tl.dot(a.to(b.dtype), b, input_precision="ieee")
    acc = relu6(acc + tl.load(bias + n, mask=n < N, other=0.0)[None, :])
    at_out = (image * out_height + row) * out_width + column
    tl.store(
        out + at_out[:, None] * N + n[None, :], acc.to(out.dtype.element_ty), mask=there[:, None] & (n < N)[None, :]
    )


def stem(
    pixels: Tensor, known: Tensor, weight: Tensor, bias: Tensor, *, scale: float, shift: float, look: ConvGeometry
) -> Tensor:
    """Return ReLU6(weight * concat(where(known, pixels * scale + shift, 0), known) + bias), where * is a convolution.

    pixels: [B, C, H, W] float. known: [B, 1, H, W] bool. weight: [side * side * (C + 1), N], see `stem_weight`. look:
    kernel size, stride and padding. The result has one row of N channels per output pixel, in the dtype of weight.
    """
    images, channels, *sides = pixels.shape
    shape, n, k = Shape(*sides), len(bias), look.side**2 * (channels + 1)
    made = look.out(shape)
    assert known.shape == (images, 1, *shape) and known.dtype == torch.bool
    assert weight.is_contiguous() and weight.shape == (k, n) and bias.is_contiguous()
    window = choose_window(*made, _PIXELS)
    across, down, right = window.across(images, *made)
    out = torch.empty(images * made.height * made.width, n, dtype=weight.dtype, device=pixels.device)
    _stem[(across * down * right,)](
        pixels.contiguous(), known.contiguous().view(torch.uint8), weight, bias, out, scale, shift,
        images, *shape, *made, down, right,
        CHANNELS=channels, N=n, SIDE=look.side, STRIDE=look.stride, BEFORE=look.before,
        BI=window.images, BH=window.rows, BW=window.columns,
        BK=next_power_of_two(max(k, 16)), BN=next_power_of_two(max(n, 16)), num_warps=4, num_stages=1,
    )  # fmt: skip
    return out


def stem_weight(weight: Tensor, dtype: torch.dtype) -> Tensor:
    """Reorder a convolution's weights [N, C, side, side] into the layout that `stem` reads: [side * side * C, N]."""
    return weight.detach().permute(2, 3, 1, 0).flatten(0, 2).to(dtype).contiguous()
