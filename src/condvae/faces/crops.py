"""Cut squares out of a picture, at any place, size and angle."""

from typing import TypeAlias

import torch
import torch.nn.functional as F
from torch import Tensor

Squares: TypeAlias = Tensor
"""[N, 4]: for each square the x and y of its centre, its side, and by how many radians it is turned clockwise."""


class CropSource:
    """A picture from which squares can be cut. It is kept at several sizes, each half as large as the one before."""

    def __init__(self, picture: Tensor) -> None:
        """picture: [C, H, W]."""
        self._sizes = [picture[None]]
        while min(self._sizes[-1].shape[-2:]) > 1:
            self._sizes.append(F.avg_pool2d(self._sizes[-1], 2, ceil_mode=True))

    def cut(self, squares: Squares, size: int) -> Tensor:
        """Return squares of the picture as [N, C, size, size]. Beyond its edge, the picture repeats its last pixels."""
        made = torch.empty(len(squares), self._sizes[0].shape[1], size, size)
        # Of the pictures with no more than `size` pixels in a side of the square, take the largest, or nearly so.
        halvings = (squares[:, 2] / size).clamp(min=1).log2().round().long().clamp(max=len(self._sizes) - 1)
        for halved in halvings.unique().tolist():
            chosen = halvings == halved
            made[chosen] = self._sampled(self._sizes[halved], squares[chosen], 2.0**halved, size)
        return made

    @staticmethod
    def _sampled(picture: Tensor, squares: Squares, scale: float, size: int) -> Tensor:
        x, y, side, angle = (column[:, None, None] for column in squares.T)
        at = (torch.arange(size) + 0.5) / size - 0.5
        u, v = at[None, None, :], at[None, :, None]
        columns = (x + side * (angle.cos() * u - angle.sin() * v)) / scale
        rows = (y + side * (angle.sin() * u + angle.cos() * v)) / scale
        height, width = picture.shape[-2:]
        grid = torch.stack([2 * columns / width - 1, 2 * rows / height - 1], dim=-1)
        # One picture for all squares: they lie below each other in one tall output.
        rows_of_all = grid.float().flatten(0, 1)[None]
        tall: Tensor = F.grid_sample(picture, rows_of_all, padding_mode="border", align_corners=False)
        return tall[0].reshape(-1, len(squares), size, size).transpose(0, 1)


def squares_of(boxes: Tensor) -> Squares:
    """Convert square boxes [N, 4] (left, top, right, bottom) to upright squares."""
    centre = (boxes[:, :2] + boxes[:, 2:]) / 2
    return torch.cat([centre, boxes[:, 2:3] - boxes[:, :1], torch.zeros(len(boxes), 1)], dim=1)


def in_picture(points: Tensor, squares: Squares) -> Tensor:
    """Convert points [N, P, 2], x and y as shares of the side of their square, to pixels of the picture."""
    u, v = (points - 0.5).unbind(-1)
    x, y, side, angle = (column[:, None] for column in squares.T)
    return torch.stack(
        [x + side * (angle.cos() * u - angle.sin() * v), y + side * (angle.sin() * u + angle.cos() * v)], dim=-1
    )
