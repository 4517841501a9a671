"""What the unseen rest of an image may be: images that a policy imagines."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

from torch import Tensor

from condvae.baselines import Completer
from condvae.baselines.training_images import random_positions
from condvae.completers import complete_at
from condvae.data import ImageSet
from condvae.observe import Observation


class Source(Protocol):
    """Draws images that may be the one behind an observation."""

    @property
    def name(self) -> str:
        """What a report calls it."""

    def imagine(self, observation: Observation, n: int, seed: int, places: Sequence[int]) -> Tensor:
        """[B, n, C, H, W] uint8; what stands for observation b depends on (seed, its place) alone."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Completions:
    """Images that show what is known, with a rest by anything that completes: a model, nearest neighbours, a GAN."""

    completer: Completer

    @property
    def name(self) -> str:
        return self.completer.name

    def imagine(self, observation: Observation, n: int, seed: int, places: Sequence[int]) -> Tensor:
        return complete_at(self.completer, observation, n, seed=seed, places=places)


@dataclass(frozen=True, kw_only=True, eq=False)
class TrainingImages:
    """Training images at random, each as likely whatever is known, and nothing pasted: samples of p(x)."""

    name: ClassVar[str] = "training images"

    images: ImageSet

    def __post_init__(self) -> None:
        if not len(self.images):
            raise ValueError("there are no training images to draw from")

    def imagine(self, observation: Observation, n: int, seed: int, places: Sequence[int]) -> Tensor:
        positions = random_positions(len(self.images), len(observation), n, seed, places)
        images = self.images.take(positions.reshape(-1)).images.to(observation.y.device)
        return images.view(len(observation), n, *images.shape[1:])
