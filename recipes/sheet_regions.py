"""What is hidden in the images of a contact sheet: freeform holes, parts of a face, halves, or everything."""

from typing import Literal, TypeAlias

import torch
from torch import Tensor

from condvae.completion.face_squares import usual_square
from condvae.faces import Framing
from condvae.images.face_parts import part_of_square
from condvae.metrics import HOLE_BINS, known_in_bin

Hidden: TypeAlias = Literal["freeform", "boxes", "eyes", "mouth", "halves", "sides", "nothing"]
"""The name of a sheet. boxes: the eyes of every other face, and the mouth of the others. sides: the left half of every
other image, and the right half of the others. nothing: no pixel is known."""
FramingName: TypeAlias = Literal["faces64", "lfw64"]


FRAMINGS: dict[FramingName, Framing] = {
    "faces64": Framing(eyes=0.40, x=0.50, y=0.29),
    "lfw64": Framing(eyes=0.395, x=0.50, y=0.377),
}
"""The framings of the packs faces64-*.zip and lfw64.zip, the latter as `recipes/face_framing.py` measures it."""


def regions(n: int, size: int, seed: int, framing: Framing) -> dict[Hidden, Tensor]:
    """Return the known pixels of the images on each sheet, by the sheet's name: [n, 1, size, size] bool, True where
    known. Only four images have no known pixel.

    Successive images of a sheet have different holes: freeform holes of five sizes, or one of four halves.
    """
    freeform = torch.cat([known_in_bin(HOLE_BINS[i % 5], n, size, seed=seed)[i : i + 1] for i in range(n)])
    eyes, mouth, boxes, halves, sides = torch.ones(5, n, 1, size, size, dtype=torch.bool)
    face = usual_square((size, size), framing)
    eyes[:, :, torch.from_numpy(part_of_square("eyes", face, size))] = False
    mouth[:, :, torch.from_numpy(part_of_square("mouth", face, size))] = False
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
