"""Freeform holes for evaluations, in five bins of the hidden share. All methods and devices get the same holes."""

from typing import NamedTuple

import torch
from torch import Tensor

from condvae.observe.freeform import Freeform
from condvae.runtime.checks import check_seed


class HoleBin(NamedTuple):
    """A bin of holes, for which the hidden share of an image is between low and high."""

    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.low:g}-{self.high:g}"


HOLE_BINS = tuple(HoleBin(low / 10, (low + 2) / 10) for low in range(0, 10, 2))
"""The five bins of the paper. In the mixture, which summarises them in reports, each bin counts equally."""


HOLES_REVISION = 1
"""Version of the holes that `known_in_bin` draws. Increase it if these holes change, since results record it."""


def known_in_bin(hole: HoleBin, n: int, size: int, *, seed: int) -> Tensor:
    """Draw holes for n images: [n, 1, size, size] bool on the CPU, True where a pixel is known.

    The same arguments always give the same holes.
    """
    check_seed(seed)
    # Each bin has a separate generator.
    generator = torch.Generator().manual_seed((seed * 1000 + round(100 * hole.low)) % 2**64)
    return Freeform(low=hole.low, high=hole.high).draw(n, size, generator)
