"""Freeform holes of five sizes, the same for every method and on any device: where completions are measured."""

from typing import NamedTuple

import torch
from torch import Tensor

from condvae.observe.freeform import Freeform
from condvae.runtime.checks import check_seed


class HoleBin(NamedTuple):
    """The hidden share of an image's pixels lies between low and high."""

    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.low:g}-{self.high:g}"


HOLE_BINS = tuple(HoleBin(low / 10, (low + 2) / 10) for low in range(0, 10, 2))
"""The paper's; a summary takes the five equally often."""


HOLES_REVISION = 1
"""Of what `known_in_bin` draws. Raise it if its holes ever change: they are known by its arguments and by this."""


def known_in_bin(hole: HoleBin, n: int, size: int, *, seed: int) -> Tensor:
    """[n, 1, size, size] bool on the CPU: True where observed. A function of its arguments alone."""
    check_seed(seed)
    # Bins draw from generators that have nothing in common.
    generator = torch.Generator().manual_seed((seed * 1000 + round(100 * hole.low)) % 2**64)
    return Freeform(low=hole.low, high=hole.high).draw(n, size, generator)
