"""Thick strokes with round joints, many images at once: which pixels each stroke covers, in closed form.

A stroke is a line of segments. Every segment is a parallelogram and every vertex a disc; both are convex, so that each
covers one span of pixels in a row. Spans add +1 where they start and -1 behind their end; the running sum over x then
counts the shapes over every pixel. Pixels are those of `PIL.ImageDraw.line` and `.ellipse`, by which the distribution
of freeform holes is defined: hence corners and radii in whole pixels, and the care with halves.
"""

import math
from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

WIDEST = 48
"""Strokes are narrower than this many pixels."""
_FAR = 1e4
"""Beyond every image; float32 still counts in halves where a few hundred rows are multiplied with it."""


_SPANS_AT_ONCE = 2**22
"""Bounds the memory: a few dozen bytes for each."""
_SPANS_AT_ONCE_CPU = 2**17
"""What stays near a core."""
_ROWS_STEP = 32


class Strokes(NamedTuple):
    """K strokes in each of n images, of up to V - 1 segments: padded, so that no shape depends on what was drawn."""

    x: Tensor
    """[n, K, V] float: the vertices, whole numbers in 0..size."""
    y: Tensor
    """[n, K, V] float"""
    segments: Tensor
    """[n, K]: how many segments there are; 0: no stroke."""
    width: Tensor
    """[n, K] float: whole pixels."""


class _Items(NamedTuple):
    """A vertex and the segment that leaves it, each [M]."""

    image: Tensor
    x: Tensor
    y: Tensor
    dx: Tensor
    dy: Tensor
    width: Tensor
    drawn: Tensor
    leaves: Tensor
    """False at the last vertex of a stroke, and where a segment goes nowhere."""


def covered(strokes: Strokes, size: int, *, longest: float = math.inf, compact: bool | None = None) -> Tensor:
    """[n, size, size] bool: True under any stroke.

    longest: no segment is longer, so that fewer rows need a look. compact: look at the strokes first, to leave out the
    padding; the result is the same, but this waits for the device. None: on the CPU, where there is no wait.
    """
    n, items = strokes.x.shape[0], _items(strokes)
    compact = items.x.device.type == "cpu" if compact is None else compact
    # Row after row in one line, so that a span up to the end of a row closes at the start of the next.
    steps = torch.zeros(n, size**2 + 1, dtype=torch.int32, device=items.x.device)
    if compact:
        for part, rows in _by_height(_Items(*(values[items.drawn] for values in items)), size):
            _add_spans(steps, part, size, rows)
    else:
        rows = int(min(size, longest + 2 + WIDEST))
        for part in _split(items, max(1, _SPANS_AT_ONCE // rows)):
            _add_spans(steps, part, size, rows)
    return (steps.cumsum(1, dtype=torch.int32)[:, :-1] > 0).view(n, size, size)


def _split(items: _Items, sizes: int | list[int]) -> list[_Items]:
    return [_Items(*part) for part in zip(*(values.split(sizes) for values in items), strict=True)]


def _by_height(items: _Items, size: int) -> Iterator[tuple[_Items, int]]:
    """Items of like heights together, and how many rows they need; in the order of their images, for the caches."""
    # An item can touch its segment's rows, half a width at either end, and one more where corners are rounded.
    steps = (items.dy.abs() + items.width + 2).clamp(max=size).div(_ROWS_STEP).ceil().long()
    order = steps.argsort(stable=True)
    counts = steps.bincount().tolist()
    for step, same in enumerate(_split(_Items(*(values[order] for values in items)), counts)):
        rows = min(size, step * _ROWS_STEP)
        for part in _split(same, max(1, _SPANS_AT_ONCE_CPU // max(1, rows))) if len(same.x) else []:
            yield part, rows


def _add_spans(steps: Tensor, items: _Items, size: int, rows: int) -> None:
    """Add +1 to steps [n, size^2 + 1] where the items' spans start in each row, -1 behind their ends."""
    device = items.x.device
    top = torch.minimum(items.y, items.y + items.dy) - items.width.div(2, rounding_mode="floor")
    top = top.clamp(0, size - rows)
    row = torch.arange(rows, device=device, dtype=torch.int32) + top.int()[:, None]
    above = row - items.y.int()[:, None]
    # Disc and segment overlap, so that their hull is their union, but for pixels under the disc at the other end.
    disc_start, disc_end = _disc(items, above)
    start, end = _parallelogram(items, above.to(items.x.dtype))
    start = torch.minimum(start, disc_start).clamp_(0, size)
    end = torch.maximum(end, disc_end).clamp_(max=size)
    end = torch.maximum(end, start)  # an empty span adds and takes away in the same place
    line = row.mul_(size).add_(steps.shape[1] * items.image.int()[:, None])
    one = torch.ones((), dtype=torch.int32, device=device).expand(line.numel())
    steps.view(-1).index_add_(0, (line + start.int()).view(-1), one)
    steps.view(-1).index_add_(0, (line + end.int()).view(-1), one, alpha=-1)


def _items(strokes: Strokes) -> _Items:
    n, _, vertices = shape = strokes.x.shape
    device = strokes.x.device
    index, segments = torch.arange(vertices, device=device), strokes.segments[:, :, None]
    dx, dy = (torch.where(index < segments, F.pad(v.diff(dim=2), (0, 1)), 0.0) for v in (strokes.x, strokes.y))
    items = _Items(
        image=torch.arange(n, device=device).view(n, 1, 1).expand(shape),
        x=strokes.x,
        y=strokes.y,
        dx=dx,
        dy=dy,
        width=strokes.width[:, :, None].expand(shape),
        drawn=(index <= segments) & (segments > 0),
        leaves=(dx != 0) | (dy != 0),
    )
    return _Items(*(values.flatten() for values in items))


def _disc(items: _Items, above: Tensor) -> tuple[Tensor, Tensor]:
    """The disc's first pixel in each row, and the one behind its last, [M, rows]; far out in rows beside it.

    A disc of radius r reaches the nearest pixels to sqrt(r^2 - v^2) in row v, and all x whose nearest pixels to
    sqrt(r^2 - x^2) lie there.
    """
    radius = torch.arange(WIDEST // 2 + 1, device=above.device, dtype=items.x.dtype)[:, None]
    v = torch.arange(WIDEST // 2 + 2, device=above.device, dtype=items.x.dtype)
    half = torch.maximum((radius**2 - v**2).sqrt().round(), (radius**2 - (v - 0.5) ** 2).sqrt().floor())
    half = torch.where((v <= radius) & (radius > 0), half, -_FAR)
    which = torch.where(items.drawn, items.width.div(2, rounding_mode="floor"), 0).int()
    cell = above.abs().clamp_(max=len(v) - 1).add_(which[:, None] * len(v))
    reach = half.view(-1).index_select(0, cell.view(-1)).view_as(cell)
    return items.x[:, None] - reach, (items.x + 1)[:, None] + reach


def _parallelogram(items: _Items, above: Tensor) -> tuple[Tensor, Tensor]:
    """The segment's first pixel in each row, and the one behind its last, [M, rows]; far out if there is none."""
    dx, dy = items.dx, items.dy
    length = torch.hypot(dx, dy).clamp(min=1)
    # Two corners beside the vertex, half a width away in whole pixels; the two halves of an even width differ by one.
    half, other = items.width.div(2, rounding_mode="floor"), (items.width - 1).div(2, rounding_mode="floor")
    corner = -_half_down(other * dy / length), _half_up(half * dx / length)
    opposite = _half_down(half * dy / length), -_half_up(other * dx / length)
    far_corner = corner[0] + dx, corner[1] + dy
    # It lies in the strip between its long sides and in the one between its short sides.
    along = _strip((dx, dy), corner, opposite)
    along = along._replace(right=torch.where(items.leaves, along.right, along.left - _FAR))
    across = _strip((opposite[0] - corner[0], opposite[1] - corner[1]), corner, far_corner)
    # Pixels from the nearest to the left line, halves up, to the nearest to the right one, halves down.
    starts = [(strip.left + items.x + 0.5)[:, None] + strip.slope[:, None] * above for strip in (along, across)]
    ends = [start + (strip.right - strip.left)[:, None] for strip, start in zip((along, across), starts, strict=True)]
    start, end = torch.maximum(*starts).floor_(), torch.minimum(*ends).ceil_()
    # Where there is none, make it so empty that the hull with a disc is the disc; a where() takes ten times as long.
    empty = (start - end).add_(1).clamp_(min=0).mul_(_FAR)
    return start.add_(empty), end.sub_(empty)


class _Strip(NamedTuple):
    """left + slope * v <= x <= right + slope * v, in rows v."""

    slope: Tensor
    left: Tensor
    right: Tensor


def _strip(direction: tuple[Tensor, Tensor], one: tuple[Tensor, Tensor], other: tuple[Tensor, Tensor]) -> _Strip:
    """Between two parallel lines through points (x, y)."""
    slope = direction[0] / direction[1]
    first, second = one[0] - slope * one[1], other[0] - slope * other[1]
    # Horizontal lines: all x in the rows from one to the other, none half a row beyond.
    flat = direction[1] == 0
    return _Strip(
        slope=torch.where(flat, _FAR, slope),
        left=torch.where(flat, -_FAR * (torch.maximum(one[1], other[1]) + 0.5), torch.minimum(first, second)),
        right=torch.where(flat, -_FAR * (torch.minimum(one[1], other[1]) - 0.5), torch.maximum(first, second)),
    )


def _half_up(values: Tensor) -> Tensor:
    """The nearest whole number, halves away from zero."""
    return values.sign() * (values.abs() + 0.5).floor()


def _half_down(values: Tensor) -> Tensor:
    """The nearest whole number, halves towards zero."""
    return values.sign() * (values.abs() - 0.5).ceil()
