"""Drawing completions. On a CPU, completion k has the same bits however many are drawn, and with whatever threads."""

from collections.abc import Iterator, Sequence
from contextlib import nullcontext

import numpy as np
import torch
from torch import Tensor

from condvae.conditional import ConditionalVAE
from condvae.observe import Observation
from condvae.runtime.checks import check_choice, check_whole
from condvae.runtime.pixels import PixelArray, to_uint8
from condvae.sampling.cpu_workers import SAMPLES_PER_BLOCK, on_workers
from condvae.sampling.plain import PixelChoice, Samples, draw, seeds_from
from condvae.sampling.sampler import Sampler
from condvae.sampling.temperature import TemperatureLike, per_group
from condvae.sampling.unconditional import groups_down_to
from condvae.vdvae.encoder import Posterior

DEFAULT_TEMPERATURE = 1.0
DEFAULT_PIXELS: PixelChoice = "mean"

_PIXELS_AT_ONCE = 2**17
"""Elsewhere than on a CPU: pixels of all images computed together."""


def completions(
    model: ConditionalVAE,
    observation: Observation,
    n: int,
    *,
    seed: int = 0,
    temperature: TemperatureLike = DEFAULT_TEMPERATURE,
    pixels: PixelChoice = DEFAULT_PIXELS,
    share: int | None = None,
    chunk: int | None = None,
) -> Tensor:
    """[B, n, C, H, W] in [-1, 1]: completion k of observation b depends on (seed, b, k) alone.

    share: latents at resolutions up to this are those of completion 0 in all of them.
    chunk: completions computed at a time, which bounds memory; on a CPU, fours. `sampler.Sampler` is faster on a GPU.
    """
    check_whole(n, "the number of samples", least=1)
    config = model.artifact.config
    shape = (config.channels, config.image_size, config.image_size)
    made = torch.empty(len(observation), n, *shape, dtype=observation.y.dtype, device=observation.y.device)
    for b, row in enumerate(made):
        drawing = _Drawing(
            model, observation[b : b + 1], index=b, seed=seed, temperature=temperature, pixels=pixels, share=share
        )
        for first, images in drawing.pieces(n, chunk):
            row[first : first + len(images)] = images
    return made


def completed_levels(
    model: ConditionalVAE,
    observation: Observation,
    n: int,
    *,
    seed: int,
    temperature: TemperatureLike,
    pixels: PixelChoice,
    share: int | None,
    chunk: int | None = None,
    sampler: Sampler | None = None,
) -> PixelArray:
    """[n, H, W, C] grey levels for one observation; a sampler, where one is given, draws faster with other rounding."""
    config = model.artifact.config
    if sampler is not None and share is None:
        temperatures = per_group(temperature, config)
        drawn = sampler(observation, n, seed=seed, temperature=temperatures, pixels=pixels)[0]
        levels: PixelArray = drawn.permute(0, 2, 3, 1).contiguous().cpu().numpy()
        return levels
    observation = observation.to(model.artifact.decoder.gain.device)
    drawing = _Drawing(model, observation, seed=seed, temperature=temperature, pixels=pixels, share=share)
    made = np.empty((n, config.image_size, config.image_size, config.channels), dtype=np.uint8)
    for first, images in drawing.pieces(n, chunk):
        made[first : first + len(images)] = to_uint8(images).permute(0, 2, 3, 1).cpu().numpy()
    return made


class _Drawing:
    """Completions of one observation."""

    def __init__(
        self,
        model: ConditionalVAE,
        observation: Observation,
        *,
        seed: int,
        temperature: TemperatureLike,
        pixels: PixelChoice,
        share: int | None,
        index: int = 0,
    ) -> None:
        check_choice(pixels, "pixels", ("sample", "mean"))
        observation.check_values()
        config = model.artifact.config
        self.model, self.observation = model, observation
        self.seed, self.index, self.pixels = seed, index, pixels
        self.temperatures = per_group(temperature, config)
        self.shared_groups = 0 if share is None else groups_down_to(config, share)

    def pieces(self, n: int, chunk: int | None) -> Iterator[tuple[int, Tensor]]:
        """All n, a few [k, C, H, W] in [-1, 1] at a time, each time with the number of the first."""
        if chunk is not None:
            check_whole(chunk, "the chunk", least=1)
        if n > 1 and self.pixels == "mean" and not any(self.temperatures):  # all are the same
            ((_, image),) = self.pieces(1, chunk)
            yield from ((k, image) for k in range(n))
            return
        cpu, size = self.observation.y.device.type == "cpu", self.model.artifact.config.image_size
        block = SAMPLES_PER_BLOCK if cpu else min(n, chunk or n, max(1, _PIXELS_AT_ONCE // size**2))
        blocks_at_once = max(1, chunk // block) if chunk else -(-n // block)
        with on_workers(blocks_at_once) if cpu else nullcontext(map) as each:
            (posterior,) = each(lambda _: self._encode(), [0])
            shared: list[Tensor] = []
            if self.shared_groups:
                (samples,) = each(lambda _: self._draw(posterior, 0, block), [0])
                shared = [z[:1].expand_as(z) for z in samples.latents[: self.shared_groups]]
            firsts = range(0, n, block)
            drawn = each(lambda first: self._draw(posterior, first, block, shared).images, firsts)
            for first, images in zip(firsts, drawn, strict=True):
                wanted = images[: n - first]
                yield first, self.observation.paste(wanted, n=len(wanted))

    @torch.inference_mode()
    def _encode(self) -> Posterior:
        return self.model.posterior(self.observation)

    @torch.inference_mode()
    def _draw(self, posterior: Posterior, first: int, count: int, given: Sequence[Tensor] = ()) -> Samples:
        noise = seeds_from(self.seed, count, observations=[self.index], first=first)
        return draw(self.model.artifact, posterior, count, noise, self.temperatures, self.pixels, given)
