"""Make the seeded random numbers of condvae.noise on the GPU, with the generator Philox4x32-10."""

# mypy: disable-error-code="untyped-decorator,no-untyped-def,no-untyped-call"

import math
from collections.abc import Sequence
from typing import Literal

import torch
import triton  # type: ignore[import-untyped, unused-ignore]
import triton.language as tl  # type: ignore[import-untyped, unused-ignore]
from torch import Tensor

_TWO_PI_STEP = tl.constexpr(2 * math.pi * 2**-32)
_BLOCKS = 256  # blocks of four numbers per program


@triton.jit
def turn(word):
    """Return cos and sin of 2 pi word / 2**32. tl.cos needs more registers, because it handles huge angles."""
    # Integers are exact: take the nearest quarter turn, and the remainder, which is at most an eighth of a turn.
    quarter = (word + 0x20000000) >> 30
    x = (word - (quarter << 30)).to(tl.int32, bitcast=True).to(tl.float32) * _TWO_PI_STEP
    # Cephes' minimax polynomials on [-pi / 4, pi / 4].
    z = x * x
    sin = x + x * z * (-1.6666654611e-1 + z * (8.3321608736e-3 - z * 1.9515295891e-4))
    cos = 1.0 - 0.5 * z + z * z * (4.166664568298827e-2 + z * (-1.388731625493765e-3 + z * 2.443315711809948e-5))
    swapped = (quarter & 1) == 1
    along, across = tl.where(swapped, sin, cos), tl.where(swapped, cos, sin)
    along = tl.where(((quarter + 1) & 2) == 2, -along, along)  # negative in the second and third quarter
    return along, tl.where((quarter & 2) == 2, -across, across)  # and in the third and fourth


@triton.jit
def box_muller(word, next_word):
    """Convert two random words to two standard normal numbers, like condvae.noise._normal. u1 is equal bit for bit."""
    u1 = word.to(tl.float32) * 2.3283064365386963e-10 + 1.1641532182693481e-10  # 2**-32 and 2**-33: never 0
    radius = tl.sqrt(-2.0 * tl.log(u1))
    cos, sin = turn(next_word)
    return radius * cos, radius * sin


@triton.jit
def normals(seed, block, stream_low, stream_high):
    """Return the normal numbers with the indices 4 block, ..., 4 block + 3 for (seed, stream), as four tensors."""
    w0, w1, w2, w3 = tl.philox(seed, block, 0, stream_low, stream_high)
    n0, n1 = box_muller(w0, w1)
    n2, n3 = box_muller(w2, w3)
    return n0, n1, n2, n3


@triton.jit
def uniforms(seed, block, stream_low, stream_high):
    """Return the numbers in [0, 1) with the indices 4 block, ..., 4 block + 3 for (seed, stream), as four tensors."""
    w0, w1, w2, w3 = tl.philox(seed, block, 0, stream_low, stream_high)
    step: tl.constexpr = 5.9604644775390625e-08  # 2**-24
    u0, u1 = (w0 >> 8).to(tl.float32) * step, (w1 >> 8).to(tl.float32) * step
    u2, u3 = (w2 >> 8).to(tl.float32) * step, (w3 >> 8).to(tl.float32) * step
    return u0, u1, u2, u3


@triton.jit
def in_order(n0, n1, n2, n3):
    """Interleave four tensors [..., n] into one tensor [..., 4 n]: n0[0], n1[0], n2[0], n3[0], n0[1], ..."""
    return tl.interleave(tl.interleave(n0, n2), tl.interleave(n1, n3))


@triton.jit(do_not_specialize=["stream_low", "stream_high"])
def numbers_kernel(out, seeds, stream_low, stream_high, count, parts, normal: tl.constexpr, blocks: tl.constexpr):
    """Write `count` random numbers for each sample. One program makes `blocks` blocks of four numbers."""
    program = tl.program_id(0)
    sample, part = (program // parts).to(tl.int64), program % parts
    seed = tl.load(seeds + sample)
    block = part * blocks + tl.arange(0, blocks)
    if normal:
        n0, n1, n2, n3 = normals(seed, block, stream_low, stream_high)
    else:
        n0, n1, n2, n3 = uniforms(seed, block, stream_low, stream_high)
    place = part * (4 * blocks) + tl.arange(0, 4 * blocks)
    tl.store(out + sample * count + place, in_order(n0, n1, n2, n3), mask=place < count)


def halves(stream: int) -> tuple[int, int]:
    """Split a stream number into its low and high 32 bits, as int32, so that one compiled kernel serves all streams."""
    low, high = ((stream >> shift) & 0xFFFFFFFF for shift in (0, 32))
    return low - (low >> 31 << 32), high - (high >> 31 << 32)


def numbers(kind: Literal["normal", "uniform"], seeds: Tensor, stream: int, shape: Sequence[int]) -> Tensor:
    """Return the random numbers that condvae.noise makes for n seeds and a stream, as float32 of `shape`, [n, ...].

    seeds: [n] int64, whose bits are those of unsigned 64-bit seeds.
    """
    out = torch.empty(tuple(shape), dtype=torch.float32, device=seeds.device)
    count = math.prod(shape[1:])
    if count >= 2**30:
        raise ValueError(f"a sample needs {count} random numbers, expected fewer than 2**30")  # positions are int32
    if out.numel():
        parts = triton.cdiv(count, 4 * _BLOCKS)
        grid, words = (len(seeds) * parts,), halves(stream)
        numbers_kernel[grid](out, seeds.contiguous(), *words, count, parts, normal=kind == "normal", blocks=_BLOCKS)
    return out
