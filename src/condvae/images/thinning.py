"""Thin the strokes of a drawing to lines one pixel wide, and remove specks. Strokes are flags [H, W]: True is ink."""

import numpy as np
import numpy.typing as npt
import torch
from torch.nn import functional as F

from condvae.images.holes import Flags


def centre_lines(strokes: Flags, *, widest: int) -> Flags:
    """Return the centre lines of strokes, one pixel wide. Areas wider than `widest` pixels become their outlines."""
    areas = opened(strokes, widest + 1)
    inside = ~any_in_squares(np.pad(~areas, 1), 3)
    return thinned(strokes & ~inside)


def opened(strokes: Flags, side: int) -> Flags:
    """Return the parts of the strokes into which a square of `side` x `side` pixels fits."""
    if side > min(strokes.shape):
        return np.zeros_like(strokes)
    fits = ~any_in_squares(~strokes, side)
    return any_in_squares(np.pad(fits, side - 1), side)


def thinned(strokes: Flags) -> Flags:
    """Thin strokes to lines one pixel wide that are connected in the same way.

    Z. Guo, R. W. Hall, "Parallel thinning with two-subiteration algorithms", 1989.
    """
    lines = np.pad(strokes, 1)
    while True:
        before = int(lines.sum())
        for upper_right in (True, False):
            lines[1:-1, 1:-1] &= ~_removable(lines, upper_right=upper_right)
        if int(lines.sum()) == before:
            return lines[1:-1, 1:-1]


def without_specks(strokes: Flags, least: int) -> Flags:
    """Remove connected strokes that are smaller than about `least` pixels, both in width and in height."""
    cell = max(1, least // 4)  # sizes are measured in cells of this many pixels
    height, width = strokes.shape
    padded = F.pad(torch.from_numpy(strokes)[None].float(), (0, -width % cell, 0, -height % cell))
    inside = F.max_pool2d(padded, cell) > 0
    y, x = torch.meshgrid(*(torch.arange(n).float() for n in inside.shape[1:]), indexing="ij")
    # The farthest x and y in each direction that a cell can reach within its stroke in as many steps as `least` has.
    far, steps = torch.stack([x, -x, y, -y]), -(-least // cell)
    for _ in range(steps):
        far = F.max_pool2d(far.masked_fill(~inside, -torch.inf), 3, stride=1, padding=1)
    large = inside & (torch.maximum(far[0] + far[1], far[2] + far[3]) + 1 >= steps)
    kept: Flags = large[0].repeat_interleave(cell, 0).repeat_interleave(cell, 1)[:height, :width].numpy()
    return strokes & kept


def _removable(lines: Flags, *, upper_right: bool) -> Flags:
    """Return the pixels inside the frame that one half of a thinning step removes: [H - 2, W - 2] for [H, W]."""
    height, width = lines.shape

    def at(dy: int, dx: int) -> Flags:
        return lines[1 + dy : height - 1 + dy, 1 + dx : width - 1 + dx]

    # The eight neighbours, clockwise from the one above.
    ring = [at(*step) for step in ((-1, 0), (-1, 1), (0, 1), (1, 1), (1, 0), (1, -1), (0, -1), (-1, -1))]
    n, ne, e, se, s, sw, w, nw = ring
    crossings = sum((~ring[k] & (ring[k + 1] | ring[(k + 2) % 8])).astype(np.int8) for k in range(0, 8, 2))
    pairs = [(ring[k] | ring[(k + 1) % 8]).astype(np.int8) for k in range(8)]
    neighbours: npt.NDArray[np.int8] = np.minimum(sum(pairs[1::2]), sum(pairs[0::2]))
    kept = ((n | ne | ~se) & e) if upper_right else ((s | sw | ~nw) & w)
    removable: Flags = at(0, 0) & (crossings == 1) & (neighbours >= 2) & (neighbours <= 3) & ~kept
    return removable


def any_in_squares(flags: Flags, side: int) -> Flags:
    """Return [H - side + 1, W - side + 1]: whether any flag is set in each square of `side` x `side` pixels."""
    # Counts of the flags above and to the left of each corner of a pixel, whose differences are counts in squares.
    counts = np.pad(flags, ((1, 0), (1, 0))).cumsum(0, dtype=np.int32).cumsum(1, dtype=np.int32)
    rows = counts[side:] - counts[:-side]
    found: Flags = rows[:, side:] != rows[:, :-side]
    return found
