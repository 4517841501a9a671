"""Randomness as an argument: where the standard normal and uniform numbers of a computation come from.

Numbers are asked for by *stream*: group l of the latents draws from stream l, pixels from streams of their own. With
seeds, a stream's numbers depend on (seed, stream) alone, so that sample i is the same whatever stands beside it in the
batch, whichever other groups were given instead of drawn, and on any device.
"""

from collections.abc import Sequence
from typing import Protocol, TypeAlias, runtime_checkable

import numpy as np
import torch
from torch import Tensor

# Streams of the pixel distribution; latent groups count up from 0.
PIXEL_COMPONENT_STREAM = 2**32
PIXEL_VALUE_STREAM = 2**32 + 1


@runtime_checkable
class Noise(Protocol):
    """Standard normal and uniform [0, 1) numbers of a shape [B, ...], by stream."""

    def normal(self, stream: int, shape: Sequence[int], device: torch.device) -> Tensor: ...

    def uniform(self, stream: int, shape: Sequence[int], device: torch.device) -> Tensor: ...


class GeneratorNoise:
    """Fresh numbers from one torch.Generator for the whole batch: fast, what training uses."""

    def __init__(self, generator: torch.Generator) -> None:
        self.generator = generator

    def normal(self, stream: int, shape: Sequence[int], device: torch.device) -> Tensor:
        return torch.randn(tuple(shape), generator=self.generator, device=self.generator.device).to(device)

    def uniform(self, stream: int, shape: Sequence[int], device: torch.device) -> Tensor:
        return torch.rand(tuple(shape), generator=self.generator, device=self.generator.device).to(device)


class SeededNoise:
    """One seed per sample. Philox is a keyed counter: (seed, stream) names a sequence without drawing the others."""

    def __init__(self, seeds: Sequence[int]) -> None:
        if any(not 0 <= seed < 2**64 for seed in seeds):
            raise ValueError("seeds must be whole numbers from 0 to 2**64 - 1")
        self.seeds = list(seeds)

    def _rows(self, stream: int, shape: Sequence[int]) -> list[np.random.Generator]:
        if shape[0] != len(self.seeds):
            raise ValueError(f"{len(self.seeds)} seeds were given for a batch of {shape[0]}: give one seed per sample")
        # An array of uint64: a plain list of large numbers would pass through float64 and lose its last bits.
        keys = [np.array([seed, stream], dtype=np.uint64) for seed in self.seeds]
        return [np.random.Generator(np.random.Philox(key=key)) for key in keys]

    def normal(self, stream: int, shape: Sequence[int], device: torch.device) -> Tensor:
        rows = [row.standard_normal(tuple(shape[1:]), dtype=np.float32) for row in self._rows(stream, shape)]
        return torch.from_numpy(np.stack(rows)).to(device)

    def uniform(self, stream: int, shape: Sequence[int], device: torch.device) -> Tensor:
        rows = [row.random(tuple(shape[1:]), dtype=np.float32) for row in self._rows(stream, shape)]
        return torch.from_numpy(np.stack(rows)).to(device)


class GivenNoise:
    """One standard normal tensor per latent group, decided by the caller."""

    def __init__(self, groups: Sequence[Tensor]) -> None:
        self.groups = list(groups)

    def normal(self, stream: int, shape: Sequence[int], device: torch.device) -> Tensor:
        if stream >= PIXEL_COMPONENT_STREAM:
            return self.uniform(stream, shape, device)
        if stream >= len(self.groups):
            raise ValueError(f"noise was given for {len(self.groups)} latent groups, but group {stream + 1} needs some")
        noise = self.groups[stream]
        if noise.shape != tuple(shape):
            raise ValueError(f"noise of group {stream} has shape {tuple(noise.shape)}, expected {tuple(shape)}")
        return noise.to(device)

    def uniform(self, stream: int, shape: Sequence[int], device: torch.device) -> Tensor:
        raise ValueError(
            "given noise covers latents only: ask for the mean of the pixels, or pass seeds or a generator"
        )


NoiseSource: TypeAlias = Noise | torch.Generator | Sequence[int] | Sequence[Tensor]


def as_noise(source: NoiseSource) -> Noise:
    """A torch.Generator, one seed per sample, one tensor per latent group, or a Noise itself."""
    if isinstance(source, torch.Generator):
        return GeneratorNoise(source)
    if isinstance(source, Noise):
        return source
    if isinstance(source, Sequence):
        numbers = [int(item) for item in source if isinstance(item, int | np.integer) and not isinstance(item, bool)]
        tensors = [item for item in source if isinstance(item, Tensor)]
        if len(numbers) == len(source):
            return SeededNoise(numbers)
        if len(tensors) == len(source):
            return GivenNoise(tensors)
    raise ValueError("noise must be a torch.Generator, a list of whole-number seeds or a list of tensors")
