"""Compute a score's features for many images. The result for an image does not depend on the other images.

On a CPU each image is computed separately in one thread, so results are bit-identical for any batch and any number of
threads. On a GPU images are computed in chunks in float32, so results depend on the chunks only by rounding.
"""

from collections.abc import Sequence
from types import NoneType

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from condvae.completers.learned_completer import LearnedCompleter
from condvae.completers.model_completer import ModelCompleter
from condvae.observe import Observation
from condvae.ood.completion_score import Completed
from condvae.ood.inference import Inference
from condvae.ood.scores import Score
from condvae.runtime.pixels import from_uint8
from condvae.sampling.cpu_workers import on_workers
from condvae.sampling.plain import seeds_from

Features = NDArray[np.float64]

_PIXELS_AT_ONCE = 2**20
"""The number of pixels, over all images of a chunk, that a GPU computes together."""
_WITH_WORKERS = (NoneType, ModelCompleter, LearnedCompleter)
"""Completers whose result for an image on a CPU is bit-identical in any batch. None stands for the scored model."""


def measure(
    score: Score,
    inference: Inference,
    images: Tensor,
    known: Tensor | None = None,
    *,
    seed: int,
    places: Sequence[int] | None = None,
) -> Features:
    """Return F features of each of N images, [N, F], for a score.

    images: uint8 [N, C, H, W]. known: which pixels are known, bool [N, 1, H, W]; None if all are. places: one number
    per image, by default 0, 1, ...; the latents of an image are drawn from its place and the seed alone.
    """
    return measure_observation(score, inference, inference.observe(from_uint8(images), known), seed=seed, places=places)


def measure_observation(
    score: Score,
    inference: Inference,
    observation: Observation,
    *,
    seed: int,
    places: Sequence[int] | None = None,
) -> Features:
    """Return F features of each of N observations, [N, F]; they need not be pixels. seed, places: see `measure`."""
    check_kind(score, inference)
    count = len(observation)
    places = range(count) if places is None else places
    if len(places) != count:
        raise ValueError(f"{len(places)} places were given for {count} images: give one number per image as its place")
    seeds = seeds_from(seed, 1, observations=map(int, places)).seeds
    if inference.device.type == "cpu" and isinstance(score, Completed) and isinstance(score.completer, _WITH_WORKERS):
        # Complete all images together, because these completers have worker threads of their own.
        inference, observation = score.whole(inference, observation, seeds)
        score = score.inner

    def features(rows: slice) -> Features:
        some = observation[rows].to(inference.device)
        return score.features(inference, some, seeds[rows]).detach().double().cpu().numpy()

    if inference.device.type == "cpu":
        with on_workers(count) as each:
            return np.concatenate(list(each(features, [slice(i, i + 1) for i in range(count)])))
    chunk = max(1, _PIXELS_AT_ONCE // inference.vae.config.image_size**2)
    # No TF32: its mantissa of ten bits is too coarse for small differences between scores.
    with torch.backends.cudnn.flags(enabled=True, benchmark=False, deterministic=True, allow_tf32=False):
        return np.concatenate([features(slice(i, i + chunk)) for i in range(0, count, chunk)])


def known_share(observation: Observation) -> Features:
    """Return the known share of each image, [B], from 0 to 1; 0 for observations without pixels, such as edges."""
    if observation.known is None:
        return np.zeros(len(observation))
    return observation.known.flatten(1).double().mean(dim=1).cpu().numpy()


def check_kind(score: Score, inference: Inference) -> None:
    """Raise ValueError if the score needs the other encoder: c(z | y) instead of q(z | x), or the reverse."""
    if score.kind not in (None, inference.kind):
        wanted, given = (
            "observations (latents from c(z | y))" if kind == "partial" else "whole images (latents from q(z | x))"
            for kind in (score.kind, inference.kind)
        )
        raise ValueError(f"the score {score.name} needs {wanted}, but was given {given}: use another score")
