"""Draw the holes of the observation process `Freeform` with its GPU kernel."""

import functools
import math

import torch
from torch import Tensor

from condvae.kernels.freeform_holes import Law, draw
from condvae.observe.freeform import SEGMENTS, TURN, TURN_SPREAD, WIDTHS, Freeform

_ENOUGH = 8
"""Before the kernel is used, the CPU draws this many holes, to check that such hidden shares are frequent enough."""


def draw_known(process: Freeform, n: int, size: int, pixels: tuple[int, int], generator: torch.Generator) -> Tensor:
    """Draw holes for n images. Return [n, 1, size, size] bool, which is True where a pixel is known.

    Each image has pixels[0] to pixels[1] hidden pixels and a separate random stream. The CPU does not wait for the GPU.
    """
    if not torch.cuda.is_current_stream_capturing():
        _check_frequent(process, size)
    seeds = torch.randint(2**63 - 1, (n,), device=generator.device, generator=generator)
    return draw(seeds, size, pixels, kernel_law(process, size)).known


def kernel_law(process: Freeform, size: int) -> Law:
    """Return the kernel's parameters for holes that have the distribution of the process."""
    mean = math.sqrt(2 * size**2) / 8
    return Law(*process.most_parts, *SEGMENTS, *WIDTHS, TURN, TURN_SPREAD, length=mean, length_spread=mean // 2)


@functools.cache
def _check_frequent(process: Freeform, size: int) -> None:
    """Raise ValueError if hardly any random hole has a hidden share in the range; the kernel could not report this.

    The check runs on the CPU, once per process and size.
    """
    process.draw(_ENOUGH, size, torch.Generator().manual_seed(0))
