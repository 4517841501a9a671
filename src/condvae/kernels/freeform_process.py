"""The observation process `Freeform` by its kernel: from the process to what the kernel draws."""

import functools
import math

import torch
from torch import Tensor

from condvae.kernels.freeform_holes import Law, draw
from condvae.observe.freeform import SEGMENTS, TURN, TURN_SPREAD, WIDTHS, Freeform

_ENOUGH = 8
"""A range of hidden shares that this many candidates on the CPU meet is frequent enough for the kernel."""


def draw_known(process: Freeform, n: int, size: int, pixels: tuple[int, int], generator: torch.Generator) -> Tensor:
    """[n, 1, size, size] bool: holes of pixels[0] to pixels[1] pixels. Each image has its own stream; nothing waits."""
    if not torch.cuda.is_current_stream_capturing():
        _check_frequent(process, size)
    seeds = torch.randint(2**63 - 1, (n,), device=generator.device, generator=generator)
    return draw(seeds, size, pixels, kernel_law(process, size)).known


def kernel_law(process: Freeform, size: int) -> Law:
    """What the kernel draws from."""
    mean = math.sqrt(2 * size**2) / 8
    return Law(*process.most_parts, *SEGMENTS, *WIDTHS, TURN, TURN_SPREAD, length=mean, length_spread=mean // 2)


@functools.cache
def _check_frequent(process: Freeform, size: int) -> None:
    """Refuse a range that hardly any candidate meets, once on the CPU: a kernel cannot say so while it draws."""
    process.draw(_ENOUGH, size, torch.Generator().manual_seed(0))
