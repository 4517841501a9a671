"""A picture's middle square at the image size of a model, as grey levels and as a tensor."""

import numpy as np
import torch
from torch import Tensor

from condvae.images.decode import fit
from condvae.images.placement import Placement
from condvae.images.reading import Picture
from condvae.images.squares import described
from condvae.observe.batch import Batch
from condvae.runtime import pixels
from condvae.runtime.pixels import PixelArray
from condvae.vdvae import VDVAEConfig


def whole_levels(picture: Picture, config: VDVAEConfig) -> tuple[PixelArray, tuple[str, ...]]:
    """Return a picture's middle square at the model's image size S, [S, S, C] uint8, with transparent pixels on white.

    Also return messages for the user that tell how the picture was cropped and resized.
    """
    levels = fit(picture.on_white(), channels=config.channels, size=config.image_size)
    return levels, tuple(resizing_notes(picture, config.image_size, on_white=True))


def resizing_notes(picture: Picture, size: int, *, on_white: bool, face: Placement | None = None) -> list[str]:
    """Return messages for the user about how a picture was read, and how its square is resized.

    on_white: whether transparent pixels are shown on white. face: the square around a face; None for the middle square.
    """
    notes = list(picture.notes)
    width, height = picture.size
    side = min(width, height)
    if face is not None:
        notes.append(f"{picture.name}: the square around its face, {described(face)}, is resized to {size} x {size}")
    elif (width, height) != (size, size):
        what = "it" if width == height else f"its middle {side} x {side}"
        then = f"resized to {size} x {size}" if side != size else "used"
        notes.append(f"{picture.name} is {width} x {height}: {what} is {then}")
    if on_white and picture.alpha is not None:
        notes.append(f"{picture.name} has transparent pixels: they are shown on white")
    return notes


def as_batch(levels: PixelArray) -> Batch:
    """Convert one image [H, W, C] uint8 to a batch of one image."""
    return Batch(x=pixels.from_uint8(as_tensor(levels)[None]))


def as_tensor(levels: PixelArray) -> Tensor:
    """Convert an image from an array [H, W, C] to a tensor [C, H, W]."""
    return torch.from_numpy(np.array(levels)).permute(2, 0, 1)
