"""Draw images in plain torch: samples of the prior, reconstructions with z from q(z | x), samples of p_cond(x | y)."""

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
from condvae.vdvae.encoder import Source
from condvae.vdvae.model import VDVAE
from condvae.vdvae.temperature import TemperatureLike

PixelChoice: TypeAlias = Literal["sample", "mean"]


class Samples(NamedTuple):
    """Images and the latents from which they were decoded."""

    images: Tensor
    """[N, C, H, W] in [-1, 1]; `pixels.to_uint8` converts them to 8-bit grey levels."""
    latents: list[Tensor]
    """The latent groups z_1, ..., z_L. All of them, or the first few, can be passed to a later call as `given=`."""


@torch.no_grad()
def sample_prior(
    vae: VDVAE,
    n: int,
    *,
    noise: NoiseSource,
    temperature: TemperatureLike = 1.0,
    pixels: PixelChoice = "sample",
    given: Sequence[Tensor | None] = (),
) -> Samples:
    """Draw n unconditional images, with z from p(z)."""
    return draw(vae, None, n, noise, temperature, pixels, given)


@torch.no_grad()
def reconstruct(
    vae: VDVAE,
    x: Tensor,
    *,
    noise: NoiseSource,
    temperature: TemperatureLike = 1.0,
    pixels: PixelChoice = "mean",
    given: Sequence[Tensor | None] = (),
) -> Samples:
    """Encode and decode images [B, C, H, W] in [-1, 1], with z from q(z | x)."""
    vae.check(x)
    return draw(vae, vae.posterior(x), len(x), noise, temperature, pixels, given)


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
    to get completions, put the known pixels back with `observation.paste`.
    """
    observation.check_values()
    check_whole(n, "the number of samples", least=1)
    c = model.posterior(observation)
    return draw(model.artifact, c, len(observation) * n, noise, temperature, pixels, given)


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
) -> Samples:
    """Draw n images, with z from `source` (the prior if None) and x from p(x | z).

    pixels: whether to draw x ("sample") or to use its mean ("mean"). The other parameters are those of `VDVAE.descend`.
    """
    check_choice(pixels, "pixels", ("sample", "mean"))
    check_whole(n, "the number of samples", least=1)
    noise = as_noise(noise)
    descent = vae.descend(source, batch=n, noise=noise, temperature=temperature, given=given)
    parameters = vae.decoder.pixel_parameters(descent.state)
    images = vae.likelihood.mean(parameters) if pixels == "mean" else vae.likelihood.sample(parameters, noise)
    return Samples(images, descent.latents)
