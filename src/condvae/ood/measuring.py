"""Features of many images, so that none depends on what else is measured.

On a CPU each image is computed by itself in one thread: the same bits in any company and with any number of threads.
On a GPU images go in chunks, in float32 throughout: the same up to rounding.
"""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from condvae.observe import Observation
from condvae.ood.completed import Completed
from condvae.ood.inference import Inference
from condvae.ood.scores import Score
from condvae.runtime.pixels import from_uint8
from condvae.sampling.cpu_workers import on_workers
from condvae.sampling.plain import seeds_from

Features = NDArray[np.float64]

_PIXELS_AT_ONCE = 2**20
"""Of all images that are computed together on a GPU."""


def measure(
    score: Score,
    inference: Inference,
    images: Tensor,
    known: Tensor | None = None,
    *,
    seed: int,
    places: Sequence[int] | None = None,
) -> Features:
    """[N, F] features of grey levels, uint8 [N, C, H, W], where `known` ([N, 1, H, W] bool) is True; None: everywhere.

    The noise of an image depends on (seed, its place) alone; places: 0, 1, ... if not given.
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
    """`measure` of observations as they are, which need not be pixels."""
    check_kind(score, inference)
    count = len(observation)
    places = range(count) if places is None else places
    if len(places) != count:
        raise ValueError(f"{len(places)} places were given for {count} images, expected one for each")
    seeds = seeds_from(seed, 1, observations=map(int, places)).seeds
    if inference.device.type == "cpu" and isinstance(score, Completed) and score.completer is None:
        # All at once: on a CPU the sampler draws in fours, of which one image would waste three.
        inference, observation = score.whole(inference, observation, seeds)
        score = score.inner

    def features(rows: slice) -> Features:
        some = observation[rows].to(inference.device)
        return score.features(inference, some, seeds[rows]).detach().double().cpu().numpy()

    if inference.device.type == "cpu":
        with on_workers(count) as each:
            return np.concatenate(list(each(features, [slice(i, i + 1) for i in range(count)])))
    chunk = max(1, _PIXELS_AT_ONCE // inference.vae.config.image_size**2)
    # TF32 has ten bits of a mantissa: what is looked for are small differences.
    with torch.backends.cudnn.flags(enabled=True, benchmark=False, deterministic=True, allow_tf32=False):
        return np.concatenate([features(slice(i, i + chunk)) for i in range(0, count, chunk)])


def known_share(observation: Observation) -> Features:
    """[B]: how much of each image is known, from 0 to 1; 0 where y is no pixels."""
    if observation.known is None:
        return np.zeros(len(observation))
    return observation.known.flatten(1).double().mean(dim=1).cpu().numpy()


def check_kind(score: Score, inference: Inference) -> None:
    """Raise a ValueError unless the score can be had by this inference."""
    if score.kind not in (None, inference.kind):
        wanted, given = (
            "what is seen of images, through c(z | y)" if kind == "partial" else "whole images, through q(z | x)"
            for kind in (score.kind, inference.kind)
        )
        raise ValueError(f"the score {score.name} is for {wanted}, but was asked for {given}: take another score")
