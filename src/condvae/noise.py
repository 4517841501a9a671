"""Sources of random numbers. Functions that draw samples get their random numbers from an argument, a `Noise`.

Every request for random numbers names a *stream*, a whole number: latent group l uses stream l, and pixels have
separate streams. If each sample has a seed, its random numbers depend only on (seed, stream). So a sample does not
depend on the rest of its batch, on whether other latent groups were given or drawn, or on the device.

The generator is Philox4x32-10, which computes a block of four 32-bit words from a key and a counter. The key is the
seed, and the counter is (block, stream). Random number j of a sample, in the row-major order of [C, H, W], is made from
word j % 4 of block j // 4. On a GPU, `condvae.kernels.philox` generates the same numbers.
"""

import math
from collections.abc import Sequence
from typing import Literal, Protocol, TypeAlias, runtime_checkable

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from condvae.runtime.fast_paths import fast_path
from condvae.runtime.messages import counted

# Streams for pixels. Latent groups use the streams 0, 1, 2, ...
PIXEL_COMPONENT_STREAM = 2**32
PIXEL_VALUE_STREAM = 2**32 + 1
SEED_STREAM = 2**32 + 2
"""The stream that is used to derive the seeds of many samples from one seed."""

Distribution = Literal["normal", "uniform"]

_Words: TypeAlias = npt.NDArray[np.uint64]
_Numbers: TypeAlias = npt.NDArray[np.float32]
_CHUNK = 16384  # blocks, of four numbers each, that are generated at once
_HALF, _LOW = np.uint64(32), np.uint64(2**32 - 1)
_FACTORS = np.array([0xD2511F53, 0xCD9E8D57], dtype=np.uint64)
_KEY_STEPS = np.array([0x9E3779B9, 0xBB67AE85], dtype=np.uint64)


@runtime_checkable
class Noise(Protocol):
    """A source of random numbers, standard normal or uniform in [0, 1).

    Each method returns a tensor of the given shape [B, ...], with random numbers from the given stream.
    """

    def normal(self, stream: int, shape: Sequence[int], device: torch.device) -> Tensor: ...

    def uniform(self, stream: int, shape: Sequence[int], device: torch.device) -> Tensor: ...


class GeneratorNoise:
    """Random numbers from one torch.Generator for the whole batch; the stream is ignored.

    Training uses this class, because it is faster than one seed per sample.
    """

    def __init__(self, generator: torch.Generator) -> None:
        self.generator = generator

    def normal(self, stream: int, shape: Sequence[int], device: torch.device) -> Tensor:
        return torch.randn(tuple(shape), generator=self.generator, device=self.generator.device).to(device)

    def uniform(self, stream: int, shape: Sequence[int], device: torch.device) -> Tensor:
        return torch.rand(tuple(shape), generator=self.generator, device=self.generator.device).to(device)


class SeededNoise:
    """Random numbers from one seed per sample of the batch. The numbers of a sample depend only on (seed, stream)."""

    def __init__(self, seeds: Sequence[int]) -> None:
        if any(not 0 <= seed < 2**64 for seed in seeds):
            raise ValueError("a seed is out of range, expected whole numbers from 0 to 2**64 - 1")
        self.seeds = list(seeds)
        self._on: dict[torch.device, Tensor] = {}

    def on(self, device: torch.device) -> Tensor:
        """Return the n seeds as a tensor on a device; later calls for this device return the same tensor.

        The tensor is int64 [n]. It has the bits of the seeds, which are unsigned 64-bit numbers.
        """
        if device not in self._on:
            # Convert through uint64, because int64 cannot hold numbers from 2**63 up but has the same 64 bits.
            seeds = np.array([int(seed) for seed in self.seeds], dtype=np.uint64).view(np.int64)
            self._on[device] = torch.from_numpy(seeds).to(device)
        return self._on[device]

    def normal(self, stream: int, shape: Sequence[int], device: torch.device) -> Tensor:
        return self._numbers("normal", stream, shape, device)

    def uniform(self, stream: int, shape: Sequence[int], device: torch.device) -> Tensor:
        return self._numbers("uniform", stream, shape, device)

    def _numbers(self, kind: Distribution, stream: int, shape: Sequence[int], device: torch.device) -> Tensor:
        _check_seeds(len(self.seeds), shape)
        maker = device if fast_path("seeded noise", device) else torch.device("cpu")
        return _seeded(kind, self.on(maker), stream, shape).to(device)


class DeviceSeeds:
    """Like `SeededNoise`, but the n seeds are a tensor on the device, int64 [n], as `SeededNoise.on` returns it.

    With GPU kernels, the CPU never reads the seeds. So a recorded graph of operations can be replayed with other seeds:
    copy them into the tensor before the replay.
    """

    def __init__(self, seeds: Tensor) -> None:
        if seeds.dtype != torch.int64 or seeds.ndim != 1:
            shape = tuple(seeds.shape)
            raise ValueError(f"the seeds are {seeds.dtype} of shape {shape}, expected torch.int64 of shape [n]")
        self.seeds = seeds

    def normal(self, stream: int, shape: Sequence[int], device: torch.device) -> Tensor:
        _check_seeds(len(self.seeds), shape)
        return _seeded("normal", self.seeds, stream, shape).to(device)

    def uniform(self, stream: int, shape: Sequence[int], device: torch.device) -> Tensor:
        _check_seeds(len(self.seeds), shape)
        return _seeded("uniform", self.seeds, stream, shape).to(device)


class GivenNoise:
    """Standard normal noise that the caller provides as one tensor per latent group. It has no noise for pixels."""

    def __init__(self, groups: Sequence[Tensor]) -> None:
        self.groups = list(groups)

    def normal(self, stream: int, shape: Sequence[int], device: torch.device) -> Tensor:
        if stream >= PIXEL_COMPONENT_STREAM:
            return self.uniform(stream, shape, device)
        if stream >= len(self.groups):
            given = counted(len(self.groups), "latent group")
            raise ValueError(
                f"noise was given for {given}, but the model has at least {stream + 1}: give one noise tensor per group"
            )
        noise = self.groups[stream]
        if noise.shape != tuple(shape):
            found = tuple(noise.shape)
            raise ValueError(f"the noise for latent group {stream} has shape {found}, expected {tuple(shape)}")
        return noise.to(device)

    def uniform(self, stream: int, shape: Sequence[int], device: torch.device) -> Tensor:
        raise ValueError(
            "the given noise tensors are for latents only, but pixels are drawn too: use the mean of the pixels, "
            "or give seeds or a torch.Generator as noise"
        )


NoiseSource: TypeAlias = Noise | torch.Generator | Sequence[int] | Sequence[Tensor]


def as_noise(source: NoiseSource) -> Noise:
    """Convert any source of random numbers to a `Noise`; return a `Noise` unchanged.

    The source is a torch.Generator, a list with one seed per sample, or a list with one tensor per latent group.
    """
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
    raise ValueError(
        "noise has the wrong type, expected a torch.Generator, a list of whole-number seeds or a list of tensors"
    )


def _check_seeds(seeds: int, shape: Sequence[int]) -> None:
    if shape[0] != seeds:
        raise ValueError(f"the number of seeds is {seeds} but the batch size is {shape[0]}: give one seed per sample")


def _seeded(kind: Distribution, seeds: Tensor, stream: int, shape: Sequence[int]) -> Tensor:
    """Generate the random numbers of n seeds in one stream: float32 of the shape [n, ...], on the seeds' device."""
    if not 0 <= stream < 2**64:
        raise ValueError(f"the random number stream is {stream}, expected a whole number from 0 to 2**64 - 1")
    if numbers_by_kernel := fast_path("seeded noise", seeds.device):
        fast: Tensor = numbers_by_kernel(kind, seeds, stream, shape)
        return fast
    count = math.prod(shape[1:])
    keys = seeds.cpu().contiguous().numpy().view(np.uint64)
    blocks = -(-count // 4)
    made = np.empty((len(keys), blocks, 4), dtype=np.float32)
    # Work in chunks that fit into the cache; this also limits the memory for intermediate results.
    width = max(1, min(blocks, _CHUNK))
    rows = max(1, _CHUNK // width)
    for row in range(0, len(keys), rows):
        for first in range(0, blocks, width):
            part = made[row : row + rows, first : first + width]
            index = np.arange(first, first + part.shape[1], dtype=np.uint64)
            words = philox_words(index, stream, keys[row : row + rows, None])
            (_normal if kind == "normal" else _uniform)(words, part)
    numbers = made.reshape(len(keys), 4 * blocks)[:, :count]
    return torch.from_numpy(np.ascontiguousarray(numbers)).reshape(tuple(shape)).to(seeds.device)


def philox_words(index: _Words, stream: int, key: _Words) -> tuple[_Words, _Words, _Words, _Words]:
    """Return the four 32-bit words that Philox4x32-10 computes from the counter (index, stream) and the key.

    Index, stream and key have 64 bits each. Every word is returned as uint64. The method is from
    Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3", with Random123's constants.
    """
    key_low, key_high = key & _LOW, key >> _HALF
    shape = np.broadcast_shapes(index.shape, key.shape)
    c0, c1 = np.broadcast_to(index & _LOW, shape).copy(), np.broadcast_to(index >> _HALF, shape).copy()
    c2, c3 = np.full(shape, stream & 0xFFFFFFFF, dtype=np.uint64), np.full(shape, stream >> 32, dtype=np.uint64)
    product0, product2 = np.empty_like(c0), np.empty_like(c0)
    for _ in range(10):
        np.multiply(c0, _FACTORS[0], out=product0)
        np.multiply(c2, _FACTORS[1], out=product2)
        np.right_shift(product2, _HALF, out=c0)
        c0 ^= c1
        c0 ^= key_low
        np.right_shift(product0, _HALF, out=c2)
        c2 ^= c3
        c2 ^= key_high
        np.bitwise_and(product2, _LOW, out=c1)
        np.bitwise_and(product0, _LOW, out=c3)
        key_low, key_high = (key_low + _KEY_STEPS[0]) & _LOW, (key_high + _KEY_STEPS[1]) & _LOW
    return c0, c1, c2, c3


def _uniform(words: tuple[_Words, ...], out: _Numbers) -> None:
    """Convert random words to uniform numbers in [0, 1), and write them to `out`.

    The numbers are multiples of 2**-24, so float32 represents them exactly.
    """
    for place, word in enumerate(words):
        np.multiply((word >> np.uint64(8)).astype(np.float32), np.float32(2**-24), out=out[..., place])


def _normal(words: tuple[_Words, ...], out: _Numbers) -> None:
    """Convert random words to standard normal numbers by the Box-Muller method, and write them to `out`.

    Every pair of words gives two numbers. All computations are in float32, as in the GPU kernel.
    """
    for place in (0, 2):
        u1 = words[place].astype(np.float32)
        u1 *= np.float32(2**-32)
        u1 += np.float32(2**-33)  # never 0
        radius = np.sqrt(np.float32(-2) * np.log(u1))
        # A signed angle, from -pi to pi, has half the rounding error in float32 of one from 0 to 2 pi.
        angle = words[place + 1].astype(np.uint32).view(np.int32).astype(np.float32)
        angle *= np.float32(2 * math.pi * 2**-32)
        np.multiply(radius, np.cos(angle), out=out[..., place])
        np.multiply(radius, np.sin(angle), out=out[..., place + 1])
