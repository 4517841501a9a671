"""Randomness of training as a function of where it stands: no generator's state has to be saved or handed on.

Micro-batch k of step t draws its flips, observations and latents from a generator seeded by (seed, purpose, t, k). So a
resumed run repeats the numbers of an uninterrupted one, and two processes draw what one would have drawn.
"""

import zlib

import numpy as np
import torch


class Seeds:
    """An endless row of seeds for one purpose; neighbours are different, and so are rows of different purposes."""

    def __init__(self, seed: int, purpose: str) -> None:
        key = (seed, zlib.crc32(purpose.encode()))
        self.high, self.low = (int(word) for word in np.random.SeedSequence(key).generate_state(2, np.uint32))

    def __call__(self, number: int) -> int:
        # torch's CPU generator uses the low 32 bits alone: counting there keeps 2**32 neighbours apart.
        return (self.high << 32) | ((self.low + number) & 0xFFFFFFFF)

    def generator(self, number: int, device: torch.device | str = "cpu") -> torch.Generator:
        """A new generator for that place in the row."""
        return torch.Generator(device).manual_seed(self(number))
