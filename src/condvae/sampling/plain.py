"""Draw images in plain torch: samples of the prior, reconstructions with z from q(z | x), samples of p_cond(x | y)."""

import functools
import operator
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
import torch
from torch import Tensor

from condvae.conditional import ConditionalVAE
from condvae.noise import SEED_STREAM, NoiseSource, SeededNoise, as_noise, philox_words
from condvae.observe.observation import Observation
from condvae.runtime.checks import check_choice, check_seed, check_whole
from condvae.sampling.degenerate import Flaws, far_outside, find_flaws, report_flaws
from condvae.vdvae.encoder import Source
from condvae.vdvae.model import VDVAE
from condvae.vdvae.temperature import TemperatureLike, per_group

PixelChoice: TypeAlias = Literal["sample", "mean"]


class Samples(NamedTuple):
    """Images and the latents from which they were decoded."""

    images: Tensor
    """[N, C, H, W] in [-1, 1]; `pixels.to_uint8` converts them to 8-bit grey levels."""
    latents: list[Tensor]
    """The latent groups z_1, ..., z_L. All of them, or the first few, can be passed to a later call as `given=`."""


class DrawnImages(NamedTuple):
    """The result of `draw`: images, their latents, and which of them are degenerate."""

    images: Tensor
    latents: list[Tensor]
    flaws: Flaws


@torch.no_grad()
def sample_prior(
    vae: VDVAE,
    n: int,
    *,
    noise: NoiseSource,
    temperature: TemperatureLike = 1.0,
    pixels: PixelChoice = "sample",
    given: Sequence[Tensor | None] = (),
    check: bool = True,
) -> Samples:
    """Draw n unconditional images, with z from p(z).

    check: raise ValueError if an image is degenerate, as `sample_conditional` does. This waits for the device once.
    """
    return _samples(vae, draw(vae, None, n, noise, temperature, pixels, given), temperature, check=check)


@torch.no_grad()
def reconstruct(
    vae: VDVAE,
    x: Tensor,
    *,
    noise: NoiseSource,
    temperature: TemperatureLike = 1.0,
    pixels: PixelChoice = "mean",
    given: Sequence[Tensor | None] = (),
    check: bool = True,
) -> Samples:
    """Encode and decode images [B, C, H, W] in [-1, 1], with z from q(z | x). check: see `sample_prior`."""
    vae.check(x)
    drawn = draw(vae, vae.posterior(x), len(x), noise, temperature, pixels, given)
    return _samples(vae, drawn, temperature, check=check)


@torch.no_grad()
def sample_conditional(
    model: ConditionalVAE,
    observation: Observation,
    n: int = 1,
    *,
    noise: NoiseSource,
    temperature: TemperatureLike = 1.0,
    pixels: PixelChoice = "sample",
    given: Sequence[Tensor | None] = (),
) -> Samples:
    """Draw n images per observation, [B * n, C, H, W], with z from c(z | y) and x from p(x | z).

    The n images of an observation follow each other, and y is encoded once for all of them. Known pixels are drawn too;
    to get completions, put the known pixels back with `observation.paste`. Raise ValueError if an image has NaN or
    infinite pixels, or if all are saturated; warn with `DegenerateSamples` if some are.
    """
    observation.check_values()
    check_whole(n, "the number of samples", least=1)
    c = model.posterior(observation)
    hidden = None if observation.known is None else ~observation.known.repeat_interleave(n, dim=0)
    drawn = draw(model.artifact, c, len(observation) * n, noise, temperature, pixels, given, hidden)
    return _samples(model.artifact, drawn, temperature, check=True)


def _samples(vae: VDVAE, drawn: DrawnImages, temperature: TemperatureLike, *, check: bool) -> Samples:
    if check:
        report_flaws(drawn.flaws, max(per_group(temperature, vae.config)), stacklevel=4)
    return Samples(drawn.images, drawn.latents)


def seeds_from(seed: int, n: int, *, observations: Iterable[int] = (0,), first: int = 0) -> SeededNoise:
    """Return noise for n samples per observation, made from one seed, in the order of `sample_conditional`.

    The noise of sample k of observation b depends on (seed, b, k) alone, not on the number of samples.
    observations: the numbers b of the observations, such as range(B) for a batch. first: the number k of the first
    sample of each observation.
    """
    seed, n, first = operator.index(seed), operator.index(n), operator.index(first)
    check_seed(seed)
    check_whole(first, "the number of the first sample")
    index = np.array([(b << 32) | k for b in observations for k in range(first, first + n)], dtype=np.uint64)
    low, high, _, _ = philox_words(index, SEED_STREAM, np.array(seed, dtype=np.uint64))
    return SeededNoise((low | (high << np.uint64(32))).tolist())


@functools.lru_cache(maxsize=16)
def completion_seeds(seed: int, n: int, places: tuple[int, ...] = (0,)) -> Tensor:
    """Return one seed for each of n completions of the observations at these places, for `Sampler.draw`: [B, n]."""
    return seeds_from(seed, n, observations=places).on(torch.device("cpu")).view(len(places), n)


def places_of(places: Sequence[int] | None, count: int) -> tuple[int, ...]:
    """Return the places of a number of observations as a tuple: 0, 1, ... if none are given."""
    found = tuple(range(count)) if places is None else tuple(map(int, places))
    if len(found) != count:
        raise ValueError(f"the list of places has length {len(found)}, expected {count}: one number per observation")
    return found


def chunks(observations: int, n: int, most: int) -> Iterator[tuple[slice, slice]]:
    """Split the samples of a number of observations, n samples each, into chunks of at most `most` samples.

    Each chunk is a slice of observations and a slice of their samples. No chunk is larger than the first, and all
    chunks of an observation follow each other.
    """
    together = min(n, most)
    rows = max(1, min(observations, most // together))
    for first in range(0, observations, rows):
        for start in range(0, n, together):
            yield slice(first, min(first + rows, observations)), slice(start, min(start + together, n))


def draw(
    vae: VDVAE,
    source: Source | None,
    n: int,
    noise: NoiseSource,
    temperature: TemperatureLike = 1.0,
    pixels: PixelChoice = "sample",
    given: Sequence[Tensor | None] = (),
    hidden: Tensor | None = None,
) -> DrawnImages:
    """Draw n images, with z from `source` (the prior if None) and x from p(x | z).

    pixels: whether to draw x ("sample") or to use its mean ("mean"). hidden: [n, 1, H, W] bool, True at the pixels
    that are examined for flaws; None for all. The other parameters are those of `VDVAE.descend`.
    """
    check_choice(pixels, "pixels", ("sample", "mean"))
    check_whole(n, "the number of samples", least=1)
    noise = as_noise(noise)
    temperatures = per_group(temperature, vae.config)
    descent = vae.descend(source, batch=n, noise=noise, temperature=temperatures, given=given)
    parameters = vae.decoder.pixel_parameters(descent.state)
    images = vae.likelihood.mean(parameters) if pixels == "mean" else vae.likelihood.sample(parameters, noise)
    return DrawnImages(
        images,
        descent.latents,
        find_flaws(vae.likelihood, parameters, far_outside(vae.likelihood, temperatures), hidden),
    )
