"""What the preparation of pictures needs to know about a model."""

from typing import Protocol

from torch import Tensor

from condvae.observe import Observation, Process


class ImageCompleter(Protocol):
    """A model that completes images with holes: a `ConditionalVAE`, or another method."""

    process: Process | None

    @property
    def image_size(self) -> int: ...

    @property
    def channels(self) -> int: ...

    @property
    def completes_holes(self) -> bool: ...

    def observe(self, x: Tensor, known: Tensor) -> Observation:
        """Make an observation from images x in [-1, 1]. known: [B, 1, H, W] bool, True where a pixel is known."""
