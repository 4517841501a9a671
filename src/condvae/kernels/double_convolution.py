"""The last two convolutions of a block as one kernel, for inference: a 3x3 or 1x1 convolution, GELU, and a 1x1."""

# mypy: disable-error-code="untyped-decorator,no-untyped-def,no-untyped-call,no-any-return"

import torch
import triton  # type: ignore[import-untyped, unused-ignore]
import triton.language as tl  # type: ignore[import-untyped, unused-ignore]
from torch import Tensor

from condvae.kernels.convolution import ConvInput, Kernel, Shape, accumulate, check_size, finish, gelu
from condvae.kernels.proxy_fence import fenced
from condvae.kernels.tiles import WIDEST, block, choose_tile_twice, depth


@triton.jit(do_not_specialize=["m_all", "height", "width"])
def _convolve_twice(
    x, w, bias, v, z, u, bias2, add, out, m_all, height, width,
    w_n, w_tap, w_k, v_n, v_k, u_n, u_k,
    N: tl.constexpr, K: tl.constexpr, C: tl.constexpr, CZ: tl.constexpr, TAPS: tl.constexpr, ADD: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, BC: tl.constexpr, BK: tl.constexpr, BZ: tl.constexpr,
):  # fmt: skip
    """Compute v * GELU(w * x + bias) + bias2 for BM pixels, where * is a convolution.

    u * z is added if CZ > 0, and the tensor `add` if ADD is True. The output of the GELU stays in registers.
    """
    tile = tl.program_id(0)
    rows = tile * BM + tl.arange(0, BM)
    inside = rows < m_all
    pixel = rows % (height * width)
    y = pixel // width
    column = pixel % width
    c = tl.arange(0, BC)
    acc = tl.zeros((BM, BC), dtype=tl.float32)
    acc = accumulate(
        acc, x, w, rows, y, column, c, inside, height, width, w_n, w_tap, w_k, C, K, TAPS, False, BK,
    )  # fmt: skip
    acc += tl.load(bias + c, mask=c < C, other=0.0)[None, :]
    a = gelu(acc).to(v.dtype.element_ty)
    if CZ > 0:
        cz = tl.arange(0, BZ)
        a2 = tl.load(z + rows[:, None] * CZ + cz[None, :], mask=inside[:, None] & (cz < CZ)[None, :], other=0.0)
    for first in range(0, N, BN):
        n = first + tl.arange(0, BN)
        in_n = (n < N)[None, :]
        b = tl.load(v + c[:, None] * v_k + n[None, :] * v_n, mask=(c < C)[:, None] & in_n, other=0.0)
        total = tl.dot(a, fenced(b), input_precision="ieee")
        if CZ > 0:
            b2 = tl.load(u + cz[:, None] * u_k + n[None, :] * u_n, mask=(cz < CZ)[:, None] & in_n, other=0.0)
            total = tl.dot(a2, fenced(b2), total, input_precision="ieee")
        finish(
            total, rows, n, inside, bias2, x, add, out, out,
            N, False, False, True, False, ADD, False,
        )  # fmt: skip


def convolve_twice(
    x: Tensor,
    inner: Kernel,
    inner_bias: Tensor,
    outer: Kernel,
    outer_bias: Tensor,
    *,
    shape: Shape,
    extra_input: ConvInput | None = None,
    add: Tensor | None = None,
    dtype: torch.dtype | None = None,
) -> Tensor:
    """Return outer * GELU(inner * x + inner_bias) + outer_bias, [M, N], where * is a convolution and `outer` is 1x1.

    The convolution of `extra_input` and the tensor `add` are added if they are given. The result cannot be
    differentiated, because the values between the two convolutions are not kept.
    """
    m, n, c = x.shape[0], outer.outputs, inner.outputs
    assert x.is_contiguous() and outer.taps == 1 and outer.inputs == c and (add is None or add.is_contiguous())
    cz = extra_input.kernel.inputs if extra_input else 0
    assert max(c, cz) <= WIDEST
    check_size(m, max(n, c))
    out = torch.empty(m, n, dtype=dtype or x.dtype, device=x.device)
    tile = choose_tile_twice(m, n, c)
    second = extra_input or ConvInput(x, outer)
    _convolve_twice[(triton.cdiv(m, tile.rows),)](
        x, inner.values, inner_bias, outer.values, second.x, second.kernel.values, outer_bias,
        add if add is not None else x, out, m, shape.height, shape.width,
        *inner.strides, outer.strides[0], outer.strides[2], second.kernel.strides[0], second.kernel.strides[2],
        N=n, K=inner.inputs, C=c, CZ=cz, TAPS=inner.taps, ADD=add is not None,
        BM=tile.rows, BN=tile.columns, BC=block(c), BK=depth(inner.inputs), BZ=block(max(cz, 16)),
        num_warps=tile.warps, num_stages=tile.stages,
    )  # fmt: skip
    return out
