"""Blend a pasted completion with the picture around the hole, so that the edge of the hole does not show.

An enlarged completion is smoother than the picture, and its colours differ a little at the edge of the hole. Outside
the hole, the difference between the two is known. It is continued into the hole and added to the completion there. At
the distance d from the edge, the added value is a mean over a region about as wide as d, so that texture at the edge is
not drawn out into streaks. Beyond about two pixels at the model's image size, nothing is added.
"""

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
from PIL import Image

from condvae.images.holes import Flags
from condvae.images.squares import Region
from condvae.runtime.pixels import PixelArray

_REACH = 2  # how far from the edge of the hole known pixels are used, in pixels at the model's image size
# Large pictures are divided into cells of several pixels, to bound time and memory. These are the maximum numbers of
# cells along the region and, about, along a pixel at the model's image size.
_CELLS_PER_SIDE, _CELLS_PER_PIXEL = 1024, 8
_ROWS = 128  # rows of cells or pixels that are converted to larger numbers at a time

_Field = npt.NDArray[np.float32]


def blend_edges(
    page: PixelArray, hole: Flags, hidden: Flags, completed: Callable[[Region], PixelArray], *, scale: float
) -> None:
    """Replace the pixels of a hole in the page by a completion that is blended at the edges of the hole.

    page: [H, W] or [H, W, C] uint8, which is changed. hole: [H, W] bool, the hidden pixels that were completed.
    hidden: [H, W] bool, all hidden pixels; the page's colours at hidden pixels are not used.
    completed: a function that returns the completion on the pixels of a region of the page, [h, w, C] uint8. It is
    called for the hole and some pixels around it, so the completion is continued there, too.
    scale: the width of a pixel at the model's image size, in pixels of the page.
    """
    if not hole.any():
        return
    reach = math.ceil(_REACH * scale)
    top, bottom = _span(hole, 1, reach)
    left, right = _span(hole, 0, reach)
    completion = completed(Region(left, top, right, bottom))
    region = (page[:, :, None] if page.ndim == 2 else page)[top:bottom, left:right]
    known, hole = ~hidden[top:bottom, left:right], hole[top:bottom, left:right]
    cell = max(-(-max(hole.shape) // _CELLS_PER_SIDE), int(scale / _CELLS_PER_PIXEL))
    levels = round(math.log2(scale / cell))  # so that the largest cells are about as wide as `scale`
    if levels < 1 or not known.any():
        region[hole] = completion[hole]
        return
    _add(region, completion, hole, _continued(*_differences(region, completion, known, cell), levels), cell)


def _span(hole: Flags, across: int, reach: int) -> tuple[int, int]:
    """Return where the rows (across=1) or columns (across=0) of the hole start and end, extended by `reach`."""
    places = np.flatnonzero(hole.any(axis=across))
    return max(int(places[0]) - reach, 0), min(int(places[-1]) + 1 + reach, hole.shape[1 - across])


def _add(region: PixelArray, completion: PixelArray, hole: Flags, field: _Field, cell: int) -> None:
    """Write completion + field into the hole of the region, with the field enlarged from cells to pixels."""
    bands = [Image.fromarray(np.ascontiguousarray(field[:, :, channel])) for channel in range(field.shape[2])]
    height, width = hole.shape
    for top in range(0, height, _ROWS):
        bottom = min(top + _ROWS, height)
        inside = hole[top:bottom]
        if not inside.any():
            continue
        box = (0, top / cell, width / cell, bottom / cell)
        size = (width, bottom - top)
        new = np.stack([np.asarray(band.resize(size, Image.Resampling.BILINEAR, box=box)) for band in bands], axis=2)
        new += completion[top:bottom]
        np.rint(new, out=new)
        np.clip(new, 0, 255, out=new)
        np.copyto(region[top:bottom], new.astype(np.uint8), where=inside[:, :, None])


def _differences(picture: PixelArray, completion: PixelArray, known: Flags, cell: int) -> tuple[_Field, _Field]:
    """Return the mean of picture - completion in each cell, with 0 at hidden pixels, and the share of known pixels.

    The shapes are [h, w, C] and [h, w, 1]. Cells have cell x cell pixels, less at the right and bottom edge.
    """
    sums, shares = [], []
    for top in range(0, len(known), _ROWS * cell):
        rows = slice(top, top + _ROWS * cell)
        seen = known[rows, :, None].astype(np.int16)
        difference = np.subtract(picture[rows], completion[rows], dtype=np.int16)
        difference *= seen
        sums.append(_cell_sums(difference, cell))
        shares.append(_cell_sums(seen, cell))
    area = np.float32(cell**2)
    return np.concatenate(sums) / area, np.concatenate(shares) / area


def _cell_sums(values: npt.NDArray[np.int16], cell: int) -> _Field:
    """Return the sums of values [H, W, C] over cells of cell x cell pixels."""
    rows = values[::cell].astype(np.int32)
    for i in range(1, cell):
        part = values[i::cell]
        rows[: len(part)] += part
    sums = rows[:, ::cell].astype(np.float32)
    for i in range(1, cell):
        column = rows[:, i::cell]
        sums[:, : column.shape[1]] += column
    return sums


def _continued(sums: _Field, weights: _Field, levels: int) -> _Field:
    """Return the weighted mean at each cell, continued to cells without known pixels (push-pull).

    sums: [h, w, C], weighted values; weights: [h, w, 1]. A cell with a small weight takes its value from the next
    level, which has cells of twice the size. At the last level, cells without known pixels get 0.
    """
    means = np.divide(sums, weights, out=np.zeros_like(sums), where=weights > 0)
    weights = np.minimum(weights, 1)
    means *= weights
    if levels > 0:
        coarse = _continued(_halved(means), _halved(weights), levels - 1)
        means += (1 - weights) * _doubled(coarse)[: len(means), : means.shape[1]]
    return means


def _halved(field: _Field) -> _Field:
    """Return a field [h, w, C] for cells of twice the size; a new cell is a weighted sum of the cells around it."""
    for axis in (0, 1):
        field = np.swapaxes(field, 0, axis)
        length = len(field)
        padded = np.pad(field, ((1, 1 + length % 2 + 1), (0, 0), (0, 0)))[: 2 * (-(-length // 2)) + 2]
        inner, outer = padded[1:-1:2] + padded[2::2], padded[:-2:2] + padded[3::2]
        field = np.swapaxes((3 * inner + outer) / 4, 0, axis)
    return field


def _doubled(field: _Field) -> _Field:
    """Return a field [h, w, C] for cells of half the size, [2h, 2w, C], by linear interpolation."""
    for axis in (0, 1):
        field = np.swapaxes(field, 0, axis)
        padded = np.pad(field, ((1, 1), (0, 0), (0, 0)), mode="edge")
        finer = np.empty((2 * len(field), *field.shape[1:]), dtype=np.float32)
        finer[0::2] = 0.75 * field + 0.25 * padded[:-2]
        finer[1::2] = 0.75 * field + 0.25 * padded[2:]
        field = np.swapaxes(finer, 0, axis)
    return field
