"""Normalise the channels of each pixel, modulate and activate them, in one pass over the memory.

torch's layer norm starts one block of threads for each pixel, which is slow for the few channels of small networks.
"""

# mypy: disable-error-code="untyped-decorator,no-untyped-def,no-untyped-call"

import torch
import triton  # type: ignore[import-untyped, unused-ignore]
import triton.language as tl  # type: ignore[import-untyped, unused-ignore]
from torch import Tensor

_VALUES = 4096  # values per program
_EPSILON = tl.constexpr(1e-5)


@triton.jit
def activation_kernel(
    out, x, modulation, rows, pixels, channels, modulated: tl.constexpr, some: tl.constexpr, width: tl.constexpr
):
    """Compute `some` pixels, of which each has `channels` consecutive values. width: a power of two, at least that."""
    row = tl.program_id(0).to(tl.int64) * some + tl.arange(0, some)
    channel = tl.arange(0, width)
    inside = (row < rows)[:, None] & (channel < channels)[None, :]
    place = row[:, None] * channels + channel[None, :]
    value = tl.load(x + place, mask=inside, other=0.0).to(tl.float32)
    centred = tl.where(inside, value - (tl.sum(value, axis=1) / channels)[:, None], 0.0)
    variance = tl.sum(centred * centred, axis=1) / channels
    y = centred * (1 / tl.sqrt(variance + _EPSILON))[:, None]
    if modulated:
        factor = modulation + (row // pixels)[:, None] * (2 * channels) + channel[None, :]
        scale = tl.load(factor, mask=inside, other=0.0).to(tl.float32)
        shift = tl.load(factor + channels, mask=inside, other=0.0).to(tl.float32)
        y = y * (1 + scale) + shift
    tl.store(out + place, y / (1 + tl.exp(-y)), mask=inside)


def normalised_activation(x: Tensor, modulation: Tensor | None = None) -> Tensor:
    """Return SiLU(normalised x), in the precision of x and without gradients. x: [B, C, H, W].

    modulation: [B, 2 C]. Its first half plus 1 is multiplied with the normalised x, and its second half is added.
    """
    batch, channels, height, width = x.shape
    pixels = x.permute(0, 2, 3, 1).contiguous()
    out = torch.empty_like(pixels)
    rows, padded = batch * height * width, triton.next_power_of_2(channels)
    some = max(1, _VALUES // padded)
    given = pixels if modulation is None else modulation.contiguous()
    if rows:
        activation_kernel[(triton.cdiv(rows, some),)](
            out, pixels, given, rows, height * width, channels, modulation is not None, some, padded
        )
    return out.permute(0, 3, 1, 2)
