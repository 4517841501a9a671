"""What the unseen rest of an image may be: images that a policy imagines."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

from torch import Tensor

from condvae.completers.by_place import complete_at
from condvae.completers.interface import Completer, paste_known
from condvae.completers.training_images import random_positions
from condvae.conditional import ConditionalVAE
from condvae.data import ImageSet
from condvae.observe import KnownPixels, Observation


class ImageSource(Protocol):
    """Draws images that may be the one behind an observation."""

    @property
    def name(self) -> str:
        """What a report calls it."""

    def imagine(self, observation: Observation, n: int, seed: int, places: Sequence[int]) -> Tensor:
        """[B, n, C, H, W] uint8; what stands for observation b depends on (seed, its place) alone."""


def check_completes(model: ConditionalVAE, name: str = "the model") -> None:
    """Raise a ValueError unless a model completes images of which some pixels are known."""
    sees_pixels = model.process is None or isinstance(model.process, KnownPixels)
    if not sees_pixels or model.partial_config.channels != model.artifact.config.channels + 1:
        raise ValueError(
            f"{name} was not trained to complete images, which is what is asked of it here: give one that was"
        )


def check_pair(model: ConditionalVAE, model_name: str, takes: tuple[int, int], classifier_name: str) -> None:
    """Raise a ValueError unless a model makes images of the size and with the channels that a classifier takes."""
    config = model.artifact.config
    if (config.image_size, config.channels) != takes:
        size, channels = takes
        raise ValueError(
            f"{model_name} makes images of {config.image_size} x {config.image_size} x {config.channels}, "
            f"{classifier_name} takes {size} x {size} x {channels}: give a pair of one kind"
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class Completions:
    """Images that show what is known, with a rest by anything that completes: a model, nearest neighbours, a GAN."""

    completer: Completer

    @property
    def name(self) -> str:
        return self.completer.name

    def imagine(self, observation: Observation, n: int, seed: int, places: Sequence[int]) -> Tensor:
        made = complete_at(self.completer, observation, n, seed=seed, places=places)
        kept = paste_known(observation, made)
        # Observed pixels may lie between grey levels, where both sides of a tie are right.
        off = kept != made
        if bool(off.any()) and bool(((kept[off].short() - made[off].short()).abs() > 1).any()):
            raise ValueError(
                f"{self.name} has changed known pixels, which a completion shows as they are: paste them into it"
            )
        return kept


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
