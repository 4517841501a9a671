"""Seeds of a training, which depend only on the position in the run. So no generator state has to be saved.

Micro-batch k of step t draws its flips, observations and latents from a generator seeded by (seed, purpose, t, k). So a
resumed run uses the same random numbers as an uninterrupted one, and a run in two processes the same as in one.
"""

import zlib

import numpy as np
import torch


class Seeds:
    """A sequence of distinct seeds for one purpose; another purpose or base seed gives another sequence."""

    def __init__(self, seed: int, purpose: str) -> None:
        key = (seed, zlib.crc32(purpose.encode()))
        self.high, self.low = (int(word) for word in np.random.SeedSequence(key).generate_state(2, np.uint32))

    def __call__(self, number: int) -> int:
        # torch's CPU generator uses only the low 32 bits: counting in them makes 2**32 consecutive seeds distinct.
        return (self.high << 32) | ((self.low + number) & 0xFFFFFFFF)

    def generator(self, number: int, device: torch.device | str = "cpu") -> torch.Generator:
        """Return a new generator, seeded with entry `number` of the sequence."""
        return torch.Generator(device).manual_seed(self(number))
