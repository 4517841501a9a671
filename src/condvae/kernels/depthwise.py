"""Depthwise convolutions, with bias and ReLU6 computed in the same kernel.

Images are tensors [M, C] with one row per pixel, as in `convolution`. One program of the kernel computes a window of
pixels for a few channels. It reads the window and its surroundings from memory once, and then from the cache for every
tap. Products are summed in float32 without tensor cores, so float32 weights cost nothing extra.
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
    """Kernel size, stride and padding of a convolution, the same in both directions."""

    side: int
    """Side of the square convolution kernel, in taps."""
    stride: int = 1
    before: int = 0
    """Number of rows of zeros added above the image, and of columns added to its left."""
    behind: int = 0
    """Number of rows of zeros added below the image, and of columns to its right. TensorFlow may add more here."""

    def out(self, shape: Shape) -> Shape:
        """Return the height and width of the output, for images of size `shape`."""
        made = Shape(*((size + self.before + self.behind - self.side) // self.stride + 1 for size in shape))
        assert min(made) > 0, "the taps must fit into the padded image"
        return made


@triton.jit
def pixels_of(tile, down, right, BI: tl.constexpr, BH: tl.constexpr, BW: tl.constexpr):
    """Return the pixels of window number `tile`.

    The result is the number of the window's first image, and for each pixel its image (counted from the first), row and
    column. down, right: number of windows that cover one image vertically and horizontally.
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
    # Offsets are counted from the first image: within a window they fit into int32, over all images they may not.
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
    """Convolve each channel of x with its own weights, add the bias, and apply ReLU6 if relu6_out is True.

    x: [M, C], one row for each pixel of images of size `shape`. weight: [side * side, C], see `taps_of`. look: kernel
    size, stride and padding. The result has one row for each output pixel, C channels, and the dtype of x.
    """
    m, c = x.shape
    made = look.out(shape)
    images = m // (shape.height * shape.width)
    assert x.is_contiguous() and m == images * shape.height * shape.width
    assert weight.is_contiguous() and weight.shape == (look.side**2, c) and bias.is_contiguous() and bias.shape == (c,)
    window, channels = choose_depthwise(*made)
    assert window.images * shape.height * shape.width * c < 2**31, "offsets in a window must fit into int32"
    across, down, right = window.across(images, *made)
    out = torch.empty(images * made.height * made.width, c, dtype=x.dtype, device=x.device)
    _depthwise[(across * down * right * triton.cdiv(c, channels),)](
        x, weight, bias, out, images, *shape, *made, down, right,
        C=c, SIDE=look.side, STRIDE=look.stride, BEFORE=look.before, RELU6=relu6_out,
        BI=window.images, BH=window.rows, BW=window.columns, BC=channels, num_warps=4, num_stages=1,
    )  # fmt: skip
    return out


def taps_of(weight: Tensor) -> Tensor:
    """Reorder depthwise weights [C, 1, side, side] into the layout that `depthwise` reads: [side * side, C] float32."""
    return weight.detach().float().flatten(1).T.contiguous()
