"""Draw completions in plain torch, in blocks to bound the memory. `Sampler` uses this on CPUs and to share latents.

On a CPU, a completion is the same bit for bit, however many others are drawn and for any number of threads.
Convolutions round differently if the number of images or of threads changes. So every observation is encoded by itself,
and samples are drawn in blocks of a fixed size, each block in one thread. Blocks run in parallel.
"""

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from typing import NamedTuple

import torch
from torch import Tensor

from condvae.conditional import ConditionalVAE
from condvae.noise import SeededNoise
from condvae.observe.observation import Observation
from condvae.runtime.pixels import to_uint8
from condvae.runtime.progress import track
from condvae.sampling.cpu_workers import SAMPLES_PER_BLOCK, on_workers
from condvae.sampling.degenerate import Flaws
from condvae.sampling.plain import DrawnImages, PixelChoice, draw
from condvae.vdvae.encoder import Posterior

_PIXELS_AT_ONCE = 2**17
"""Maximum number of pixels in a block, summed over its images, on devices other than CPUs."""
_SAMPLES_IN_GROUP = 64
"""Observations are encoded and completed in groups. A group has about this number of samples."""


class Pair(NamedTuple):
    """The indices of a sample: sample k of observation b."""

    b: int
    k: int


class PlainBlocks:
    """Draws a model's completions in plain torch."""

    def __init__(self, model: ConditionalVAE, *, dtype: torch.dtype, chunk: int | None = None) -> None:
        """Prepare the model for sampling.

        dtype: the precision, float32 or a half precision by autocast. chunk: number of samples that are computed at the
        same time; on a CPU, they are computed in blocks of four.
        """
        self.model, self.dtype = model, dtype
        self.cpu = model.device.type == "cpu"
        at_once = max(1, _PIXELS_AT_ONCE // model.artifact.config.image_size**2)
        self.size = SAMPLES_PER_BLOCK if self.cpu else min(chunk or at_once, at_once)
        self.blocks_at_once = max(1, chunk // self.size) if chunk else None

    def __call__(
        self, observation: Observation, seeds: Tensor, temperatures: list[float], pixels: PixelChoice, shared: int = 0
    ) -> tuple[Tensor, Flaws]:
        """Draw samples [B, n, C, H, W] uint8 for seeds [B, n]; known pixels keep their values. Also return their flaws.

        shared: number of coarsest latent groups that all samples of an observation take from its sample 0.
        """
        config = self.model.artifact.config
        shape = (*seeds.shape, config.channels, config.image_size, config.image_size)
        made = torch.empty(shape, dtype=torch.uint8, device=self.model.device)
        flaws = Flaws(*(torch.zeros(seeds.shape, dtype=torch.bool, device=made.device) for _ in Flaws._fields))
        with track("drawing", total=seeds.numel(), unit="completion", inner=True) as job:
            for pairs, images, found in self.pieces(observation, seeds, temperatures, pixels, shared):
                b, k = (torch.tensor(index, device=made.device) for index in zip(*pairs, strict=True))
                made[b, k] = to_uint8(images)
                for place, values in zip(flaws, found, strict=True):
                    place[b, k] = values
                job.update(len(pairs))
        if self._all_alike(temperatures, pixels):
            for place in (made, *flaws):
                place[:, 1:] = place[:, :1]
        return made, flaws

    def pieces(
        self, observation: Observation, seeds: Tensor, temperatures: list[float], pixels: PixelChoice, shared: int = 0
    ) -> Iterator[tuple[list[Pair], Tensor, Flaws]]:
        """Yield a few samples at a time: their indices (b, k), their images [m, C, H, W] in [-1, 1], and their flaws.

        Known pixels keep their values. The parameters are those of `__call__`.
        """
        count = 1 if self._all_alike(temperatures, pixels) else seeds.shape[1]
        group = max(1, _SAMPLES_IN_GROUP // count)
        blocks = -(-min(group, len(observation)) * count // self.size)
        with on_workers(self.blocks_at_once or blocks) if self.cpu else nullcontext(map) as each:
            for first in range(0, len(observation), group):
                rows = range(first, min(first + group, len(observation)))
                posteriors = dict(zip(rows, each(lambda b: self._encode(observation[b : b + 1]), rows), strict=True))
                drawing = _Drawing(self, observation, posteriors, seeds, temperatures, pixels)
                if shared:
                    firsts = list(each(drawing.latents, self._in_blocks([Pair(b, 0) for b in rows])))
                    drawing.share([[z[i] for z in some[:shared]] for some in firsts for i in range(len(some[0]))])
                blocks_of_pairs = self._in_blocks([Pair(b, k) for b in rows for k in range(count)])
                for pairs, (images, flaws) in zip(blocks_of_pairs, each(drawing.images, blocks_of_pairs), strict=True):
                    yield pairs, images, flaws

    def _all_alike(self, temperatures: list[float], pixels: PixelChoice) -> bool:
        return pixels == "mean" and not any(temperatures)

    def _in_blocks(self, pairs: list[Pair]) -> list[list[Pair]]:
        return [pairs[first : first + self.size] for first in range(0, len(pairs), self.size)]

    @torch.inference_mode()
    def _encode(self, observation: Observation) -> Posterior:
        with self.computing():
            return self.model.posterior(observation)

    def computing(self) -> torch.autocast:
        """Return a context in which the model computes in the precision `dtype`."""
        half = self.dtype != torch.float32
        return torch.autocast(self.model.device.type, self.dtype if half else None, enabled=half)


class _Drawing:
    """Draws samples for observations that have been encoded."""

    def __init__(
        self,
        blocks: PlainBlocks,
        observation: Observation,
        posteriors: dict[int, Posterior],
        seeds: Tensor,
        temperatures: list[float],
        pixels: PixelChoice,
    ) -> None:
        self.blocks, self.observation, self.posteriors = blocks, observation, posteriors
        self.seeds, self.temperatures, self.pixels = seeds, temperatures, pixels
        self.shared: dict[int, list[Tensor]] = {}

    def share(self, latents: Sequence[list[Tensor]]) -> None:
        """From now on, use the same coarse latents for all samples of an observation.

        latents: for each observation, a list of its first latent groups.
        """
        self.shared = dict(zip(self.posteriors, latents, strict=True))

    def latents(self, pairs: list[Pair]) -> list[Tensor]:
        """Draw these samples, and return their latents z_1, ..., z_L."""
        return [z[: len(pairs)] for z in self._draw(pairs).latents]

    def images(self, pairs: list[Pair]) -> tuple[Tensor, Flaws]:
        """Draw these samples, and return their images and flaws; known pixels keep their values."""
        images, _, flaws = self._draw(pairs)
        images, flaws = images[: len(pairs)], Flaws(*(found[: len(pairs)] for found in flaws))
        known, pixels = self.observation.known, self.observation.pixels
        if known is None or pixels is None:
            return images, flaws
        rows = torch.tensor([pair.b for pair in pairs], device=images.device)
        return torch.where(known[rows], pixels[rows], images), flaws

    @torch.inference_mode()
    def _draw(self, pairs: list[Pair]) -> DrawnImages:
        """Draw one block of samples. On a CPU, fill an incomplete block with copies of its last sample."""
        whole = [*pairs, *[pairs[-1]] * (self.blocks.size - len(pairs))] if self.blocks.cpu else pairs
        noise = SeededNoise([int(self.seeds[pair]) % 2**64 for pair in whole])  # int64 bits as unsigned numbers
        source = Posterior.joined([self.posteriors[pair.b] for pair in whole])
        given = (
            [torch.stack(group) for group in zip(*(self.shared[pair.b] for pair in whole), strict=True)]
            if self.shared
            else []
        )
        known = self.observation.known
        hidden = None if known is None else ~known[torch.tensor([pair.b for pair in whole], device=known.device)]
        vae, temperatures = self.blocks.model.artifact, self.temperatures
        with self.blocks.computing():
            return draw(vae, source, len(whole), noise, temperatures, self.pixels, given, hidden)
