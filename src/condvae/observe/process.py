"""The interface of observation processes p(y | x): a name, parameters, and a method that makes y from images."""

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, TypeAlias

import torch
from torch import Tensor

from condvae.observe.batch import Batch
from condvae.observe.observation import Observation, observe_pixels
from condvae.runtime.checks import strict

Normalise: TypeAlias = Callable[[Tensor], Tensor]
"""A function that converts images in [-1, 1] to the scale of the artifact's inputs."""


class Process(ABC):
    """An observation process. Implementations are frozen dataclasses, whose fields are stored with a trained model."""

    name: ClassVar[str]

    @abstractmethod
    def channels(self, image_channels: int) -> int:
        """Return the number of channels of y for images with `image_channels` channels."""

    @abstractmethod
    def observe(self, batch: Batch, *, normalise: Normalise, generator: torch.Generator) -> Observation:
        """Draw y for every image. The generator must be on the device of the images."""

    def to_dict(self) -> dict[str, Any]:
        """Convert to plain data for JSON, which `observe.from_dict` reads."""
        return {"name": self.name, **dataclasses.asdict(self)}  # type: ignore[call-overload]

    @classmethod
    def from_fields(cls, plain: Mapping[str, Any]) -> "Process":
        """Make the process from its parameters; raise ValueError if a parameter is unknown or missing."""
        return strict(cls, plain, where=f"observation process {cls.name}")


class KnownPixels(Process):
    """A process for image completion: some pixels are known, and y = concat(normalise(x) * known, known)."""

    @abstractmethod
    def draw(self, n: int, size: int, generator: torch.Generator) -> Tensor:
        """Draw the known pixels of n images: [n, 1, size, size] bool on the generator's device, True where known."""

    def channels(self, image_channels: int) -> int:
        return image_channels + 1

    def observe(self, batch: Batch, *, normalise: Normalise, generator: torch.Generator) -> Observation:
        known = self.draw(len(batch), batch.x.shape[-1], generator)
        return observe_pixels(batch.x, known, normalise)


class PictureProcess(Process):
    """A process for image translation: y is another picture of the same subject, such as its edges."""

    costly: ClassVar[bool] = False
    """Whether making the pictures takes long or waits for the device. Training then makes them once, before its first
    step, so that a step only shows them."""

    @abstractmethod
    def pictures_of(self, batch: Batch) -> Tensor:
        """Make the pictures of a batch of images, [B, C', H', W'] in [-1, 1], without any randomness.

        The picture of a mirrored image is the mirrored picture.
        """

    @abstractmethod
    def show(self, pictures: Tensor, *, normalise: Normalise, generator: torch.Generator | None = None) -> Observation:
        """Make y from pictures. With a generator, on their device, details may be left out at random, as in training.

        Without a generator, the pictures are shown as they are.
        """

    def observe(self, batch: Batch, *, normalise: Normalise, generator: torch.Generator) -> Observation:
        return self.show(self.pictures_of(batch), normalise=normalise, generator=generator)


class LinearProcess(PictureProcess):
    """A process whose y consists of weighted sums of pixel values. Every pixel value is in exactly one sum."""

    @abstractmethod
    def weighted_sums(self, values: Tensor, *, power: int = 1) -> Tensor:
        """Return the sums of weight**power * value, for values [B, C, H, W] of the pixels.

        Power 1 makes the sums from images. Power 2 makes their variances from variances of independent pixel values.
        """

    def pictures_of(self, batch: Batch) -> Tensor:
        return self.weighted_sums(batch.x)
