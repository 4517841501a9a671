"""Words by which options say what a given image is, and what of it is hidden."""
# This file imports no torch, so that `--help` is quick.

from typing import Literal, TypeAlias

ImageIs: TypeAlias = Literal["auto", "photo", "drawing"]
"""An image for a model of edges: a photo, whose edges are found, or a drawing, whose lines are used as they are; with
"auto", its pixels decide."""
FacePart: TypeAlias = Literal["eyes", "mouth", "nose", "left", "right"]
"""Both eyes with the brows, the mouth, the nose, or the half of the face that is left or right in the picture."""
