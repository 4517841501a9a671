"""Observation processes p(y | x): a name, parameters and a way to draw y; stored with the model trained on it."""

import dataclasses
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, TypeAlias

import torch
from torch import Tensor

from condvae.observe.batch import Batch
from condvae.observe.observation import Observation, observe_pixels
from condvae.runtime.checks import strict

Normalise: TypeAlias = Callable[[Tensor], Tensor]
"""Images in [-1, 1] as the artifact's networks see them."""


class Process(ABC):
    """One way to observe images. Implementations are frozen dataclasses whose fields are the parameters."""

    name: ClassVar[str]

    @abstractmethod
    def channels(self, image_channels: int) -> int:
        """Channels of y for images of so many."""

    @abstractmethod
    def observe(self, batch: Batch, *, normalise: Normalise, generator: torch.Generator) -> Observation:
        """Draw y for every image; the generator lives on the images' device."""

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON; `observe.from_dict` reads it back."""
        return {"name": self.name, **dataclasses.asdict(self)}  # type: ignore[call-overload]

    @classmethod
    def from_fields(cls, plain: Mapping[str, Any]) -> "Process":
        """The process with these parameters; an unknown or missing one is an error that names it."""
        return strict(cls, plain, where=f"observation process {cls.name}")


class KnownPixels(Process):
    """Image completion: some pixels are known, y = concat(x * known, known)."""

    @abstractmethod
    def draw(self, n: int, size: int, generator: torch.Generator) -> Tensor:
        """[n, 1, size, size] bool on the generator's device, True where observed."""

    def channels(self, image_channels: int) -> int:
        return image_channels + 1

    def observe(self, batch: Batch, *, normalise: Normalise, generator: torch.Generator) -> Observation:
        known = self.draw(len(batch), batch.x.shape[-1], generator)
        return observe_pixels(batch.x, known, normalise)


def check_number(value: object, name: str, *, least: float, most: float = math.inf) -> None:
    """Raise a ValueError unless value is a finite number in [least, most]."""
    number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if not number or not least <= value <= most:  # type: ignore[operator]
        expected = f"in [{least:g}, {most:g}]" if most < math.inf else f"from {least:g}"
        raise ValueError(f"{name} is {value!r}, expected a number {expected}")
