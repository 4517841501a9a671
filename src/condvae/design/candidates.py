"""Where one could look next: windows of an image, one of which is scanned at a time."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from condvae.runtime.checks import check_whole


@dataclass(frozen=True, kw_only=True, eq=False)
class Candidates:
    """L windows that a sensor can show; they may overlap, and some may be the same."""

    windows: Tensor
    """[L, 1, H, W] bool: the pixels that each shows."""
    corners: Tensor | None = None
    """[L, 2] int64: row and column of the upper left pixel; None where windows are no squares."""
    side: int | None = None
    """Pixels per side of a window."""
    shape: tuple[int, int] | None = None
    """Rows and columns of the grid that the windows come from row by row, if they do: what maps are drawn by."""

    def __post_init__(self) -> None:
        windows = self.windows
        if not isinstance(windows, Tensor) or windows.dtype != torch.bool:
            kind = windows.dtype if isinstance(windows, Tensor) else type(windows).__name__
            raise ValueError(f"the windows are {kind}, expected a tensor of bool: True for the pixels that are shown")
        if windows.ndim != 4 or windows.shape[1] != 1 or windows.shape[2] != windows.shape[3] or not len(windows):
            raise ValueError(f"the windows have shape {tuple(windows.shape)}, expected [L, 1, size, size]")
        empty = ~windows.flatten(1).any(dim=1)
        if empty.any():
            raise ValueError(f"window {int(empty.nonzero()[0])} shows no pixel: leave it out")
        if self.corners is not None:
            _check_corners(self.corners)
            if len(self.corners) != len(windows):
                raise ValueError(
                    f"there are {len(self.corners)} corners of {len(windows)} windows: give one per window"
                )
            outside = ((self.corners < 0) | (self.corners >= windows.shape[-1])).any(dim=1)
            if outside.any():
                raise ValueError(f"the corner of window {int(outside.nonzero()[0])} is not inside the image")
        if self.shape is not None and self.shape[0] * self.shape[1] != len(windows):
            raise ValueError(
                f"there are {len(windows)} windows, which do not make a grid of {self.shape[0]} x {self.shape[1]}"
            )

    @classmethod
    def grid(cls, size: int, *, side: int, points: int = 17) -> "Candidates":
        """points x points square windows, evenly over an image of that size and wholly inside it, row by row."""
        _check_sizes(size, side)
        check_whole(points, "the number of points along a side", least=2)
        if (points * size) ** 2 > _MOST:
            raise ValueError(f"{points} x {points} windows of a {size} x {size} image are too many: give fewer points")
        along = [round(i * (size - side) / (points - 1)) for i in range(points)]
        found = cls.at(size, [(row, column) for row in along for column in along], side=side)
        return cls(windows=found.windows, corners=found.corners, side=side, shape=(points, points))

    @classmethod
    def at(cls, size: int, corners: Sequence[tuple[int, int]] | Tensor, *, side: int) -> "Candidates":
        """Square windows by (row, column) of their upper left pixels."""
        _check_sizes(size, side)
        try:
            places = torch.as_tensor(corners, device="cpu")
        except (TypeError, ValueError, RuntimeError) as error:  # torch refuses each in its own way
            raise ValueError(f"the corners cannot be read, expected {_PAIRS}") from error
        _check_corners(places)
        places = places.long()
        outside = ((places < 0) | (places > size - side)).any(dim=1)
        if outside.any():
            i = int(outside.nonzero()[0])
            row, column = places[i].tolist()
            raise ValueError(
                f"window {i} of {side} x {side} at row {row}, column {column} is not wholly inside the image of "
                f"{size} x {size}: its upper left pixel may be at 0 to {size - side}"
            )
        pixels = torch.arange(size)
        rows, columns = ((pixels >= c[:, None]) & (pixels < c[:, None] + side) for c in places.unbind(1))
        return cls(windows=(rows[:, :, None] & columns[:, None, :])[:, None], corners=places, side=side)

    def __len__(self) -> int:
        return len(self.windows)

    @property
    def size(self) -> int:
        """Pixels per side of the image."""
        return int(self.windows.shape[-1])

    @property
    def centres(self) -> Tensor:
        """[L, 2] float32: mean row and mean column of each window's pixels."""
        shown = self.windows[:, 0].float()
        pixels = torch.arange(self.size, dtype=torch.float32, device=shown.device)
        sums = torch.stack(((shown.sum(dim=2) * pixels).sum(dim=1), (shown.sum(dim=1) * pixels).sum(dim=1)), dim=1)
        return sums / shown.sum(dim=(1, 2))[:, None]

    @property
    def scans_for_all(self) -> int:
        """How many scans can show all that can be seen, at the least: before that many, there is always more to see.

        Of windows that are no grid, 1: nobody has counted.
        """
        if self.shape is None or self.corners is None or self.side is None:
            return 1
        count, seen = 0, 0
        starts = sorted(set(self.corners[:, 0].tolist()))
        for i, start in enumerate(starts):  # of windows along a side: as far on as leaves nothing out
            if i + 1 == len(starts) or starts[i + 1] > seen:
                count, seen = count + 1, start + self.side
        return count**2

    def new(self, known: Tensor) -> Tensor:
        """[B, L] bool: which would show a pixel that is not in known [B, 1, H, W]."""
        hidden, windows = (~known).flatten(1).float(), self.windows.flatten(1).to(known.device).float()
        return hidden @ windows.T > 0.5  # a count, exact in any precision of matrix products

    def to(self, device: torch.device | str) -> "Candidates":
        """The same on another device."""
        corners = None if self.corners is None else self.corners.to(device)
        return Candidates(windows=self.windows.to(device), corners=corners, side=self.side, shape=self.shape)


_MOST = 2**30
"""Pixels of all windows of a grid, a byte each."""
_PAIRS = "whole numbers [L, 2]: row and column of each"


def _check_corners(corners: Tensor) -> None:
    found = f"{corners.dtype} of shape {tuple(corners.shape)}" if isinstance(corners, Tensor) else f"{corners!r:.50}"
    if not isinstance(corners, Tensor) or corners.ndim != 2 or corners.shape[1] != 2 or not len(corners):
        raise ValueError(f"the corners are {found}, expected {_PAIRS}")
    if corners.is_floating_point() or corners.dtype == torch.bool:
        raise ValueError(f"the corners are {found}, expected {_PAIRS}")


def _check_sizes(size: int, side: int) -> None:
    check_whole(size, "the image's size", least=1)
    check_whole(side, "the side of a window", least=1)
    if side > size:
        raise ValueError(f"windows of {side} x {side} do not fit into images of {size} x {size}: give a smaller side")
