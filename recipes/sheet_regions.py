"""What is hidden in the images of a contact sheet: freeform holes, parts of a face, halves, or everything."""

from typing import Literal, NamedTuple, TypeAlias

import torch
from torch import Tensor

from condvae.metrics import HOLE_BINS, known_in_bin

Hidden: TypeAlias = Literal["freeform", "boxes", "eyes", "mouth", "halves", "sides", "nothing"]
"""The name of a sheet. boxes: the eyes of every other face, and the mouth of the others. sides: the left half of every
other image, and the right half of the others. nothing: no pixel is known."""
FramingName: TypeAlias = Literal["faces64", "lfw64"]


class Framing(NamedTuple):
    """Where a data set of aligned faces has their eyes, in shares of the side of the square."""

    eyes: float
    """Distance of the eyes."""
    x: float
    y: float
    """The middle between the eyes."""

    def box(self, part: Literal["eyes", "mouth"], size: int) -> tuple[slice, slice]:
        """Return the rows and columns of a box around a part of the face, in an image of size x size pixels.

        The mouth of an average face is 1.1 times the distance of the eyes below them.
        """
        half_width, top, bottom = {"eyes": (0.95, -0.5, 0.3), "mouth": (0.68, 0.8, 1.45)}[part]
        x, y, unit = self.x * size, self.y * size, self.eyes * size
        rows = slice(max(0, round(y + top * unit)), round(y + bottom * unit))
        return rows, slice(max(0, round(x - half_width * unit)), round(x + half_width * unit))


FRAMINGS: dict[FramingName, Framing] = {
    "faces64": Framing(eyes=0.40, x=0.50, y=0.29),
    "lfw64": Framing(eyes=0.36, x=0.50, y=0.375),
}
"""The framings of the packs faces64-*.zip and lfw64.zip."""


def regions(n: int, size: int, seed: int, framing: Framing) -> dict[Hidden, Tensor]:
    """Return the known pixels of the images on each sheet, by the sheet's name: [n, 1, size, size] bool, True where
    known. Only four images have no known pixel.

    Successive images of a sheet have different holes: freeform holes of five sizes, or one of four halves.
    """
    freeform = torch.cat([known_in_bin(HOLE_BINS[i % 5], n, size, seed=seed)[i : i + 1] for i in range(n)])
    eyes, mouth, boxes, halves, sides = torch.ones(5, n, 1, size, size, dtype=torch.bool)
    eyes[:, :, *framing.box("eyes", size)] = False
    mouth[:, :, *framing.box("mouth", size)] = False
    boxes[::2], boxes[1::2] = eyes[::2], mouth[1::2]
    sides[::2, ..., : size // 2] = False
    sides[1::2, ..., size // 2 :] = False
    for i in range(n):
        side = halves[i] if i % 4 < 2 else halves[i].mT
        side[..., slice(size // 2, size) if i % 2 else slice(0, size // 2)] = False
    nothing = torch.zeros_like(boxes[:4])
    return {
        "freeform": freeform,
        "boxes": boxes,
        "eyes": eyes,
        "mouth": mouth,
        "halves": halves,
        "sides": sides,
        "nothing": nothing,
    }
