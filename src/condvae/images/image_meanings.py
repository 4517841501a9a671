"""What an image that is given to a model of edges can be. This file imports no torch, so that `--help` is quick."""

from typing import Literal, TypeAlias

ImageIs: TypeAlias = Literal["auto", "photo", "drawing"]
"""A photo, whose edges are found, or a drawing, whose lines are used as they are; with "auto", its pixels decide."""
