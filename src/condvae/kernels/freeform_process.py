"""The observation process `Freeform`, drawn by its GPU kernel."""

import functools
import math

import torch
from torch import Tensor

from condvae.kernels.freeform_holes import Law, draw
from condvae.observe.freeform import SEGMENTS, TURN, TURN_SPREAD, WIDTHS, Freeform

_ENOUGH = 8
"""A range of hidden shares is frequent enough for the kernel if the CPU can draw this many holes in it."""


def draw_known(process: Freeform, n: int, size: int, pixels: tuple[int, int], generator: torch.Generator) -> Tensor:
    """Return known pixels [n, 1, size, size] bool, with pixels[0] to pixels[1] hidden pixels per image.

    Each image has its own random stream, and the CPU does not wait for the GPU.
    """
    if not torch.cuda.is_current_stream_capturing():
        _check_frequent(process, size)
    seeds = torch.randint(2**63 - 1, (n,), device=generator.device, generator=generator)
    return draw(seeds, size, pixels, kernel_law(process, size)).known


def kernel_law(process: Freeform, size: int) -> Law:
    """Return the distribution of the process as parameters of the kernel."""
    mean = math.sqrt(2 * size**2) / 8
    return Law(*process.most_parts, *SEGMENTS, *WIDTHS, TURN, TURN_SPREAD, length=mean, length_spread=mean // 2)


@functools.cache
def _check_frequent(process: Freeform, size: int) -> None:
    """Raise ValueError if hardly any hole has an accepted hidden share, which the kernel could not report.

    The check runs on the CPU, once per process and size.
    """
    process.draw(_ENOUGH, size, torch.Generator().manual_seed(0))
