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


def usual_face(placement: Placement, *, eyes: float, x: float, y: float) -> FaceSquare:
    """Return the face that a model expects in a square, with the landmarks where most faces have them.

    eyes: distance of the eyes; x and y: middle between them; all as shares of the side of the square.
    """
    nose, mouth = (x, y + 0.6 * eyes), y + 1.1 * eyes
    points = [(x - eyes / 2, y), (x + eyes / 2, y), nose, (x - 0.4 * eyes, mouth), (x + 0.4 * eyes, mouth)]
    return FaceSquare(placement, tuple((float(a), float(b)) for a, b in in_picture(points, placement)))


def part_of_square(part: FacePart, face: FaceSquare, size: int) -> npt.NDArray[np.bool_]:
    """Return [size, size] bool: True in the rectangle of this part, in the square at the model's image size."""
    points = in_square(face.landmarks, face.placement)
    left_eye, right_eye, nose, mouth = points[0], points[1], points[2], points[3:]
    unit = float(np.hypot(*(right_eye - left_eye)))  # the distance of the eyes
    eye_line = (left_eye[1] + right_eye[1]) / 2
    middle = (left_eye[0] + right_eye[0] + mouth[:, 0].sum()) / 4
    left, top, right, bottom = {
        "eyes": (left_eye[0] - 0.45 * unit, eye_line - 0.5 * unit, right_eye[0] + 0.45 * unit, eye_line + 0.3 * unit),
        "nose": (nose[0] - 0.4 * unit, eye_line + 0.1 * unit, nose[0] + 0.4 * unit, nose[1] + 0.25 * unit),
        "mouth": (
            mouth[:, 0].min() - 0.25 * unit,
            mouth[:, 1].min() - 0.3 * unit,
            mouth[:, 0].max() + 0.25 * unit,
            mouth[:, 1].max() + 0.35 * unit,
        ),
        "left": (0, 0, middle, 1),
        "right": (middle, 0, 1, 1),
    }[part]
    middles = (np.arange(size) + 0.5) / size
    columns, rows = (middles >= left) & (middles < right), (middles >= top) & (middles < bottom)
    region: npt.NDArray[np.bool_] = rows[:, None] & columns
    return region
