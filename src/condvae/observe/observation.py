"""Observations y of images x, in particular those of image completion, in which some pixels are known."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from condvae.runtime.messages import counted
from condvae.runtime.pixels import check_values, from_uint8


@dataclass(frozen=True, kw_only=True)
class Observation:
    """Observations y of a batch of images, and their known pixels if there are any."""

    y: Tensor
    """The input of the partial encoder, [B, Cy, H, W]."""
    known: Tensor | None = None
    """[B, 1, H, W] bool: True where a pixel is known. None if no pixels are known, as with edges or a class label."""
    pixels: Tensor | None = None
    """[B, C, H, W] in [-1, 1]: the values of the known pixels. Values of hidden pixels are never used."""

    def __post_init__(self) -> None:
        if not isinstance(self.y, Tensor):
            raise ValueError(f"y is a {type(self.y).__name__}, expected a torch tensor")
        if self.y.ndim != 4:
            raise ValueError(f"y has {counted(self.y.ndim, 'dimension')}, expected shape [B, channels, H, W]")
        batch, _, height, width = self.y.shape
        if self.known is not None:
            check_known(self.known, (batch, 1, height, width))
        if self.pixels is not None:
            if self.known is None:
                raise ValueError("pixels were given without known: give both, with known True where a pixel is known")
            if self.pixels.shape[0] != batch or self.pixels.shape[2:] != (height, width):
                raise ValueError(
                    f"pixels have shape {tuple(self.pixels.shape)}, expected [{batch}, C, {height}, {width}]"
                )

    def __len__(self) -> int:
        return self.y.shape[0]

    def to(self, device: torch.device) -> "Observation":
        """Copy the observation to another device."""
        return Observation(
            y=self.y.to(device),
            known=None if self.known is None else self.known.to(device),
            pixels=None if self.pixels is None else self.pixels.to(device),
        )

    def __getitem__(self, rows: slice) -> "Observation":
        """Return the observations of a slice of the batch."""
        return Observation(
            y=self.y[rows],
            known=None if self.known is None else self.known[rows],
            pixels=None if self.pixels is None else self.pixels[rows],
        )

    def check_values(self) -> None:
        """Raise ValueError unless y is finite and the known pixels are in [-1, 1]. This reads all values."""
        if not torch.isfinite(self.y).all():
            raise ValueError("the observation has NaN or infinite values, expected finite numbers")
        if self.pixels is not None and self.known is not None:
            check_values(torch.where(self.known, self.pixels, 0.0), name="the observation")

    def paste(self, images: Tensor, *, n: int = 1) -> Tensor:
        """Copy the known pixels into images [B * n, C, H, W], where every observation has n consecutive images."""
        if self.known is None or self.pixels is None:
            return images
        expected = (len(self) * n, *self.pixels.shape[1:])
        if images.shape != expected:
            each = f"{counted(n, 'image')} per observation"
            raise ValueError(f"images have shape {tuple(images.shape)}, expected {expected}: {each}")
        known, pixels = self.known.repeat_interleave(n, dim=0), self.pixels.repeat_interleave(n, dim=0)
        return torch.where(known, pixels, images)


def observe_pixels(x: Tensor, known: Tensor, normalise: Callable[[Tensor], Tensor]) -> Observation:
    """Make the observation y = concat(normalise(x) * known, known): known pixels, and a channel that marks them.

    x: [B, C, H, W] in [-1, 1]; known: [B, 1, H, W] bool, True where a pixel is known. normalise: converts images to the
    scale of the artifact's inputs.
    """
    check_known(known, (x.shape[0], 1, *x.shape[2:]))
    # where() instead of a product, because hidden pixels may have any value, even NaN, and must not reach y.
    shown = torch.where(known, normalise(x), 0.0)
    y = torch.cat((shown, known.to(shown.dtype)), dim=1)
    return Observation(y=y, known=known, pixels=torch.where(known, x, 0.0))


def check_known(known: Tensor, shape: tuple[int, ...]) -> None:
    """Raise ValueError unless `known` is a bool tensor of the given shape."""
    if not isinstance(known, Tensor):
        raise ValueError(f"known is a {type(known).__name__}, expected a torch tensor of bool")
    if known.shape != shape:
        raise ValueError(f"known has shape {tuple(known.shape)}, expected {tuple(shape)}")
    if known.dtype != torch.bool:
        raise ValueError(f"known is {known.dtype}, expected bool: True where a pixel is known")


def observe_levels(levels: Tensor, known: Tensor) -> Observation:
    """Make an observation for any completer from images as grey levels, [B, C, H, W] uint8.

    Its y only marks the known pixels, since a model makes y itself, with the normalisation of its artifact.
    """
    check_known(known, (levels.shape[0], 1, *levels.shape[2:]))
    return Observation(y=known.float(), known=known, pixels=torch.where(known, from_uint8(levels), 0.0))
