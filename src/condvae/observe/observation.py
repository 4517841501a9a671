"""An observation y of images x, and the one that image completion uses: some pixels are known."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from condvae.runtime.pixels import check_values, from_uint8


@dataclass(frozen=True, kw_only=True)
class Observation:
    """What is known of a batch of images. The word "mask" has no fixed meaning; `known` is True where observed."""

    y: Tensor
    """What the partial encoder sees: [B, Cy, H, W]."""
    known: Tensor | None = None
    """[B, 1, H, W] bool. None: the whole image is unknown, as with edges or a class label."""
    pixels: Tensor | None = None
    """[B, C, H, W] in [-1, 1]: the known pixels' values; what stands elsewhere is never used."""

    def __post_init__(self) -> None:
        if not isinstance(self.y, Tensor):
            raise ValueError(f"y is a {type(self.y).__name__}, expected a torch tensor")
        if self.y.ndim != 4:
            raise ValueError(f"y has {self.y.ndim} dimensions, expected [B, channels, H, W]")
        batch, _, height, width = self.y.shape
        if self.known is not None:
            check_known(self.known, (batch, 1, height, width))
        if self.pixels is not None:
            if self.known is None:
                raise ValueError("pixels were given without saying which of them are known")
            if self.pixels.shape[0] != batch or self.pixels.shape[2:] != (height, width):
                raise ValueError(
                    f"pixels have shape {tuple(self.pixels.shape)}, expected [{batch}, C, {height}, {width}]"
                )

    def __len__(self) -> int:
        return self.y.shape[0]

    def to(self, device: torch.device) -> "Observation":
        """The same on another device."""
        return Observation(
            y=self.y.to(device),
            known=None if self.known is None else self.known.to(device),
            pixels=None if self.pixels is None else self.pixels.to(device),
        )

    def __getitem__(self, rows: slice) -> "Observation":
        """Some of the observations."""
        return Observation(
            y=self.y[rows],
            known=None if self.known is None else self.known[rows],
            pixels=None if self.pixels is None else self.pixels[rows],
        )

    def check_values(self) -> None:
        """Raise a ValueError unless y is finite and the known pixels are in [-1, 1]; looks at every number."""
        if not torch.isfinite(self.y).all():
            raise ValueError("the observation holds NaN or infinite values where it is known, expected finite numbers")
        if self.pixels is not None and self.known is not None:
            check_values(torch.where(self.known, self.pixels, 0.0), name="an observed pixel")

    def paste(self, images: Tensor, *, n: int = 1) -> Tensor:
        """Put the known pixels back into images [B * n, C, H, W], n beside each other for each observation."""
        if self.known is None or self.pixels is None:
            return images
        expected = (len(self) * n, *self.pixels.shape[1:])
        if images.shape != expected:
            raise ValueError(f"images have shape {tuple(images.shape)}, expected {expected} to paste {len(self)} x {n}")
        known, pixels = self.known.repeat_interleave(n, dim=0), self.pixels.repeat_interleave(n, dim=0)
        return torch.where(known, pixels, images)


def observe_pixels(x: Tensor, known: Tensor, normalise: Callable[[Tensor], Tensor]) -> Observation:
    """y = concat(x * known, known): some pixels of x, normalised as the artifact sees images, and which they are.

    x: [B, C, H, W] in [-1, 1]; known: [B, 1, H, W] bool, True where observed.
    """
    check_known(known, (x.shape[0], 1, *x.shape[2:]))
    # where(), not a product: unknown pixels may hold anything, NaN included, and must not reach y.
    shown = torch.where(known, normalise(x), 0.0)
    y = torch.cat((shown, known.to(shown.dtype)), dim=1)
    return Observation(y=y, known=known, pixels=torch.where(known, x, 0.0))


def check_known(known: Tensor, shape: tuple[int, ...]) -> None:
    """Raise a ValueError unless `known` is a bool tensor of that shape."""
    if not isinstance(known, Tensor):
        raise ValueError(f"known is a {type(known).__name__}, expected a torch tensor of bool")
    if known.shape != shape:
        raise ValueError(f"known has shape {tuple(known.shape)}, expected {tuple(shape)}")
    if known.dtype != torch.bool:
        raise ValueError(f"known is {known.dtype}, expected bool: True where a pixel was observed")


def observe_levels(levels: Tensor, known: Tensor) -> Observation:
    """What every completer is given of grey levels [B, C, H, W] uint8: the known pixels, and in y only which they are.

    A model makes its own y of them, normalised as its artifact sees images.
    """
    check_known(known, (levels.shape[0], 1, *levels.shape[2:]))
    return Observation(y=known.float(), known=known, pixels=torch.where(known, from_uint8(levels), 0.0))
