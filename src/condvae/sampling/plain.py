"""Drawing images: from the prior, from q(z | x) (reconstructions), and from p_cond(x | y)."""

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
    """Images and the latents that they were made from."""

    images: Tensor
    """[N, C, H, W] in [-1, 1]; `pixels.to_uint8` makes grey levels of them."""
    latents: list[Tensor]
    """z_1, ..., z_L: `given=` takes them back, all or the first few."""


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
    """n unconditional images, z from p(z)."""
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
    """Images [B, C, H, W] in [-1, 1] through the model and back, z from q(z | x)."""
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
    """n images for each observation, beside each other, [B * n, C, H, W]: z from c(z | y), x from p(x | z).

    y is encoded once for all n. These are samples of p_cond(x | y): `observation.paste` puts the known pixels back
    where a completion is wanted.
    """
    observation.check_values()
    check_whole(n, "the number of samples", least=1)
    c = model.posterior(observation)
    return draw(model.artifact, c, len(observation) * n, noise, temperature, pixels, given)


def seeds_from(seed: int, n: int, *, observations: Iterable[int] = (0,), first: int = 0) -> SeededNoise:
    """Noise for n samples of each observation from one seed, in the order of `sample_conditional`.

    Sample k of observation b depends on (seed, b, k) alone, not on how many others are drawn. `observations` names the
    b's, range(B) for a whole batch; `first` is the first k.
    """
    seed, n, first = operator.index(seed), operator.index(n), operator.index(first)
    check_seed(seed)
    check_whole(first, "the number of the first sample")
    index = np.array([(b << 32) | k for b in observations for k in range(first, first + n)], dtype=np.uint64)
    low, high, _, _ = philox_words(index, SEED_STREAM, np.array(seed, dtype=np.uint64))
    return SeededNoise((low | (high << np.uint64(32))).tolist())


def chunks(observations: int, n: int, most: int) -> Iterator[tuple[slice, slice]]:
    """Which observations, and which of the n samples of each, are drawn together: at most `most`; the first chunk is
    the largest, and an observation's samples follow each other.
    """
    together = min(n, most)
    beside = max(1, min(observations, most // together))
    for first in range(0, observations, beside):
        for start in range(0, n, together):
            yield slice(first, min(first + beside, observations)), slice(start, min(start + together, n))


def draw(
    vae: VDVAE,
    source: Source | None,
    n: int,
    noise: NoiseSource,
    temperature: TemperatureLike = 1.0,
    pixels: PixelChoice = "sample",
    given: Sequence[Tensor | None] = (),
) -> Samples:
    """n images with z from any source (None: the prior), x from p(x | z): what the three above are made of."""
    check_choice(pixels, "pixels", ("sample", "mean"))
    check_whole(n, "the number of samples", least=1)
    noise = as_noise(noise)
    descent = vae.descend(source, batch=n, noise=noise, temperature=temperature, given=given)
    parameters = vae.decoder.pixel_parameters(descent.state)
    images = vae.likelihood.mean(parameters) if pixels == "mean" else vae.likelihood.sample(parameters, noise)
    return Samples(images, descent.latents)
