"""A face in a picture, and the square around it that a model expects to see."""

import cmath
import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from condvae.images.placement import Placement


class Framing(NamedTuple):
    """Where the eyes of a face are in the square that a model sees, as shares of the square's side."""

    eyes: float
    """Distance of the eyes, if the person looks straight ahead."""
    x: float
    """Middle between the eyes, from the left edge of the square."""
    y: float
    """Middle between the eyes, from the top edge of the square."""


MEAN_FRAMING = Framing(eyes=0.40, x=0.50, y=0.29)
"""The framing of the faces of which MEAN_LANDMARKS is the mean."""
MEAN_LANDMARKS = np.array([[0.309, 0.299], [0.691, 0.299], [0.5, 0.536], [0.336, 0.706], [0.664, 0.706]])
"""[5, 2]: where `find_faces` finds the landmarks of faces of this framing, as shares of the side of the square.

Medians over training images of CelebA and UTKFace, made symmetric (`recipes/face_framing.py` prints them). The data
sets were aligned by landmarks of other programs, so that the eyes are not exactly where the framing says.
"""
_WEIGHTS = np.array([1, 1, 1, 0.5, 0.5])  # the mouth moves when a person talks or laughs


class Face(NamedTuple):
    """A face that was found in a picture. Coordinates are in pixels: the pixel in column i covers i to i + 1."""

    box: tuple[float, float, float, float]
    """x and y of the top left corner, width and height. The box may reach over the edge of the picture."""
    landmarks: npt.NDArray[np.float64]
    """[5, 2]: x and y of the left eye, right eye, nose, left and right corner of the mouth, as seen in the picture."""
    score: float
    """Probability that this is a face."""

    def placement(self, framing: Framing) -> Placement:
        """Return the square in which this face has the framing.

        All landmarks count, not the eyes alone: the eyes of a person who looks aside are closer together, but the
        face is not smaller. The square is the one of the similarity transform that maps the mean face to the
        landmarks with the least squared error.
        """
        # As complex numbers x + iy, the transform is z -> turn * z + shift.
        mean, found = MEAN_LANDMARKS @ (1, 1j), self.landmarks @ (1, 1j)
        middle, middle_found = np.average(mean, weights=_WEIGHTS), np.average(found, weights=_WEIGHTS)
        apart = mean - middle
        turn = complex(np.sum(_WEIGHTS * (found - middle_found) * apart.conj()) / np.sum(_WEIGHTS * abs(apart) ** 2))
        eyes = complex(middle_found) + turn * (complex(*MEAN_FRAMING[1:]) - complex(middle))
        side = abs(turn) * MEAN_FRAMING.eyes / framing.eyes
        angle = cmath.phase(turn)
        centre = eyes + cmath.rect(side, angle) * complex(0.5 - framing.x, 0.5 - framing.y)
        return Placement(centre.real, centre.imag, side, math.degrees(angle))
