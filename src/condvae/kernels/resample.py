"""Change the resolution by a factor f: average f x f pixels, or repeat a pixel f x f times.

The kernel of each operation also computes the gradient of the other one.
"""

# mypy: disable-error-code="untyped-decorator,no-untyped-def,no-untyped-call,no-any-return"

from typing import Any

import torch
import triton  # type: ignore[import-untyped, unused-ignore]
import triton.language as tl  # type: ignore[import-untyped, unused-ignore]
from torch import Tensor
from torch.autograd.function import once_differentiable

_BLOCK = 1024


@triton.jit
def _gather(fine, coarse, count, height, width, channels, factor, scale, BLOCK: tl.constexpr):
    """Set each coarse pixel to scale * the sum of its f x f fine pixels. height, width: size of the coarse image."""
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    there = at < count
    channel = at % channels
    column = at // channels % width
    row = at // (channels * width)  # counted over all images
    acc = tl.zeros((BLOCK,), dtype=tl.float32)
    for i in range(factor * factor):
        pixel = (row * factor + i // factor) * (width * factor) + column * factor + i % factor
        acc += tl.load(fine + pixel * channels + channel, mask=there, other=0.0).to(tl.float32)
    tl.store(coarse + at, (acc * scale).to(coarse.dtype.element_ty), mask=there)


@triton.jit
def _spread(coarse, fine, count, height, width, channels, factor, scale, BLOCK: tl.constexpr):
    """Set each fine pixel to scale * the coarse pixel that contains it. height, width: size of the coarse image."""
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    there = at < count
    channel = at % channels
    column = at // channels % (width * factor)
    row = at // (channels * width * factor)  # counted over all images
    pixel = row // factor * width + column // factor
    values = tl.load(coarse + pixel * channels + channel, mask=there, other=0.0).to(tl.float32)
    tl.store(fine + at, (values * scale).to(fine.dtype.element_ty), mask=there)


class _Resample(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, factor: int, scale: float, down: bool) -> Tensor:
        ctx.arguments = (factor, scale, not down)
        return _run(x, factor, scale, down)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor, None, None, None]:
        return _run(dy, *ctx.arguments), None, None, None


def _run(x: Tensor, factor: int, scale: float, down: bool) -> Tensor:
    x = x.contiguous(memory_format=torch.channels_last)
    batch, channels, height, width = x.shape
    coarse = (height // factor, width // factor) if down else (height, width)
    out_size = coarse if down else (height * factor, width * factor)
    out = torch.empty((batch, channels, *out_size), dtype=x.dtype, device=x.device, memory_format=torch.channels_last)
    kernel, count = _gather if down else _spread, out.numel()
    kernel[(triton.cdiv(count, _BLOCK),)](x, out, count, *coarse, channels, factor, scale, BLOCK=_BLOCK)
    return out


def mean_pool(x: Tensor, factor: int) -> Tensor:
    """Average blocks of f x f pixels, where f is `factor`: [B, C, f H, f W] -> [B, C, H, W]."""
    return _Resample.apply(x, factor, 1 / factor**2, True)


def enlarge(x: Tensor, factor: int) -> Tensor:
    """Repeat every pixel f x f times, where f is `factor`: [B, C, H, W] -> [B, C, f H, f W]."""
    return _Resample.apply(x, factor, 1.0, False)
