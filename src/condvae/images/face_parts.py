"""Parts of a face that can be hidden, such as both eyes, as regions of the square that a model sees."""

from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from condvae.images.image_meanings import FacePart
from condvae.images.placement import Placement
from condvae.images.squares import in_picture, in_square

Landmarks: TypeAlias = tuple[tuple[float, float], ...]
"""x and y of the left eye, right eye, nose, left and right corner of the mouth (as seen), in pixels of the picture."""


class FaceSquare(NamedTuple):
    """A face in a picture: the square that the model sees of it, and its landmarks."""

    placement: Placement
    landmarks: Landmarks


def face_in(placement: Placement, landmarks: npt.ArrayLike) -> FaceSquare:
    """Return a face in a square. landmarks: [5, 2], in the square from (0, 0), its top left, to (1, 1)."""
    return FaceSquare(placement, tuple((float(x), float(y)) for x, y in in_picture(landmarks, placement)))


def part_of_square(part: FacePart, face: FaceSquare, size: int) -> npt.NDArray[np.bool_]:
    """Return [size, size] bool: True in this part of the face, in the square at the model's image size.

    The eyes, the nose and the mouth are rectangles. The left and the right half of the face are halves of an ellipse.
    """
    left_eye, right_eye, nose, *mouth = in_square(face.landmarks, face.placement)
    unit = float(np.hypot(*(right_eye - left_eye)))  # the distance of the eyes
    eye_line = (left_eye[1] + right_eye[1]) / 2
    middle = (left_eye[0] + right_eye[0] + mouth[0][0] + mouth[1][0]) / 4
    middles = (np.arange(size) + 0.5) / size
    x, y = middles[None, :], middles[:, None]
    if part in ("left", "right"):
        ellipse = ((x - middle) / (1.15 * unit)) ** 2 + ((y - eye_line - 0.5 * unit) / (1.45 * unit)) ** 2 < 1
        return np.asarray(ellipse & (x < middle if part == "left" else x >= middle))
    sides = {"eyes": (left_eye, right_eye), "nose": (nose, nose), "mouth": mouth}[part]
    wider, top, bottom = {
        "eyes": (0.45, eye_line - 0.5 * unit, eye_line + 0.3 * unit),
        "nose": (0.4, eye_line + 0.1 * unit, nose[1] + 0.25 * unit),
        "mouth": (0.25, min(mouth[0][1], mouth[1][1]) - 0.3 * unit, max(mouth[0][1], mouth[1][1]) + 0.35 * unit),
    }[part]
    left, right = sides[0][0] - wider * unit, sides[1][0] + wider * unit
    return np.asarray((x >= left) & (x < right) & (y >= top) & (y < bottom))
