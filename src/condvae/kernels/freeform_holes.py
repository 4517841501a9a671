"""Freeform holes on a GPU: one program of the kernel draws candidate holes for one image until the hidden share fits.

Boxes and strokes have the distribution of `observe/freeform.py`, and hide the pixels that `observe/strokes.py` hides.
A hole is a bitmap of cells: a cell is a 32-bit word for 32 pixels of a row, whose bits are 1 where a pixel is hidden.
"""

# mypy: disable-error-code="no-untyped-call, untyped-decorator, no-untyped-def, import-untyped"

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from condvae.kernels.freeform_laws import Law, LawOfEach, Plan

MOST_TRIES = 300_000
"""Maximum number of candidates per image. If 1 in 10,000 fits, no candidate fits for 1 in 10^13 images."""

_SMALL = 9
"""Maximum number of small boxes of an image. In a list of boxes, large boxes start at this index."""
_BOXES = 16
_VERTICES = 32
_CELLS_AT_ONCE = 256
_ITEMS_AT_ONCE = 16
"""Number of vertices that are processed together. Strokes have 5 to 18 vertices, so most need only one round."""
_NUMBERS = ("least", "most", "most_tries", "small_boxes", "large_boxes", "most_strokes")
"""Kernel arguments that the compiler does not specialise on, so that one compiled kernel serves all hidden shares."""


class Drawn(NamedTuple):
    known: Tensor
    """[n, 1, size, size] bool: True where a pixel is known."""
    tries: Tensor
    """[n] int32: number of candidates drawn for each image. 0: no candidate fitted, so `known` must not be used."""


def draw_with_plan(seeds: Tensor, size: int, pixels: tuple[int, int], law: Law) -> tuple[Drawn, Plan]:
    """Draw holes as `draw` does, and also return their boxes and strokes."""
    n, strokes = len(seeds), max(law.strokes - 1, 1)
    parts = [(3,), (2,), (_BOXES, 4), (strokes, 2), (strokes, 2, _VERTICES)]
    lengths = [torch.Size(shape).numel() for shape in parts]
    plan = torch.zeros(n, sum(lengths), dtype=torch.int32, device=seeds.device)
    drawn = draw(seeds, size, pixels, law, plan=plan)
    split = zip(plan.split(lengths, dim=1), parts, strict=True)
    return drawn, Plan(*(part.view(n, *shape) for part, shape in split))


def draw(
    seeds: Tensor,
    size: int,
    pixels: tuple[int, int],
    law: Law,
    *,
    tries: int = MOST_TRIES,
    plan: Tensor | None = None,
    each: LawOfEach | None = None,
) -> Drawn:
    """Draw n holes, each with pixels[0] to pixels[1] hidden pixels. The CPU does not wait for the GPU.

    seeds: [n] int64; each hole depends on its seed and its law alone. plan: int32 tensor that receives the boxes and
    strokes. each: replaces `pixels` and the first three numbers of the law, separately for each hole.
    """
    if law.small_boxes > _SMALL + 1 or law.large_boxes > _BOXES - _SMALL + 1 or law.most_segments > _VERTICES:
        raise ValueError(f"{law} has more boxes or vertices than the kernel has room for")
    # Start with all pixels known, so that an image without a fitting candidate is not uninitialised memory.
    known = torch.ones(len(seeds), 1, size, size, dtype=torch.bool, device=seeds.device)
    tries_of = torch.empty(len(seeds), dtype=torch.int32, device=seeds.device)
    words = -(-size // 32)
    cells = min(_CELLS_AT_ONCE, triton.next_power_of_2(size * words))
    if len(seeds):
        # No fused multiply-add: products are rounded first, as in plain torch, and pixels at halves depend on this.
        _draw[(len(seeds),)](
            seeds, known.view(torch.uint8), tries_of, tries_of if plan is None else plan,
            *((tries_of, tries_of) if each is None else each), *pixels, tries, *law,
            size=size, words_in_row=words, cells=cells, blocks=-(-size * words // cells), items=_ITEMS_AT_ONCE,
            small=_SMALL, boxes=_BOXES, vertices=_VERTICES, keep_plan=plan is not None,
            mixed=each is not None,
            num_warps=1 if cells <= 32 else 4 if cells <= 128 else 8, enable_fp_fusion=False,
        )  # fmt: skip
    return Drawn(known, tries_of)


@triton.jit
def _uniform(bits):
    """Convert random bits to u in [0, 1) in steps of 2^-24, as torch.rand does. For whole n < 2^24, u * n < n."""
    return (bits >> 8).to(tl.int32).to(tl.float32) * 5.9604644775390625e-08


@triton.jit
def _below(bits, bound):
    """Convert random bits to randint(bound), or to 0 if the bound is 0."""
    return (_uniform(bits) * bound).to(tl.int32)


@triton.jit
def _store(at, one, two, three, four):
    tl.store(at, one)
    tl.store(at + 1, two)
    tl.store(at + 2, three)
    tl.store(at + 3, four)


@triton.jit
def _or(one, other):
    return one | other


@triton.jit
def _ones(count):
    """Return a 32-bit word whose lowest `count` bits are 1, where count is 0 to 32."""
    return tl.where(count >= 32, -1, (1 << (count & 31)) - 1)


@triton.jit
def _bits(start, end, word):
    """Return word number `word` of a row in which only the bits of pixels start to end - 1 are 1; 0 if end <= start."""
    first = tl.minimum(tl.maximum(start - 32 * word, 0), 32)
    last = tl.minimum(tl.maximum(end - 32 * word, 0), 32)
    return _ones(last) & ~_ones(first)


@triton.jit
def _count(words):
    """Return the total number of bits that are 1 in all words."""
    pairs = words - ((words >> 1) & 0x55555555)
    fours = (pairs & 0x33333333) + ((pairs >> 2) & 0x33333333)
    bytes_ = (fours + (fours >> 4)) & 0x0F0F0F0F
    halves = bytes_ + (bytes_ >> 8)
    return tl.sum((halves + (halves >> 16)) & 0x3F, axis=0)


@triton.jit
def _then(x_by, x_least, x_most, y_by, y_least, y_most, x_by_, x_least_, x_most_, y_by_, y_least_, y_most_):
    """Combine two steps of the form x -> min(max(x + by, least), most) into one step of this form; the same for y."""
    return (
        x_by + x_by_,
        tl.minimum(tl.maximum(x_least + x_by_, x_least_), x_most_),
        tl.minimum(tl.maximum(x_most + x_by_, x_least_), x_most_),
        y_by + y_by_,
        tl.minimum(tl.maximum(y_least + y_by_, y_least_), y_most_),
        tl.minimum(tl.maximum(y_most + y_by_, y_least_), y_most_),
    )


@triton.jit
def _rounded(values, halves_up: tl.constexpr):
    """Round to the nearest whole number. Halves are rounded away from zero if halves_up, else towards zero."""
    nearest = tl.floor(tl.abs(values) + 0.5) if halves_up else tl.ceil(tl.abs(values) - 0.5)
    return tl.where(values < 0, -nearest, nearest)


@triton.jit
def _strip(direction_x, direction_y, one_x, one_y, other_x, other_y):
    """Return slope, left end and right end of the strip between two parallel lines, which may be horizontal."""
    flat = direction_y == 0
    slope = tl.div_rn(direction_x, tl.where(flat, 1.0, direction_y))
    first, second = one_x - slope * one_y, other_x - slope * other_y
    left = tl.where(flat, -1e4 * (tl.maximum(one_y, other_y) + 0.5), tl.minimum(first, second))
    right = tl.where(flat, -1e4 * (tl.minimum(one_y, other_y) - 0.5), tl.maximum(first, second))
    return tl.where(flat, 1e4, slope), left, right


@triton.jit
def _strips(dx, dy, width):
    """Return slope, left end, width of the strips between a parallelogram's long sides, and between its short sides."""
    half, other = (width // 2).to(tl.float32), ((width - 1) // 2).to(tl.float32)
    length = tl.maximum(tl.sqrt_rn(dx * dx + dy * dy), 1.0)
    # Two corners lie half a width from the vertex, in whole pixels; the two halves of an even width differ by one.
    corner_x = -_rounded(tl.div_rn(other * dy, length), False)
    corner_y = _rounded(tl.div_rn(half * dx, length), True)
    opposite_x = _rounded(tl.div_rn(half * dy, length), False)
    opposite_y = -_rounded(tl.div_rn(other * dx, length), True)
    slope, left, right = _strip(dx, dy, corner_x, corner_y, opposite_x, opposite_y)
    right = tl.where((dx == 0) & (dy == 0), left - 1e4, right)
    slope_across, left_across, right_across = _strip(
        opposite_x - corner_x, opposite_y - corner_y, corner_x, corner_y, corner_x + dx, corner_y + dy
    )
    return slope, left, right - left, slope_across, left_across, right_across - left_across


@triton.jit
def _reach(above, width):
    """Return how far a vertex's disc reaches to each side in rows at distance `above`; negative if it misses a row."""
    half = (width // 2).to(tl.float32)
    v = tl.abs(above)
    square = half * half - v * v
    # No square root is so close to a rounding threshold that its last bits matter.
    nearest = tl.floor(tl.sqrt(tl.maximum(square, 0.0)) + 0.5)
    below = tl.floor(tl.sqrt(tl.maximum(square + v - 0.25, 0.0)))
    return tl.where(v <= half, tl.maximum(nearest, below), -1e4)


@triton.jit
def _under_stroke(x, y, segments, width, row, word, item, left_to_right, size: tl.constexpr, items: tl.constexpr):
    """Return the cells that a stroke with vertices x, y covers, as words. The stroke is drawn from vertex `item` on."""
    vertex = tl.arange(0, x.shape[0])
    onward = tl.minimum(vertex + 1, segments)
    dx, dy = (tl.gather(x, onward, 0) - x).to(tl.float32), (tl.gather(y, onward, 0) - y).to(tl.float32)
    x, y, row = x.to(tl.float32), y.to(tl.float32), row.to(tl.float32)
    slope, left, wide, slope_across, left_across, wide_across = _strips(dx, dy, width)
    left, left_across = left + x + 0.5, left_across + x + 0.5
    words = tl.zeros_like(word)
    while item <= segments:
        # Past the end, the last vertex is drawn again, which changes nothing.
        at = tl.minimum(item + tl.arange(0, items), segments)
        above = row[None, :] - tl.gather(y, at, 0)[:, None]
        along = tl.gather(left, at, 0)[:, None] + tl.gather(slope, at, 0)[:, None] * above
        across = tl.gather(left_across, at, 0)[:, None] + tl.gather(slope_across, at, 0)[:, None] * above
        start = tl.floor(tl.maximum(along, across))
        along, across = along + tl.gather(wide, at, 0)[:, None], across + tl.gather(wide_across, at, 0)[:, None]
        end = tl.ceil(tl.minimum(along, across))
        # Disc and segment overlap, so their hull equals their union, except for pixels under the next disc.
        some, middle, reach = start < end, tl.gather(x, at, 0)[:, None], _reach(above, width)
        start = tl.minimum(tl.where(some, start, 1e4), middle - reach)
        end = tl.maximum(tl.where(some, end, -1e4), middle + 1 + reach)
        start = tl.minimum(tl.maximum(start, 0.0), size).to(tl.int32)
        end = tl.minimum(tl.maximum(end, 0.0), size).to(tl.int32)
        start, end = tl.where(left_to_right, size - end, start), tl.where(left_to_right, size - start, end)
        words |= tl.reduce(_bits(start, end, word[None, :]), 0, _or)
        item += items
    return words


@triton.jit(do_not_specialize=_NUMBERS)
def _draw(
    seeds, known, tries_of, plans, table, rows, least, most, most_tries,
    small_boxes, large_boxes, most_strokes, least_segments, most_segments, least_width, most_width,
    turn, turn_spread, length_mean, length_spread,
    size: tl.constexpr, words_in_row: tl.constexpr, cells: tl.constexpr, blocks: tl.constexpr, items: tl.constexpr,
    small: tl.constexpr, boxes: tl.constexpr, vertices: tl.constexpr, keep_plan: tl.constexpr,
    mixed: tl.constexpr,
):  # fmt: skip
    """Draw one hole. Random numbers come from Philox of the seed and (candidate, purpose, box or stroke, vertex)."""
    image = tl.program_id(0).to(tl.int64)
    seed = tl.load(seeds + image)
    if mixed:
        row_of_law = tl.load(rows + image)
        most_tries = tl.where(row_of_law < 0, 0, most_tries)
        law = table + 5 * tl.maximum(row_of_law, 0)
        least, most = tl.load(law), tl.load(law + 1)
        small_boxes, large_boxes, most_strokes = tl.load(law + 2), tl.load(law + 3), tl.load(law + 4)
    box, vertex, bit = tl.arange(0, boxes), tl.arange(0, vertices), tl.arange(0, 32)
    places = tl.maximum(most_strokes - 1, 1)
    plan = plans + image * (5 + 4 * boxes + places * (2 + 2 * vertices))
    tries = tl.full((), 0, tl.int32)
    hidden = tl.full((), -1, tl.int32)
    while ((hidden < least) | (hidden > most)) & (tries < most_tries):
        few, fewer, many, flips = tl.philox(seed, tries, 0, 0, 0)
        few, fewer, many = _below(few, small_boxes), _below(fewer, large_boxes), _below(many, most_strokes)
        upside_down, left_to_right = (flips & 1) != 0, (flips & 2) != 0

        w, h, box_x, box_y = tl.philox(seed, tl.zeros_like(box) + tries, 1, box, 0)
        side = tl.where(box < small, size // 2, size)
        w, h = _below(w, side), _below(h, side)
        box_x = _below(box_x, size - w + w // 2 * 2) - w // 2
        box_y = _below(box_y, size - h + h // 2 * 2) - h // 2
        there = tl.where(box < small, box < few, box - small < fewer)
        if keep_plan:
            _store(plan, few, fewer, many, upside_down.to(tl.int32))
            tl.store(plan + 4, left_to_right.to(tl.int32))
            _store(plan + 5 + 4 * box, box_x, box_y, w, h)

        hidden = tl.full((), 0, tl.int32)
        block = tl.full((), 0, tl.int32)
        while (block < blocks) & (hidden <= most):
            cell = block * cells + tl.arange(0, cells)
            row, word = cell // words_in_row, cell % words_in_row
            inside = row < size
            in_rows = (row[None, :] >= box_y[:, None]) & (row[None, :] < (box_y + h)[:, None]) & there[:, None]
            boxed = _bits(box_x[:, None], tl.minimum(box_x + w, size)[:, None], word[None, :])
            words = tl.where(inside, tl.reduce(tl.where(in_rows, boxed, 0), 0, _or), 0)
            before = hidden
            hidden += _count(words)

            # Strokes are drawn unflipped: `source` is the row of a stroke before the flip.
            source = tl.where(upside_down, size - 1 - row, row)
            top, bottom = tl.min(tl.where(inside, source, size), 0), tl.max(tl.where(inside, source, -1), 0)
            stroke = tl.full((), 0, tl.int32)
            # Strokes only hide more pixels, so stop as soon as too many are hidden.
            while (stroke < many) & (hidden <= most):
                segments, width, lowest, highest = tl.philox(seed, tries, 2, stroke, 0)
                segments = least_segments + _below(segments, most_segments - least_segments)
                width = (least_width + (most_width - least_width) * _uniform(width)).to(tl.int32)
                lowest, highest = turn - turn_spread * _uniform(lowest), turn + turn_spread * _uniform(highest)
                first_x, first_y, _, _ = tl.philox(seed, tries, 3, stroke, 0)
                first_x, first_y = _below(first_x, size), _below(first_y, size)

                # Step i leads to vertex i. Box-Muller makes the normal number; 1 - u is never 0.
                angle, u, phase, _ = tl.philox(seed, tl.zeros_like(vertex) + tries, 4, stroke, vertex)
                angle = lowest + (highest - lowest) * _uniform(angle)
                normal = tl.sqrt(-2.0 * tl.log(1.0 - _uniform(u))) * tl.cos(6.283185307179586 * _uniform(phase))
                length = tl.minimum(tl.maximum(length_mean + length_spread * normal, 0.0), 2 * length_mean)
                # For whole x, floor(x + step) is x + floor(step). Every other step goes up, starting with step 1.
                by_x = tl.floor(length * tl.cos(angle)).to(tl.int32)
                by_y = length * tl.sin(angle)
                by_y = tl.floor(tl.where(vertex % 2 == 1, -by_y, by_y)).to(tl.int32)
                # Step 0 leads to the first vertex from any point.
                x_least, x_most = tl.where(vertex == 0, first_x, 0), tl.where(vertex == 0, first_x, size)
                y_least, y_most = tl.where(vertex == 0, first_y, 0), tl.where(vertex == 0, first_y, size)
                _, x, _, _, y, _ = tl.associative_scan((by_x, x_least, x_most, by_y, y_least, y_most), 0, _then)
                if keep_plan:
                    tl.store(plan + 5 + 4 * boxes + 2 * stroke, segments)
                    tl.store(plan + 5 + 4 * boxes + 2 * stroke + 1, width)
                    walk = plan + 5 + 4 * boxes + 2 * places + 2 * vertices * stroke + vertex
                    tl.store(walk, x)
                    tl.store(walk + vertices, y)

                item = tl.full((), 0, tl.int32)
                if blocks > 1:  # skip strokes that do not touch this block of cells
                    drawn, near = vertex <= segments, width // 2 + 1
                    from_row, to_row = (
                        tl.min(tl.where(drawn, y, size), 0) - near,
                        tl.max(tl.where(drawn, y, 0), 0) + near,
                    )
                    item = tl.where((from_row <= bottom) & (to_row >= top), 0, vertices)
                under = _under_stroke(x, y, segments, width, source, word, item, left_to_right, size, items)
                words |= tl.where(inside, under, 0)
                hidden = before + _count(words)
                stroke += 1

            if hidden <= most:
                column = 32 * word[:, None] + bit[None, :]
                at = image * (size * size) + (row * size)[:, None] + column
                visible = ((words[:, None] >> bit[None, :]) & 1) ^ 1
                tl.store(known + at, visible.to(tl.uint8), mask=inside[:, None] & (column < size))
            block += 1
        tries += 1
    tl.store(tries_of + image, tl.where((hidden >= least) & (hidden <= most), tries, 0))
