"""Where the square that a model sees lies in a picture."""

from typing import NamedTuple


class Placement(NamedTuple):
    """Where the square that a model sees lies in a picture. The square may be turned, and may reach over the edge."""

    x: float
    """Centre of the square, in pixels of the upright picture: the pixel in column i covers i to i + 1."""
    y: float
    side: float
    """Width of the square, in pixels of the picture."""
    degrees: float = 0.0
    """How far the square is turned clockwise, as seen on the screen."""
