"""Convolutions of each channel by itself, with their bias and ReLU6 in one pass.

Images are [M, C] rows as in `convolution`. A program makes a window of pixels of a few channels: it reads what lies
around once from memory, and again for every tap from the cache. Products are summed in float32 outside tensor cores,
so weights are float32 too: they cost nothing more.
"""

# mypy: disable-error-code="untyped-decorator,no-untyped-def,no-untyped-call,no-any-return"

from typing import NamedTuple

import torch
import triton  # type: ignore[import-untyped, unused-ignore]
import triton.language as tl  # type: ignore[import-untyped, unused-ignore]
from torch import Tensor

from condvae.kernels.convolution import Shape, relu6
from condvae.kernels.tiles import choose_depthwise


class ConvGeometry(NamedTuple):
    """Which pixels a convolution looks at, the same way along rows and columns."""

    side: int
    """Taps along a side."""
    stride: int = 1
    before: int = 0
    """Zeros above and to the left ..."""
    behind: int = 0
    """... and below and to the right. TensorFlow has more of these."""

    def out(self, shape: Shape) -> Shape:
        """The size of what comes out."""
        made = Shape(*((size + self.before + self.behind - self.side) // self.stride + 1 for size in shape))
        assert min(made) > 0, "the taps fit into the padded image"
        return made


@triton.jit
def pixels_of(tile, down, right, BI: tl.constexpr, BH: tl.constexpr, BW: tl.constexpr):
    """The first image of a window, and where its pixels are: images after the first, rows and columns.

    down, right: windows of an image along rows and columns.
    """
    pixel = tl.arange(0, BI * BH * BW)
    first = tile // (down * right) * BI
    row = (tile // right) % down * BH + pixel // BW % BH
    column = tile % right * BW + pixel % BW
    return first, pixel // (BH * BW), row, column


@triton.jit(do_not_specialize=["images", "height", "width", "out_height", "out_width", "down", "right"])
def _depthwise(
    x, w, bias, out, images, height, width, out_height, out_width, down, right,
    C: tl.constexpr, SIDE: tl.constexpr, STRIDE: tl.constexpr, BEFORE: tl.constexpr, RELU6: tl.constexpr,
    BI: tl.constexpr, BH: tl.constexpr, BW: tl.constexpr, BC: tl.constexpr,
):  # fmt: skip
    blocks: tl.constexpr = (C + BC - 1) // BC
    program = tl.program_id(0)
    c = program % blocks * BC + tl.arange(0, BC)
    in_row = c < C
    first, image, row, column = pixels_of(program // blocks, down, right, BI, BH, BW)
    there = (first + image < images) & (row < out_height) & (column < out_width)
    # Places are counted from the first image: within a window they fit into int32, in all images they may not.
    x += first.to(tl.int64) * height * width * C
    out += first.to(tl.int64) * out_height * out_width * C
    acc = tl.zeros((BI * BH * BW, BC), dtype=tl.float32)
    for i in range(SIDE):
        y = row * STRIDE + i - BEFORE
        seen_y = there & (y >= 0) & (y < height)
        for j in tl.static_range(0, SIDE):
            z = column * STRIDE + j - BEFORE
            seen = seen_y & (z >= 0) & (z < width)
            at = (image * height + y) * width + z
            values = tl.load(x + at[:, None] * C + c[None, :], mask=seen[:, None] & in_row[None, :], other=0.0)
            weights = tl.load(w + (i * SIDE + j) * C + c, mask=in_row, other=0.0)
            acc += values.to(tl.float32) * weights.to(tl.float32)[None, :]
    acc += tl.load(bias + c, mask=in_row, other=0.0).to(tl.float32)[None, :]
    if RELU6:
        acc = relu6(acc)
    at_out = (image * out_height + row) * out_width + column
    tl.store(
        out + at_out[:, None] * C + c[None, :], acc.to(out.dtype.element_ty), mask=there[:, None] & in_row[None, :]
    )


def depthwise(
    x: Tensor, weight: Tensor, bias: Tensor, *, shape: Shape, look: ConvGeometry, relu6_out: bool = True
) -> Tensor:
    """[ReLU6](weight * x + bias) of rows [M, C], in each channel by itself: [M', C] of x's kind, M' = B * H' * W'.

    weight: [side * side, C], see `taps_of`; shape: of the images in x.
    """
    m, c = x.shape
    made = look.out(shape)
    images = m // (shape.height * shape.width)
    assert x.is_contiguous() and m == images * shape.height * shape.width
    assert weight.is_contiguous() and weight.shape == (look.side**2, c) and bias.is_contiguous() and bias.shape == (c,)
    window, channels = choose_depthwise(*made)
    assert window.images * shape.height * shape.width * c < 2**31, "places in a window are counted in int32"
    across, down, right = window.across(images, *made)
    out = torch.empty(images * made.height * made.width, c, dtype=x.dtype, device=x.device)
    _depthwise[(across * down * right * triton.cdiv(c, channels),)](
        x, weight, bias, out, images, *shape, *made, down, right,
        C=c, SIDE=look.side, STRIDE=look.stride, BEFORE=look.before, RELU6=relu6_out,
        BI=window.images, BH=window.rows, BW=window.columns, BC=channels, num_warps=4, num_stages=1,
    )  # fmt: skip
    return out


def taps_of(weight: Tensor) -> Tensor:
    """A depthwise convolution's weights [C, 1, side, side] as `depthwise` reads them: [side * side, C] float32."""
    return weight.detach().float().flatten(1).T.contiguous()
