"""Boxes [N, 4] around faces: left, top, right and bottom edge, in pixels of the picture."""

from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

Floats: TypeAlias = npt.NDArray[np.float64]

Overlap: TypeAlias = Literal["union", "smaller"]
"""Two boxes overlap by the area of their intersection, as a share of their union, or of the smaller box."""


def overlaps(box: Floats, others: Floats, share_of: Overlap = "union") -> Floats:
    """Return how much one box [4] overlaps each of some others [N, 4], from 0 to 1."""
    corner, far = np.maximum(box[:2], others[:, :2]), np.minimum(box[2:], others[:, 2:])
    shared = np.prod(np.clip(far - corner, 0, None), axis=1)
    area, areas = np.prod(box[2:] - box[:2]), np.prod(others[:, 2:] - others[:, :2], axis=1)
    whole = area + areas - shared if share_of == "union" else np.minimum(area, areas)
    result: Floats = np.divide(shared, whole, out=np.zeros_like(shared), where=whole > 0)
    return result


def distinct(boxes: Floats, scores: Floats, most: float, share_of: Overlap = "union") -> npt.NDArray[np.intp]:
    """Non-maximum suppression: drop boxes that overlap one with a higher score by more than `most`.

    Return the indices of the other boxes, from the highest score to the lowest. Dropped boxes drop no others.
    """
    left = np.argsort(-scores, kind="stable")
    kept = []
    while len(left):
        kept.append(left[0])
        left = left[1:][overlaps(boxes[left[0]], boxes[left[1:]], share_of) <= most]
    return np.array(kept, dtype=np.intp)


def moved(boxes: Floats, by: Floats) -> Floats:
    """Move the four edges of each box by a share [N, 4] of the box's width and height."""
    size = boxes[:, 2:] - boxes[:, :2]
    result: Floats = boxes + by * np.concatenate([size, size], axis=1)
    return result


def squared(boxes: Floats) -> Floats:
    """Return the squares around the centres of boxes whose side is the longer side of the box."""
    half = (boxes[:, 2:] - boxes[:, :2]).max(axis=1, keepdims=True) / 2
    centre = (boxes[:, :2] + boxes[:, 2:]) / 2
    return np.concatenate([centre - half, centre + half], axis=1)
