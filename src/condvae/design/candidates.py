"""The candidates for the next scan: windows of an image at all locations that can be scanned."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from condvae.runtime.checks import check_whole


@dataclass(frozen=True, kw_only=True, eq=False)
class Candidates:
    """L windows that a sensor can scan. Windows may overlap, and some may be equal."""

    windows: Tensor
    """[L, 1, H, W] bool: for each of L windows, True for the pixels inside the window."""
    corners: Tensor | None = None
    """[L, 2] int64: row and column of each window's upper left pixel. None if the windows are not squares."""
    side: int | None = None
    """Side of each window in pixels. None if the windows are not squares."""
    shape: tuple[int, int] | None = None
    """Rows and columns of the grid, if the windows form one in row-major order. Heat maps are drawn on this grid."""

    def __post_init__(self) -> None:
        windows = self.windows
        if not isinstance(windows, Tensor) or windows.dtype != torch.bool:
            kind = windows.dtype if isinstance(windows, Tensor) else type(windows).__name__
            raise ValueError(f"the windows are {kind}, expected a bool tensor that is True for pixels inside a window")
        if windows.ndim != 4 or windows.shape[1] != 1 or windows.shape[2] != windows.shape[3] or not len(windows):
            raise ValueError(f"the windows have shape {tuple(windows.shape)}, expected [windows, 1, size, size]")
        empty = ~windows.flatten(1).any(dim=1)
        if empty.any():
            raise ValueError(f"window {int(empty.nonzero()[0])} contains no pixels: remove it")
        if self.corners is not None:
            _check_corners(self.corners)
            if len(self.corners) != len(windows):
                raise ValueError(
                    f"there are {len(self.corners)} corners for {len(windows)} windows: give one corner per window"
                )
            outside = ((self.corners < 0) | (self.corners >= windows.shape[-1])).any(dim=1)
            if outside.any():
                raise ValueError(f"the corner of window {int(outside.nonzero()[0])} lies outside the image")
        if self.shape is not None and self.shape[0] * self.shape[1] != len(windows):
            raise ValueError(f"{len(windows)} windows cannot form a grid of {self.shape[0]} x {self.shape[1]}")

    @classmethod
    def grid(cls, size: int, *, side: int, points: int = 17) -> "Candidates":
        """Make a grid of points x points square windows, evenly spaced and wholly inside a size x size image."""
        _check_sizes(size, side)
        check_whole(points, "the number of points along a side", least=2)
        if (points * size) ** 2 > _MOST:
            raise ValueError(
                f"{points} x {points} windows of a {size} x {size} image need too much memory: give fewer points"
            )
        along = [round(i * (size - side) / (points - 1)) for i in range(points)]
        found = cls.at(size, [(row, column) for row in along for column in along], side=side)
        return cls(windows=found.windows, corners=found.corners, side=side, shape=(points, points))

    @classmethod
    def at(cls, size: int, corners: Sequence[tuple[int, int]] | Tensor, *, side: int) -> "Candidates":
        """Make square windows of a size x size image, given the (row, column) of their upper left pixels."""
        _check_sizes(size, side)
        try:
            places = torch.as_tensor(corners, device="cpu")
        except (TypeError, ValueError, RuntimeError) as error:  # torch raises different errors for different mistakes
            raise ValueError(f"the corners cannot be read, expected {_PAIRS}") from error
        _check_corners(places)
        places = places.long()
        outside = ((places < 0) | (places > size - side)).any(dim=1)
        if outside.any():
            i = int(outside.nonzero()[0])
            row, column = places[i].tolist()
            raise ValueError(
                f"window {i} ({side} x {side} pixels) at row {row}, column {column} does not fit into the "
                f"{size} x {size} image: give rows and columns from 0 to {size - side}"
            )
        pixels = torch.arange(size)
        rows, columns = ((pixels >= c[:, None]) & (pixels < c[:, None] + side) for c in places.unbind(1))
        return cls(windows=(rows[:, :, None] & columns[:, None, :])[:, None], corners=places, side=side)

    def __len__(self) -> int:
        return len(self.windows)

    @property
    def size(self) -> int:
        """Side of the image in pixels."""
        return int(self.windows.shape[-1])

    @property
    def centres(self) -> Tensor:
        """[L, 2] float32: the centre of each window, as the mean row and the mean column of its pixels."""
        shown = self.windows[:, 0].float()
        pixels = torch.arange(self.size, dtype=torch.float32, device=shown.device)
        sums = torch.stack(((shown.sum(dim=2) * pixels).sum(dim=1), (shown.sum(dim=1) * pixels).sum(dim=1)), dim=1)
        return sums / shown.sum(dim=(1, 2))[:, None]

    @property
    def scans_for_all(self) -> int:
        """The smallest number of scans that can cover all windows of a grid.

        If the windows do not form a grid, this number is unknown, and the value is 1.
        """
        if self.shape is None or self.corners is None or self.side is None:
            return 1
        count, seen = 0, 0
        starts = sorted(set(self.corners[:, 0].tolist()))
        for i, start in enumerate(starts):  # greedy cover along one side: take the last window that leaves no gap
            if i + 1 == len(starts) or starts[i + 1] > seen:
                count, seen = count + 1, start + self.side
        return count**2

    def new(self, known: Tensor) -> Tensor:
        """Return [B, L] bool: whether each window contains a hidden pixel of each image. known: [B, 1, H, W] bool."""
        hidden, windows = (~known).flatten(1).float(), self.windows.flatten(1).to(known.device).float()
        return hidden @ windows.T > 0.5  # counts of pixels: exact at any matrix-product precision

    def to(self, device: torch.device | str) -> "Candidates":
        """Return a copy on another device."""
        corners = None if self.corners is None else self.corners.to(device)
        return Candidates(windows=self.windows.to(device), corners=corners, side=self.side, shape=self.shape)


_MOST = 2**30
"""The largest total number of pixels in the masks of all windows of a grid. A pixel needs one byte."""
_PAIRS = "whole numbers of shape [L, 2]: a row and a column for each window"


def _check_corners(corners: Tensor) -> None:
    found = f"{corners.dtype} of shape {tuple(corners.shape)}" if isinstance(corners, Tensor) else f"{corners!r:.50}"
    if not isinstance(corners, Tensor) or corners.ndim != 2 or corners.shape[1] != 2 or not len(corners):
        raise ValueError(f"the corners of the windows are {found}, expected {_PAIRS}")
    if corners.is_floating_point() or corners.dtype == torch.bool:
        raise ValueError(f"the corners of the windows are {found}, expected {_PAIRS}")


def _check_sizes(size: int, side: int) -> None:
    check_whole(size, "the image's size", least=1)
    check_whole(side, "the side of a window", least=1)
    if side > size:
        raise ValueError(f"{side} x {side} windows do not fit into {size} x {size} images: give a smaller side")
