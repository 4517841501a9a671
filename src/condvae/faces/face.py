"""A face in a picture, and the square around it in which a model expects the eyes at a fixed place."""

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from condvae.images.placement import Placement


class Framing(NamedTuple):
    """Where the eyes are in the square that a model sees, as shares of the square's side."""

    eyes: float
    """Distance of the eyes."""
    x: float
    """Middle between the eyes, from the left edge of the square."""
    y: float
    """Middle between the eyes, from the top edge of the square."""


class Face(NamedTuple):
    """A face that was found in a picture. Coordinates are in pixels: the pixel in column i covers i to i + 1."""

    box: tuple[float, float, float, float]
    """x and y of the top left corner, width and height. The box may reach over the edge of the picture."""
    landmarks: npt.NDArray[np.float64]
    """[5, 2]: x and y of the left eye, right eye, nose, left and right corner of the mouth, as seen in the picture."""
    score: float
    """Probability that this is a face."""

    def placement(self, framing: Framing) -> Placement:
        """Return the square in which the eyes of this face are level and where `framing` says."""
        (left_x, left_y), (right_x, right_y) = self.landmarks[:2].tolist()
        across, down = right_x - left_x, right_y - left_y
        angle = math.atan2(down, across)
        side = math.hypot(across, down) / framing.eyes
        # The middle of the square, seen from the middle of the eyes, along the axes of the turned square.
        along, below = (0.5 - framing.x) * side, (0.5 - framing.y) * side
        return Placement(
            x=(left_x + right_x) / 2 + along * math.cos(angle) - below * math.sin(angle),
            y=(left_y + right_y) / 2 + along * math.sin(angle) + below * math.cos(angle),
            side=side,
            degrees=math.degrees(angle),
        )
