"""Find the pixels under thick strokes with round joints, for a batch of images.

A stroke is a chain of segments. A segment is drawn as a parallelogram and a vertex as a disc. Both are convex, so each
covers one span of pixels in a row. A span adds +1 at its start and -1 after its end; the cumulative sum over x then is
the number of shapes over each pixel. The result has exactly the pixels that PIL's ImageDraw draws as lines and
ellipses, because these define the distribution of freeform holes. This is why corners and radii are whole pixels, and
why some halves are rounded up and others down.
"""

import functools
import math
from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

WIDEST = 48
"""Exclusive upper limit of the width of a stroke, in pixels."""
_FAR = 1e4
"""A coordinate outside every image. Its product with a row number is still exact to halves in float32."""


_SPANS_AT_ONCE = 2**22
"""Maximum number of spans in one step on a GPU, to limit the memory (a few dozen bytes per span)."""
_SPANS_AT_ONCE_CPU = 2**17
"""Maximum number of spans in one step on a CPU: as many as fit into its cache."""
_ROWS_STEP = 32
"""`_Items` are grouped by their height in rows, rounded up to a multiple of this number."""


class Strokes(NamedTuple):
    """Up to K strokes for each of n images. A stroke has up to V vertices, so up to V - 1 segments.

    Missing strokes and vertices are padded, so that tensor shapes are fixed.
    """

    x: Tensor
    """[n, K, V] float: x coordinates of the vertices, whole numbers from 0 to size."""
    y: Tensor
    """[n, K, V] float: y coordinates of the vertices."""
    segments: Tensor
    """[n, K]: the number of segments of each stroke; 0 for padding, where there is no stroke."""
    width: Tensor
    """[n, K] float: the width of each stroke, in whole pixels."""


class _Items(NamedTuple):
    """M items to draw. An item is a vertex of a stroke and the segment that starts there. All fields have shape [M]."""

    image: Tensor
    x: Tensor
    y: Tensor
    dx: Tensor
    dy: Tensor
    width: Tensor
    drawn: Tensor
    leaves: Tensor
    """Whether a segment starts at the vertex: False at the last vertex of a stroke, and if the length would be zero."""


def covered(strokes: Strokes, size: int, *, longest: float = math.inf, compact: bool | None = None) -> Tensor:
    """Return [n, size, size] bool: True for pixels under any stroke.

    longest: upper limit of the length of a segment, so that fewer rows have to be processed.
    compact: whether to remove the padding first. The result is the same, but this waits for the device. By default, the
    padding is removed only on a CPU.
    """
    n, items = strokes.x.shape[0], _items(strokes)
    compact = items.x.device.type == "cpu" if compact is None else compact
    # All rows are in one line, so a span that reaches the end of its row ends at the start of the next row.
    steps = torch.zeros(n, size**2 + 1, dtype=torch.int32, device=items.x.device)
    if compact:
        for part, rows in _by_height(_Items(*(values[items.drawn] for values in items)), size):
            _add_spans(steps, part, size, rows)
    else:
        rows = int(min(size, longest + 2 + WIDEST))
        for part in _split(items, max(1, _SPANS_AT_ONCE // rows)):
            _add_spans(steps, part, size, rows)
    return (steps.cumsum(1, dtype=torch.int32)[:, :-1] > 0).view(n, size, size)


def least_covered(strokes: Strokes, size: int) -> Tensor:
    """Return a lower limit of the number of pixels under the strokes of each image, [n]: those of its largest disc.

    This is much faster than to draw the strokes.
    """
    n, _, vertices = strokes.x.shape
    drawn = torch.arange(vertices, device=strokes.x.device) <= strokes.segments[:, :, None]
    radius = strokes.width.div(2, rounding_mode="floor") * (strokes.segments > 0)
    # The index of a vertex in the table of pixels, whose shape is [radius, y, x].
    index = ((radius[:, :, None] * (size + 1) + strokes.y) * (size + 1) + strokes.x).int()
    pixels = _pixels_under_discs(size, strokes.x.device).view(-1).index_select(0, index.view(-1)).view(index.shape)
    return torch.where(drawn, pixels, 0).view(n, -1).amax(1) if pixels.numel() else pixels.new_zeros(n)


@functools.lru_cache(maxsize=4)
def _pixels_under_discs(size: int, device: torch.device) -> Tensor:
    """Count the pixels of an image under a disc, for each radius and centre (y, x): int32 [25, size + 1, size + 1]."""
    at = torch.arange(size + 1, device=device)
    half = _disc_halves(device)
    v = (at[:size] - at[:, None]).abs().clamp(max=half.shape[1] - 1)  # [y, row]
    reach = half[:, v][..., None]  # [radius, y, row, 1]
    spans = (at + 1 + reach).clamp(max=size) - (at - reach).clamp(min=0)  # [radius, y, row, x]
    return spans.clamp(min=0).sum(2).int()


def _split(items: _Items, sizes: int | list[int]) -> list[_Items]:
    return [_Items(*part) for part in zip(*(values.split(sizes) for values in items), strict=True)]


def _by_height(items: _Items, size: int) -> Iterator[tuple[_Items, int]]:
    """Yield items of similar height together, and the number of rows that they need.

    Within a height, items stay in the order of their images, for caching.
    """
    # An item covers the rows of its segment, half a width at both ends, and one more row for rounded corners.
    steps = (items.dy.abs() + items.width + 2).clamp(max=size).div(_ROWS_STEP).ceil().long()
    order = steps.argsort(stable=True)
    counts = steps.bincount().tolist()
    for step, same in enumerate(_split(_Items(*(values[order] for values in items)), counts)):
        rows = min(size, step * _ROWS_STEP)
        for part in _split(same, max(1, _SPANS_AT_ONCE_CPU // max(1, rows))) if len(same.x) else []:
            yield part, rows


def _add_spans(steps: Tensor, items: _Items, size: int, rows: int) -> None:
    """In each row, add +1 to steps, [n, size^2 + 1], where the span of an item starts, and -1 after the span's end."""
    device = items.x.device
    top = torch.minimum(items.y, items.y + items.dy) - items.width.div(2, rounding_mode="floor")
    top = top.clamp(0, size - rows)
    row = torch.arange(rows, device=device, dtype=torch.int32) + top.int()[:, None]
    above = row - items.y.int()[:, None]
    # The disc and the segment overlap, so one span covers both; any extra pixels are under the disc at the other end.
    disc_start, disc_end = _disc(items, above)
    start, end = _parallelogram(items, above.to(items.x.dtype))
    start = torch.minimum(start, disc_start).clamp_(0, size)
    end = torch.maximum(end, disc_end).clamp_(max=size)
    end = torch.maximum(end, start)  # an empty span adds +1 and -1 at the same place
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
    """Return the span of each item's disc in each row: its first pixel, and the pixel after its last, both [M, rows].

    In rows outside the disc, the span is empty.
    """
    half = _disc_halves(above.device)
    which = torch.where(items.drawn, items.width.div(2, rounding_mode="floor"), 0).int()
    cell = above.abs().clamp_(max=half.shape[1] - 1).add_(which[:, None] * half.shape[1])
    reach = half.view(-1).index_select(0, cell.view(-1)).view_as(cell)
    return items.x[:, None] - reach, (items.x + 1)[:, None] + reach


def _disc_halves(device: torch.device) -> Tensor:
    """Return how far discs extend from their centres: an entry for each radius and each row v from the centre.

    A disc of radius r extends to x = sqrt(r^2 - v^2), rounded. It also covers every x for which sqrt(r^2 - x^2) is
    rounded to v. The last row is outside all discs.
    """
    radius = torch.arange(WIDEST // 2 + 1, device=device, dtype=torch.float32)[:, None]
    v = torch.arange(WIDEST // 2 + 2, device=device, dtype=torch.float32)
    half = torch.maximum((radius**2 - v**2).sqrt().round(), (radius**2 - (v - 0.5) ** 2).sqrt().floor())
    return torch.where((v <= radius) & (radius > 0), half, -_FAR)


def _parallelogram(items: _Items, above: Tensor) -> tuple[Tensor, Tensor]:
    """Return the span of each item's segment in each row: its first pixel and the pixel after its last, both [M, rows].

    In rows outside the segment, and for items without a segment, the span is empty.
    """
    dx, dy = items.dx, items.dy
    length = torch.hypot(dx, dy).clamp(min=1)
    # Two corners at the vertex, half a width away in whole pixels; the two halves of an even width differ by one.
    half, other = items.width.div(2, rounding_mode="floor"), (items.width - 1).div(2, rounding_mode="floor")
    corner = -_half_down(other * dy / length), _half_up(half * dx / length)
    opposite = _half_down(half * dy / length), -_half_up(other * dx / length)
    far_corner = corner[0] + dx, corner[1] + dy
    # The parallelogram is the intersection of the strips between its long sides and between its short sides.
    along = _strip((dx, dy), corner, opposite)
    along = along._replace(right=torch.where(items.leaves, along.right, along.left - _FAR))
    across = _strip((opposite[0] - corner[0], opposite[1] - corner[1]), corner, far_corner)
    # Pixels from the left line, rounded with halves up, to the right line, rounded with halves down.
    starts = [(strip.left + items.x + 0.5)[:, None] + strip.slope[:, None] * above for strip in (along, across)]
    ends = [start + (strip.right - strip.left)[:, None] for strip, start in zip((along, across), starts, strict=True)]
    start, end = torch.maximum(*starts).floor_(), torch.minimum(*ends).ceil_()
    # Push an empty span so far out that its union with a disc is the disc; where() would take ten times as long.
    empty = (start - end).add_(1).clamp_(min=0).mul_(_FAR)
    return start.add_(empty), end.sub_(empty)


class _Strip(NamedTuple):
    """A strip: the points (x, v) with left + slope * v <= x <= right + slope * v, where v is the row."""

    slope: Tensor
    left: Tensor
    right: Tensor


def _strip(direction: tuple[Tensor, Tensor], one: tuple[Tensor, Tensor], other: tuple[Tensor, Tensor]) -> _Strip:
    """Return the strip between two parallel lines with this direction, through the points `one` and `other` (x, y)."""
    slope = direction[0] / direction[1]
    first, second = one[0] - slope * one[1], other[0] - slope * other[1]
    # Horizontal lines: all x in the rows between the points, and none half a row outside.
    flat = direction[1] == 0
    return _Strip(
        slope=torch.where(flat, _FAR, slope),
        left=torch.where(flat, -_FAR * (torch.maximum(one[1], other[1]) + 0.5), torch.minimum(first, second)),
        right=torch.where(flat, -_FAR * (torch.minimum(one[1], other[1]) - 0.5), torch.maximum(first, second)),
    )


def _half_up(values: Tensor) -> Tensor:
    """Round to the nearest whole number, with halves away from zero."""
    return values.sign() * (values.abs() + 0.5).floor()


def _half_down(values: Tensor) -> Tensor:
    """Round to the nearest whole number, with halves towards zero."""
    return values.sign() * (values.abs() - 0.5).ceil()
