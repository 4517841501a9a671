"""1x1 and 3x3 convolutions, each computed in one kernel together with the operations around it.

These operations are GELU before the convolution, GELU or ReLU6 after it, the addition of a residual, and, for backward
passes, the multiplication by GELU's derivative. Images are tensors [M, C] with one row for each of the M = B * H * W
pixels, which is channels_last memory. A 1x1 convolution is one matrix product. A 3x3 convolution is nine matrix
products with shifted rows, which are not copied. The same kernel computes the gradient with
respect to a convolution's input. It then reads the weights with input and output channels swapped, and mirrored.
"""

# mypy: disable-error-code="untyped-decorator,no-untyped-def,no-untyped-call,no-any-return"

from typing import NamedTuple

import torch
import triton  # type: ignore[import-untyped, unused-ignore]
import triton.language as tl  # type: ignore[import-untyped, unused-ignore]
from torch import Tensor

from condvae.kernels.proxy_fence import fenced
from condvae.kernels.tiles import WIDEST, choose_tile


class Shape(NamedTuple):
    """Height and width of images that are stored as rows, one per pixel."""

    height: int
    width: int


class Kernel(NamedTuple):
    """The weights of a convolution, read as [N, taps, K] for N outputs and K inputs, with the given strides."""

    values: Tensor
    outputs: int
    inputs: int
    taps: int
    strides: tuple[int, int, int]
    """Memory strides from one output, tap and input to the next, in elements."""

    @classmethod
    def of(cls, weight: Tensor) -> "Kernel":
        """Wrap weights [N, K, 1, 1] or [N, K, 3, 3] of any memory layout, without a copy."""
        outputs, inputs, height, width = weight.shape
        assert weight.stride(2) == width * weight.stride(3) or height == 1, "taps must be equally spaced in memory"
        return cls(weight, outputs, inputs, height * width, (weight.stride(0), weight.stride(3), weight.stride(1)))

    def columns(self, first: int, last: int) -> "Kernel":
        """Return the weights for the input channels first, ..., last - 1."""
        return self._replace(values=self.values[:, first:last], inputs=last - first)

    @property
    def transposed(self) -> "Kernel":
        """The kernel that computes the gradient of a convolution's input from that of its output; taps are mirrored."""
        n, tap, k = self.strides
        # The stride of taps is negative: reading starts at the last tap.
        return Kernel(self.values, self.inputs, self.outputs, self.taps, (k, -tap, n))

    @property
    def first_tap(self) -> int:
        """Offset from the first weight in memory to the tap that is read first, in elements."""
        return -(self.taps - 1) * self.strides[1] if self.strides[1] < 0 else 0


class ConvInput(NamedTuple):
    """An input tensor of a convolution, and the weights for its channels. A convolution may have two such inputs."""

    x: Tensor
    """[M, K]: K channels of each of M pixels."""
    kernel: Kernel
    gelu: bool = False
    """Whether GELU is applied to x before the convolution."""


@triton.jit
def _normal_below(a):
    """Return the normal CDF at -a, for a >= 0: 2 to the power of a polynomial that we fitted, cheaper than erf."""
    return tl.exp2(
        ((((-4.8810488e-4 * a + 7.1987354e-3) * a - 5.2146668e-2) * a - 4.5959581e-1) * a - 1.15100055) * a - 1.0
    )


@triton.jit
def gelu(x):
    """Return GELU(x) = x Phi(x), accurate to 1e-6. Phi is the normal CDF."""
    a = tl.abs(x)
    return tl.maximum(x, 0.0) - a * _normal_below(a)


@triton.jit
def gelu_slope(x):
    """Return the derivative of GELU at x, Phi(x) + x phi(x), from the normal CDF Phi and density phi."""
    below = _normal_below(tl.abs(x))
    return tl.where(x < 0, below, 1.0 - below) + x * 0.3989422804 * tl.exp2(x * x * -0.72134752)


@triton.jit
def relu6(x):
    """Clip x to [0, 6]."""
    return tl.minimum(tl.maximum(x, 0.0), 6.0)


@triton.jit
def accumulate(
    acc, x, w, rows, y, column, n, inside, height, width, w_n, w_tap, w_k,
    N: tl.constexpr, K: tl.constexpr, TAPS: tl.constexpr, GELU: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """Add w * x to acc, summed over taps and input channels. A loop over few channels is unrolled."""
    steps: tl.constexpr = (K + BK - 1) // BK
    unrolled: tl.constexpr = steps if (TAPS > 1) & (steps <= 4) else 1
    loops: tl.constexpr = steps // unrolled
    k_in_block = tl.arange(0, BK)
    for i in range(TAPS * loops):
        tap = i // loops
        at = rows
        seen = inside
        if TAPS == 9:
            down = tap // 3 - 1
            right = tap % 3 - 1
            seen &= (y + down >= 0) & (y + down < height) & (column + right >= 0) & (column + right < width)
            at += down * width + right
        for j in tl.static_range(0, unrolled):
            k = ((i % loops) * unrolled + j) * BK + k_in_block
            in_row = k < K
            a = tl.load(x + at[:, None] * K + k[None, :], mask=seen[:, None] & in_row[None, :], other=0.0)
            b = tl.load(
                w + tap * w_tap + k[:, None] * w_k + n[None, :] * w_n,
                mask=in_row[:, None] & (n < N)[None, :],
                other=0.0,
            )
            if GELU:
                a = gelu(a.to(tl.float32)).to(b.dtype)
            acc = tl.dot(a, fenced(b), acc, input_precision="ieee")
    return acc


@triton.jit
def finish(
    acc, rows, n, inside, bias, slope_of, add, out, pre,
    N: tl.constexpr, GELU_OUT: tl.constexpr, RELU6_OUT: tl.constexpr,
    BIAS: tl.constexpr, SLOPE: tl.constexpr, ADD: tl.constexpr, PRE: tl.constexpr,
):  # fmt: skip
    """Complete and store a tile of a convolution, whose sums over inputs are in acc.

    In this order and each if requested: add the bias, apply the activation, multiply by GELU's slope, add a residual.
    """
    there = inside[:, None] & (n < N)[None, :]
    at = rows[:, None] * N + n[None, :]
    if BIAS:
        acc += tl.load(bias + n, mask=n < N, other=0.0).to(tl.float32)[None, :]
    if PRE:
        tl.store(pre + at, acc.to(pre.dtype.element_ty), mask=there)
    if GELU_OUT:
        acc = gelu(acc)
    if RELU6_OUT:
        acc = relu6(acc)
    if SLOPE:
        acc *= gelu_slope(tl.load(slope_of + at, mask=there, other=0.0).to(tl.float32))
    if ADD:
        acc += tl.load(add + at, mask=there, other=0.0).to(tl.float32)
    tl.store(out + at, acc.to(out.dtype.element_ty), mask=there)


@triton.jit(do_not_specialize=["m_all", "height", "width", "repeat"])
def _convolve(
    x, w, x2, w2, bias, slope_of, add, out, pre, kept, m_all, height, width, repeat,
    w_first, w_n, w_tap, w_k, w2_n, w2_k,
    N: tl.constexpr, K: tl.constexpr, K2: tl.constexpr, TAPS: tl.constexpr,
    GELU: tl.constexpr, GELU_OUT: tl.constexpr, RELU6_OUT: tl.constexpr,
    BIAS: tl.constexpr, SLOPE: tl.constexpr, ADD: tl.constexpr, PRE: tl.constexpr, KEEP: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, BK2: tl.constexpr,
):  # fmt: skip
    """Compute a convolution for a tile of BM pixels and BN outputs.

    The arguments are those of `_convolve_wide`, so that one call can start either kernel.
    """
    tiles_n: tl.constexpr = (N + BN - 1) // BN
    tile = tl.program_id(0)
    rows = (tile // tiles_n) * BM + tl.arange(0, BM)
    n = (tile % tiles_n) * BN + tl.arange(0, BN)
    inside = rows < m_all
    pixel = rows % (height * width)
    y = pixel // width
    column = pixel % width
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    acc = accumulate(
        acc, x, w + w_first, rows, y, column, n, inside, height, width, w_n, w_tap, w_k, N, K, TAPS, GELU, BK,
    )  # fmt: skip
    if K2 > 0:
        # One image of x2 may belong to several images of x.
        rows2 = rows // (height * width * repeat) * (height * width) + pixel
        acc = accumulate(
            acc, x2, w2, rows2, y, column, n, inside, height, width, w2_n, 0, w2_k, N, K2, 1, False, BK2,
        )  # fmt: skip
    finish(
        acc, rows, n, inside, bias, slope_of, add, out, pre,
        N, GELU_OUT, RELU6_OUT, BIAS, SLOPE, ADD, PRE,
    )  # fmt: skip


@triton.jit(do_not_specialize=["m_all", "height", "width", "repeat"])
def _convolve_wide(
    x, w, x2, w2, bias, slope_of, add, out, pre, kept, m_all, height, width, repeat,
    w_first, w_n, w_tap, w_k, w2_n, w2_k,
    N: tl.constexpr, K: tl.constexpr, K2: tl.constexpr, TAPS: tl.constexpr,
    GELU: tl.constexpr, GELU_OUT: tl.constexpr, RELU6_OUT: tl.constexpr,
    BIAS: tl.constexpr, SLOPE: tl.constexpr, ADD: tl.constexpr, PRE: tl.constexpr, KEEP: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, BK2: tl.constexpr,
):  # fmt: skip
    """Compute a 1x1 convolution for BM pixels and all outputs: x is read, and GELU applied, once for all outputs."""
    tile = tl.program_id(0)
    rows = tile * BM + tl.arange(0, BM)
    inside = rows < m_all
    k = tl.arange(0, BK)
    k2 = tl.arange(0, BK2)
    a = tl.load(x + rows[:, None] * K + k[None, :], mask=inside[:, None] & (k < K)[None, :], other=0.0)
    if GELU:
        a = gelu(a.to(tl.float32)).to(w.dtype.element_ty)
    if KEEP:
        tl.store(kept + rows[:, None] * K + k[None, :], a, mask=inside[:, None] & (k < K)[None, :])
    if K2 > 0:
        pixel = rows % (height * width)
        rows2 = rows // (height * width * repeat) * (height * width) + pixel
        a2 = tl.load(x2 + rows2[:, None] * K2 + k2[None, :], mask=inside[:, None] & (k2 < K2)[None, :], other=0.0)
    for first in range(0, N, BN):
        n = first + tl.arange(0, BN)
        in_n = (n < N)[None, :]
        b = tl.load(w + k[:, None] * w_k + n[None, :] * w_n, mask=(k < K)[:, None] & in_n, other=0.0)
        acc = tl.dot(a, fenced(b), input_precision="ieee")
        if K2 > 0:
            b2 = tl.load(w2 + k2[:, None] * w2_k + n[None, :] * w2_n, mask=(k2 < K2)[:, None] & in_n, other=0.0)
            acc = tl.dot(a2, fenced(b2), acc, input_precision="ieee")
        finish(
            acc, rows, n, inside, bias, slope_of, add, out, pre,
            N, GELU_OUT, RELU6_OUT, BIAS, SLOPE, ADD, PRE,
        )  # fmt: skip


@triton.jit
def _activate(x, out, count, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    values = gelu(tl.load(x + at, mask=at < count, other=0.0).to(tl.float32))
    tl.store(out + at, values.to(out.dtype.element_ty), mask=at < count)


def activate(x: Tensor) -> Tensor:
    """Return GELU(x)."""
    out = torch.empty_like(x)
    _activate[(triton.cdiv(x.numel(), 2048),)](x, out, x.numel(), BLOCK=2048)
    return out


def check_size(m: int, channels: int) -> None:
    """Raise ValueError if a tensor [m, channels] is too large to be indexed with int32."""
    if m * channels >= 2**31:
        raise ValueError(
            f"{m:,} pixels with {channels} channels are too many for one call: use a smaller micro-batch or chunk"
        )


class ConvResult(NamedTuple):
    """The tensors that `convolve` returns."""

    out: Tensor
    """[M, N]: the result, N channels of each of M pixels."""
    pre: Tensor | None
    """[M, N]: the convolution with its bias, before the GELU or ReLU6 that follows; None unless keep_pre."""
    activated: Tensor | None
    """[M, K]: GELU(x), where x is the input; None unless keep_activated."""


def convolve(
    part: ConvInput,
    extra_input: ConvInput | None = None,
    *,
    shape: Shape,
    bias: Tensor | None = None,
    gelu_out: bool = False,
    relu6_out: bool = False,
    keep_pre: bool = False,
    keep_activated: bool = False,
    slope_of: Tensor | None = None,
    add: Tensor | None = None,
    dtype: torch.dtype | None = None,
) -> ConvResult:
    """Return act(kernel * gelu(x) + bias) * GELU'(slope_of) + add, where only the convolution with kernel is required.

    x, kernel and whether to apply gelu are in `part`. act is GELU with gelu_out, and ReLU6 with relu6_out. extra_input:
    further input channels with 1x1 weights and without GELU. It may have n times fewer images than x; each is then used
    for n consecutive images of x. Sums are in float32.
    """
    k2 = extra_input.kernel.inputs if extra_input else 0
    activated: Tensor | None = None
    if keep_activated and part.kernel.inputs > WIDEST:
        # The convolution kernel does not store it: with Triton 3.6 on sm_90, a store inside its pipelined loop is a
        # race, which gives wrong numbers while other kernels share the multiprocessor.
        activated = activate(part.x)
        part = part._replace(x=activated, gelu=False)
    keep = keep_activated and activated is None
    x, kernel = part.x, part.kernel
    second = extra_input or part
    m, n = x.shape[0], kernel.outputs
    assert x.is_contiguous() and x.shape[1] == kernel.inputs and second.x.is_contiguous()
    assert extra_input is None or (
        extra_input.kernel.taps == 1 and extra_input.kernel.outputs == n and m % extra_input.x.shape[0] == 0
    )
    assert not keep_activated or kernel.taps == 1
    check_size(m, max(n, kernel.inputs, k2))
    for other in (slope_of, add):
        assert other is None or (other.shape == (m, n) and other.is_contiguous())
    out = torch.empty(m, n, dtype=dtype or x.dtype, device=x.device)
    pre = torch.empty(m, n, dtype=x.dtype, device=x.device) if keep_pre else None
    if keep:
        activated = torch.empty_like(x)
    tile = choose_tile(m, n, kernel.inputs, k2, kernel.taps, slope=slope_of is not None, keep=keep)
    assert tile.wide or not keep
    parts = triton.cdiv(m, tile.rows)
    grid = (parts if tile.wide else parts * triton.cdiv(n, tile.columns),)
    (_convolve_wide if tile.wide else _convolve)[grid](
        x, kernel.values, second.x, second.kernel.values,
        bias if bias is not None else x, slope_of if slope_of is not None else x, add if add is not None else x,
        out, pre if pre is not None else out, activated if activated is not None else x,
        m, shape.height, shape.width, m // second.x.shape[0],
        kernel.first_tap, *kernel.strides, second.kernel.strides[0], second.kernel.strides[2],
        N=n, K=kernel.inputs, K2=k2, TAPS=kernel.taps,
        GELU=part.gelu, GELU_OUT=gelu_out, RELU6_OUT=relu6_out,
        BIAS=bias is not None, SLOPE=slope_of is not None, ADD=add is not None, PRE=keep_pre, KEEP=keep,
        BM=tile.rows, BN=tile.columns, BK=tile.depth, BK2=tile.depth2,
        num_warps=tile.warps, num_stages=tile.stages,
    )  # fmt: skip
    return ConvResult(out, pre, activated)
