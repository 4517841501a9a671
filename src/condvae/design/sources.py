"""Sources of possible images, on which a policy tries out scans: completions of an observation, or training images."""

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
    """Draws possible images: whole images that could be the true image of an observation."""

    @property
    def name(self) -> str:
        """Name of this source of images in reports."""

    def imagine(self, observation: Observation, n: int, seed: int, places: Sequence[int]) -> Tensor:
        """Draw n possible images for each of B observations: [B, n, C, H, W] uint8.

        places: one number per observation. The draws for an observation depend only on the seed and its place.
        """


def check_completes(model: ConditionalVAE, name: str = "the model") -> None:
    """Raise a ValueError unless the model was trained to complete images from known pixels."""
    sees_pixels = model.process is None or isinstance(model.process, KnownPixels)
    if not sees_pixels or model.partial_config.channels != model.artifact.config.channels + 1:
        raise ValueError(f"{name} was not trained to complete images from known pixels: give a model that was")


def check_pair(model: ConditionalVAE, model_name: str, takes: tuple[int, int], classifier_name: str) -> None:
    """Raise a ValueError unless model and classifier use images of the same size and number of channels."""
    config = model.artifact.config
    if (config.image_size, config.channels) != takes:
        size, channels = takes
        raise ValueError(
            f"{model_name} makes images of {config.image_size} x {config.image_size} x {config.channels}, but "
            f"{classifier_name} expects {size} x {size} x {channels}: give a model and a classifier for the same images"
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class Completions:
    """Draws completions with any completer, such as a model, the nearest training images or a GAN."""

    completer: Completer

    @property
    def name(self) -> str:
        return self.completer.name

    def imagine(self, observation: Observation, n: int, seed: int, places: Sequence[int]) -> Tensor:
        made = complete_at(self.completer, observation, n, seed=seed, places=places)
        kept = paste_known(observation, made)
        # Observed pixels may lie halfway between two grey levels, where rounding up and rounding down are both correct.
        off = kept != made
        if bool(off.any()) and bool(((kept[off].short() - made[off].short()).abs() > 1).any()):
            raise ValueError(
                f"{self.name} has changed known pixels, which a completion must keep: copy the known pixels into it"
            )
        return kept


@dataclass(frozen=True, kw_only=True, eq=False)
class TrainingImages:
    """Draws training images uniformly, as samples of p(x). It ignores known pixels and does not copy them."""

    name: ClassVar[str] = "training images"

    images: ImageSet

    def __post_init__(self) -> None:
        if not len(self.images):
            raise ValueError("there are no training images to draw from: give a set with at least one image")

    def imagine(self, observation: Observation, n: int, seed: int, places: Sequence[int]) -> Tensor:
        positions = random_positions(len(self.images), len(observation), n, seed, places)
        images = self.images.take(positions.reshape(-1)).images.to(observation.y.device)
        return images.view(len(observation), n, *images.shape[1:])
