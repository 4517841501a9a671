"""Compute the gradients of a convolution's weights and bias, which are sums over all pixels.

Each sum is split into parts that run in parallel. The parts are added in a fixed order, so that the same batch always
gives the same gradient, bit for bit.
"""

# mypy: disable-error-code="untyped-decorator,no-untyped-def,no-untyped-call,no-any-return"

from collections.abc import Sequence

import torch
import triton  # type: ignore[import-untyped, unused-ignore]
import triton.language as tl  # type: ignore[import-untyped, unused-ignore]
from torch import Tensor

from condvae.kernels.convolution import Shape
from condvae.kernels.proxy_fence import fenced
from condvae.kernels.tiles import block

_ROWS = 64  # pixels per step
_MOST_SPLITS = 32


@triton.jit
def _products(
    acc, total, dy, x, n, k, m_all, height, width, down, right, split, steps,
    N: tl.constexpr, K: tl.constexpr, TAPS: tl.constexpr, BIAS: tl.constexpr, BM: tl.constexpr,
):  # fmt: skip
    """Add the sum of dy * x over the pixels of this split to acc, for the gradient of the weights.

    With BIAS, also add the sum of dy over these pixels to total, for the gradient of the bias. All 16 columns of total
    are equal.
    """
    ones = tl.full((BM, 16), 1.0, dtype=x.dtype.element_ty)
    for step in range(steps):
        rows = (split * steps + step) * BM + tl.arange(0, BM)
        inside = rows < m_all
        seen = inside
        if TAPS == 9:
            pixel = rows % (height * width)
            y = pixel // width + down
            column = pixel % width + right
            seen = inside & (y >= 0) & (y < height) & (column >= 0) & (column < width)
        at = rows + (down * width + right)
        a = tl.load(x + at[:, None] * K + k[None, :], mask=seen[:, None] & (k < K)[None, :], other=0.0)
        g = tl.load(dy + rows[:, None] * N + n[None, :], mask=inside[:, None] & (n < N)[None, :], other=0.0)
        acc = tl.dot(tl.trans(g), fenced(a), acc, input_precision="ieee")
        if BIAS:
            # Sum by a product with ones: any other use of g would take it out of the tensor cores' pipeline.
            total = tl.dot(tl.trans(g), ones, total, input_precision="ieee")
    return acc, total


@triton.jit(do_not_specialize=["m_all", "height", "width", "steps"])
def _weight_gradient(
    dy, x, weight, bias, m_all, height, width, steps, parameters,
    N: tl.constexpr, K: tl.constexpr, ROW: tl.constexpr, TAPS: tl.constexpr, BIAS: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    tiles_k: tl.constexpr = (K + BK - 1) // BK
    tile = tl.program_id(0)
    split = tl.program_id(1)
    tap = tile % TAPS
    k = (tile // TAPS % tiles_k) * BK + tl.arange(0, BK)
    n = (tile // (TAPS * tiles_k)) * BN + tl.arange(0, BN)
    down = 0
    right = 0
    if TAPS == 9:
        down = tap // 3 - 1
        right = tap % 3 - 1
    acc = tl.zeros((BN, BK), dtype=tl.float32)
    total = tl.zeros((BN, 16), dtype=tl.float32)
    place = split.to(tl.int64) * parameters
    if BIAS & (tile % (TAPS * tiles_k) == 0):
        acc, total = _products(
            acc, total, dy, x, n, k, m_all, height, width, down, right, split, steps, N, K, TAPS, True, BM
        )
        one = tl.arange(0, 16) == 0
        tl.store(bias + place + n, tl.sum(tl.where(one[None, :], total, 0.0), axis=1), mask=n < N)
    else:
        acc, total = _products(
            acc, total, dy, x, n, k, m_all, height, width, down, right, split, steps, N, K, TAPS, False, BM
        )
    at_weight = n[:, None] * ROW + tap * K + k[None, :]
    tl.store(weight + place + at_weight, acc, mask=(n < N)[:, None] & (k < K)[None, :])


@triton.jit
def _add_splits(partial, total, splits, parameters, count, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    there = at < count
    acc = tl.load(total + at, mask=there, other=0.0)
    for split in range(splits):
        acc += tl.load(partial + split * parameters + at, mask=there, other=0.0)
    tl.store(total + at, acc, mask=there)


class WeightGradients:
    """Computes weight gradients as sums over m pixels, in parts that run in parallel and are added in a fixed order.

    views: float32 gradients of weights and biases, all slices of one vector. The sums are added to these slices. The
    memory between the slices is not touched, because another stream may be using it.
    """

    def __init__(self, views: Sequence[Tensor], m: int) -> None:
        self.m = m
        spans = sorted((int(view.storage_offset()), int(view.storage_offset()) + view.numel()) for view in views)
        self.spans = [spans[0]]
        for start, end in spans[1:]:
            if start == self.spans[-1][1]:
                self.spans[-1] = (self.spans[-1][0], end)
            else:
                self.spans.append((start, end))
        self.start, self.length = self.spans[0][0], self.spans[-1][1] - self.spans[0][0]
        self.total = views[0].as_strided((self.length,), (1,), self.start)
        self.splits = max(1, min(_MOST_SPLITS, m // (4 * _ROWS)))
        self.partial = torch.empty(self.splits, self.length, dtype=torch.float32, device=self.total.device)

    def add(
        self,
        weight: Tensor | None,
        bias: Tensor | None,
        dy: Tensor,
        x: Tensor,
        *,
        shape: Shape,
        column: int = 0,
    ) -> None:
        """Compute the partial sums for one convolution.

        weight, bias: views that receive the gradients of its weights and bias. dy: [M, N], the gradient of its output.
        x: [M, K], its input after GELU. column: index of x's first channel among the convolution's input channels.
        """
        assert weight is not None and (weight.stride(1) == 1 or weight.shape[1] == 1), "channels must be last in memory"
        n, k, taps = dy.shape[1], x.shape[1], weight.shape[2] * weight.shape[3]
        bn, bk = block(n), block(k)
        tiles = triton.cdiv(n, bn) * triton.cdiv(k, bk) * taps
        start = self.partial.view(-1)
        _weight_gradient[(tiles, self.splits)](
            dy, x, start[self._offset(weight) + column :], start if bias is None else start[self._offset(bias) :],
            self.m, shape.height, shape.width, triton.cdiv(triton.cdiv(self.m, self.splits), _ROWS),
            self.length,
            N=n, K=k, ROW=weight.stride(0), TAPS=taps, BIAS=bias is not None,
            BM=_ROWS, BN=bn, BK=bk, num_warps=4, num_stages=4 if taps == 1 else 3,
        )  # fmt: skip

    def finish(self) -> None:
        """Add the partial sums of all convolutions to the views."""
        for first, last in self.spans:
            skipped, count = first - self.start, last - first
            _add_splits[(triton.cdiv(count, 1024),)](
                self.partial.view(-1)[skipped:], self.total[skipped:], self.splits, self.length, count, BLOCK=1024
            )

    def _offset(self, view: Tensor) -> int:
        return int(view.storage_offset()) - self.start
