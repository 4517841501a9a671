"""Baselines that fill holes with the mean of the training images, or with a random training image."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from condvae.completers.interface import paste_known
from condvae.data import ImageSet
from condvae.observe import Observation
from condvae.runtime.checks import check_whole
from condvae.sampling.plain import seeds_from

_AT_ONCE = 256


@dataclass(frozen=True, kw_only=True, eq=False)
class TrainingMean:
    """Fills the hole with the pixelwise mean of the training images."""

    name: ClassVar[str] = "training mean"
    varies: ClassVar[bool] = False

    image: Tensor
    """The mean training image, uint8 [C, H, W]."""

    @classmethod
    def fit(cls, images: ImageSet) -> "TrainingMean":
        if not len(images):
            raise ValueError("the data has no training images to average: give data with training images")
        total = sum(_batches(images), torch.zeros(images.channels, images.size, images.size, dtype=torch.float64))
        return cls(image=(total / len(images)).round().to(torch.uint8))

    def complete(self, observation: Observation, k: int, seed: int, *, places: Sequence[int] | None = None) -> Tensor:
        """Return k identical completions of each image, as a view that does not copy them."""
        check_whole(k, "the number of samples", least=1)
        image = self.image.to(observation.y.device).expand(len(observation), 1, -1, -1, -1)
        return paste_known(observation, image).expand(-1, k, -1, -1, -1)


@dataclass(frozen=True, kw_only=True, eq=False)
class RandomTrainingImage:
    """Fills the hole with a training image, drawn uniformly at random."""

    name: ClassVar[str] = "random training image"
    varies: ClassVar[bool] = True

    images: ImageSet

    def __post_init__(self) -> None:
        if not len(self.images):
            raise ValueError("the data has no training images to draw from: give data with training images")

    def complete(self, observation: Observation, k: int, seed: int, *, places: Sequence[int] | None = None) -> Tensor:
        positions = random_positions(len(self.images), len(observation), k, seed, places).reshape(-1)
        images = self.images.take(positions).images.to(observation.y.device)
        return paste_known(observation, images.unflatten(0, (len(observation), k)))


def random_positions(
    among: int, observations: int, k: int, seed: int, places: Sequence[int] | None
) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    """Draw k positions of training images for each observation, at random, as an array [observations, k].

    among: the number of training images. Entry (b, i) depends only on the seed, on i, and on places[b], or on b if
    places is None.
    """
    check_whole(k, "the number of samples", least=1)
    seeds = seeds_from(seed, k, observations=range(observations) if places is None else map(int, places)).seeds
    return np.array([number % among for number in seeds], dtype=np.int64).reshape(observations, k)


def _batches(images: ImageSet) -> Iterable[Tensor]:
    """Yield the sum of the grey levels of each batch of images, [C, H, W]."""
    for first in range(0, len(images), _AT_ONCE):
        positions = np.arange(first, min(first + _AT_ONCE, len(images)))
        yield images.take(positions).images.double().sum(dim=0)
