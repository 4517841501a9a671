"""Find the faces of a picture, and the square around each that shows it as in the training of a model."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from condvae import faces
from condvae.faces import Framing
from condvae.faces.face import MEAN_FRAMING, MEAN_LANDMARKS
from condvae.images.face_parts import FaceSquare, face_in
from condvae.images.placement import Placement
from condvae.images.reading import Picture
from condvae.images.squares import described, middle_square
from condvae.runtime.messages import counted, shown
from condvae.weights.cached_models import ModelId
from condvae.weights.model_cards import card_at

_LANDMARKS = 5
_LARGEST = 5
"""Squares of a record with more than this many times the size of the picture are refused as damaged."""
_HINT_PIXELS = 256
"""For the hint, faces are looked for in a picture that is reduced to about this many pixels, so that it takes little
time. Faces that are smaller than about a tenth of the picture are not found."""
# A face counts as framed if its square is about the middle square of the picture.
_FRAMED_SIZE, _FRAMED_SHIFT, _FRAMED_DEGREES = 1.5, 0.25, 30


def framing_of(model: ModelId | None) -> Framing | None:
    """Return how faces are framed in the training images of a model, which its card says; None if it does not."""
    card = None if model is None else card_at(model.file.path)
    return None if card is None or card.framing is None else Framing(**card.framing)


def find_squares(picture: Picture, framing: Framing) -> list[FaceSquare]:
    """Return the squares around all faces of a picture, the largest face first.

    The faces are found in the whole picture, hidden pixels included, as a person would find them who crops the picture.
    """
    return [
        FaceSquare(face.placement(framing), tuple((float(x), float(y)) for x, y in face.landmarks))
        for face in faces.find_faces(picture.colours)
    ]


def choose_squares(picture: Picture, framing: Framing, face: int | str) -> list[FaceSquare]:
    """Return the square around face number `face` of a picture, counted by size from 1, or around "all" faces.

    Raise ValueError if there is no such face.
    """
    found = find_squares(picture, framing)
    if not found:
        raise ValueError(
            f"no face was found in {picture.name}: give a photo in which the face is larger, upright and well lit, or "
            "crop the photo to the face yourself and leave out --face"
        )
    if face == "all":
        return found
    number = int(face)
    if number > len(found):
        raise ValueError(
            f"{picture.name} has {counted(len(found), 'face')}, so there is no face {number}: give --face with a "
            f"number up to {len(found)}"
        )
    return [found[number - 1]]


def usual_square(size: tuple[int, int], framing: Framing) -> FaceSquare:
    """Return the middle square of a picture of this size, with the mean face as the model expects it."""
    scale, eyes = framing.eyes / MEAN_FRAMING.eyes, np.array([(framing.x, framing.y), (MEAN_FRAMING.x, MEAN_FRAMING.y)])
    return face_in(middle_square(size), (MEAN_LANDMARKS - eyes[1]) * scale + eyes[0])


def hint_of(picture: Picture, framing: Framing) -> str | None:
    """Return a hint to use --face if the picture has a face that the middle square does not show as in training."""
    factor = max(1, max(picture.size) // _HINT_PIXELS)
    found = faces.find_faces(picture.colours.reduce(factor))
    if not found:
        return None
    x, y, side, degrees = found[0].placement(framing)
    placement = Placement(factor * x, factor * y, factor * side, degrees)
    if _is_framed(placement, middle_square(picture.size)):
        return None
    return (
        f"{picture.name} has a face {described(placement)}: add --face (face=True in Python) to complete this face "
        "instead of the middle square of the image"
    )


def _is_framed(face: Placement, middle: Placement) -> bool:
    shift = math.hypot(face.x - middle.x, face.y - middle.y) / middle.side
    size = max(face.side / middle.side, middle.side / face.side)
    return shift < _FRAMED_SHIFT and size < _FRAMED_SIZE and abs(face.degrees) < _FRAMED_DEGREES


def check_squares(squares: Sequence[FaceSquare], picture: Picture) -> None:
    """Raise ValueError if squares from a record cannot be squares of this picture."""
    most = _LARGEST * max(picture.size)
    for placement, landmarks in squares:
        lengths = [placement.x, placement.y, placement.side, *(number for point in landmarks for number in point)]
        if max(map(abs, lengths)) > most or placement.side < 1 or abs(placement.degrees) > 360:
            raise ValueError(f"the record is damaged: a face is far outside {picture.name}, too small or too large")


def described_square(face: FaceSquare) -> dict[str, Any]:
    """Return the entry of a face in a record."""
    return {**face.placement._asdict(), "landmarks": [list(point) for point in face.landmarks]}


def recorded_square(plain: dict[str, Any]) -> FaceSquare:
    """Return the face of an entry in a record. Raise TypeError or KeyError if the entry is damaged."""
    if any(len(point) != 2 for point in plain["landmarks"]):
        raise TypeError(f"found {shown(plain)} where a face was expected")
    landmarks = tuple((_number(x), _number(y)) for x, y in plain["landmarks"])
    placement = Placement(*(_number(plain[name]) for name in Placement._fields))
    if len(landmarks) != _LANDMARKS or placement.side <= 0:
        raise TypeError(f"found {shown(plain)} where a face was expected")
    return FaceSquare(placement, landmarks)


def _number(value: object) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or not math.isfinite(value):
        raise TypeError(f"found {shown(value)} where a number was expected")
    return float(value)
