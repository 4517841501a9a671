"""Freeform holes: random boxes and thick brush strokes, as in public benchmarks of image completion."""

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from condvae.observe.process import KnownPixels
from condvae.observe.strokes import WIDEST, Strokes, covered, least_covered
from condvae.runtime.checks import check_number, check_whole
from condvae.runtime.fast_paths import fast_path

SEGMENTS = (4, 18)
"""The number of segments of a stroke is randint(4, 18), so it is from 4 to 17."""
WIDTHS = (12.0, float(WIDEST))
"""The width of a stroke is int(uniform(12, 48)) pixels, for every image size."""
TURN, TURN_SPREAD = 2 * math.pi / 5, 2 * math.pi / 15
"""Segments go up and down in turn. Their angles, in radians, are drawn from [TURN - a, TURN + b], where a and b are
drawn from [0, TURN_SPREAD] for each stroke."""

_PIXELS_AT_ONCE = 2**24
"""Maximum number of pixels of all candidate holes that are drawn at once, which limits the memory."""
_SMALL = 64
"""In images of at most this size, strokes are so wide that one of them often hides too much."""
_TRIES, _RAREST = 30_000, 1e-4
"""After _TRIES candidate holes, give up if less than the fraction _RAREST of them had a hidden share in the range."""


@dataclass(frozen=True, kw_only=True)
class Freeform(KnownPixels):
    """Hide random boxes and strokes; draw them again until the hidden share is above `low` and below `high`."""

    name: ClassVar[str] = "freeform"

    low: float = 0.0
    """The hidden share of every image is larger than this number."""
    high: float = 1.0
    """The hidden share of every image is smaller than this number."""

    def __post_init__(self) -> None:
        check_number(self.low, "low", least=0, most=1)
        check_number(self.high, "high", least=0, most=1)
        if not self.low < self.high:
            raise ValueError(f"the hidden share has limits low {self.low} and high {self.high}, expected low < high")

    def draw(self, n: int, size: int, generator: torch.Generator) -> Tensor:
        """Draw candidate holes until n of them have a hidden share in the range, and return their known pixels.

        Candidates are drawn in rounds, and each round waits for the device. The GPU kernel (the fast path) uses
        a separate random stream for each image, and never waits.
        """
        check_whole(n, "n")
        check_whole(size, "size", least=1)
        if draw_by_kernel := fast_path("freeform holes", generator.device):
            known: Tensor = draw_by_kernel(self, n, size, generator)
            return known
        least, most = self.hidden_pixels(size)
        largest_round = max(1, _PIXELS_AT_ONCE // size**2)
        kept: list[Tensor] = []
        drawn, accepted = 0, 0
        while accepted < n:
            if drawn >= _TRIES and accepted < _RAREST * drawn:
                raise ValueError(
                    f"only {accepted} of {drawn} random freeform holes at {size} x {size} had a hidden share between "
                    f"{self.low} and {self.high}: give a wider range"
                )
            # First try n candidates, then 10 % more than the acceptance rate so far requires.
            tries = math.ceil(1.1 * (n - accepted) * (drawn + 1) / (accepted + 1)) + 8 if drawn else n
            tries = min(largest_round, tries)
            early = size <= _SMALL or 10 * accepted < drawn
            fitting = self._fitting(tries, size, (least, most), generator, reject_early=early)
            kept.append(fitting[: n - accepted])
            drawn, accepted = drawn + tries, accepted + len(fitting)
        return torch.cat(kept) if kept else torch.ones(0, 1, size, size, dtype=torch.bool, device=generator.device)

    def hidden_pixels(self, size: int) -> tuple[int, int]:
        """Return the least and the most hidden pixels of an image whose hidden share is strictly inside the range."""
        least, most = math.floor(self.low * size**2) + 1, math.ceil(self.high * size**2) - 1
        if least > most:
            raise ValueError(
                f"the hidden share cannot be between {self.low} and {self.high} for {size} x {size} pixels, because no "
                "whole number of pixels fits: give a wider range"
            )
        return least, most

    def _fitting(
        self, n: int, size: int, pixels: tuple[int, int], generator: torch.Generator, *, reject_early: bool
    ) -> Tensor:
        """Draw n candidate holes; return the known pixels of those that hide from pixels[0] to pixels[1] pixels.

        reject_early: whether to add a few strokes at a time, and drop candidates that already hide too much.
        """
        plan = self._plan(n, size, generator)
        hidden, count = plan.boxes, plan.strokes.x.shape[1]
        # More strokes can only hide more pixels, so dropping candidates early does not change which are accepted. It
        # saves time if few are accepted or images are small, but only on a CPU, where a check need not wait.
        reject_early = reject_early and hidden.device.type == "cpu"
        if reject_early and size <= _SMALL:
            may_fit = least_covered(plan.strokes, size) <= pixels[1]
            plan, hidden = plan.of(may_fit), hidden[may_fit]
        first, at_once = 0, 2 if reject_early else max(count, 1)
        while first < count:
            if reject_early:
                may_fit = _count(hidden) <= pixels[1]
                plan, hidden = plan.of(may_fit), hidden[may_fit]
            hidden = hidden | plan.under_strokes(first, first + at_once)
            first, at_once = first + at_once, 2 * at_once
        total = _count(hidden)
        return ~hidden[(total >= pixels[0]) & (total <= pixels[1])][:, None]

    def _plan(self, n: int, size: int, generator: torch.Generator) -> "_Plan":
        few, fewer, strokes = self.most_parts
        return _Plan(
            boxes=under_boxes(
                (draw_boxes(n, size, few, size // 2, generator), draw_boxes(n, size, fewer, size, generator))
            ),
            strokes=draw_strokes(n, size, strokes, generator),
            flips=torch.rand(n, 2, device=generator.device, generator=generator) < 0.5,
        )

    @property
    def most_parts(self) -> tuple[int, int, int]:
        """Exclusive upper limits on the number of small boxes, of large boxes and of strokes in an image."""
        c = min(self.low + self.high, 1)
        return int(10 * c), int(5 * c), int(20 * c)


class _Plan(NamedTuple):
    """The boxes and strokes of n candidate holes."""

    boxes: Tensor
    """[n, size, size] bool: True for pixels under a box."""
    strokes: Strokes
    flips: Tensor
    """[n, 2] bool: whether the strokes of a candidate are flipped vertically, and whether horizontally."""

    def of(self, which: Tensor) -> "_Plan":
        """Return only the candidates for which `which`, [n] bool, is True."""
        return _Plan(self.boxes[which], Strokes(*(part[which] for part in self.strokes)), self.flips[which])

    def under_strokes(self, first: int, last: int) -> Tensor:
        """Return [n, size, size] bool: True for pixels under the strokes first, ..., last - 1 of each candidate."""
        size = self.boxes.shape[-1]
        strokes = Strokes(*(part[:, first:last] for part in self.strokes))
        hidden = covered(strokes, size, longest=_longest(size))
        return _flipped(hidden, *self.flips.unbind(1))


def _flipped(hidden: Tensor, upside_down: Tensor, left_to_right: Tensor) -> Tensor:
    """Flip `hidden` [n, size, size] vertically and horizontally where the flags, [n] bool, are True."""
    n, size, _ = hidden.shape
    row, image = torch.arange(size, device=hidden.device), torch.arange(n, device=hidden.device)
    # Copy whole rows from the images or their mirror images: much faster than choosing pixel by pixel.
    source = torch.where(upside_down[:, None], size - 1 - row, row) + size * (image + n * left_to_right)[:, None]
    both = torch.cat((hidden, hidden.flip(2))).view(-1, size)
    return both.index_select(0, source.view(-1)).view(n, size, size)


def _longest(size: int) -> float:
    """Return the maximum length of a segment: twice the mean length, sqrt(2 size^2) / 8, plus a pixel for rounding."""
    return 2 * math.sqrt(2 * size**2) / 8 + 1


def _count(hidden: Tensor) -> Tensor:
    """Return the number of hidden pixels of each image, [n]."""
    return hidden.sum(2, dtype=torch.int32).sum(1)  # several times faster than one sum over both dimensions


def _below(bound: Tensor | int, shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    """Draw random whole numbers from 0 to bound - 1, as float32; if the bound is 0, return 0."""
    # rand() is at most 1 - 2^-24, so its product with a bound below 2^24 is never rounded up to the bound.
    return (torch.rand(shape, device=generator.device, generator=generator) * bound).floor_()


def draw_boxes(n: int, size: int, most: int, side: int, generator: torch.Generator) -> Tensor:
    """Draw boxes for each of n images; boxes may extend beyond the image.

    An image has randint(most) boxes, and the sides of a box are randint(side) pixels long. Returns
    [n, most - 1, 2, size] bool: the columns and the rows that each box covers.
    """
    shape = (n, max(most - 1, 0), 2)
    drawn = torch.arange(shape[1], device=generator.device) < _below(most, (n, 1), generator)
    sides = _below(side, shape, generator)
    half = (sides / 2).floor()
    corner = _below(size - sides + 2 * half, shape, generator) - half  # randint(-(w // 2), size - w + w // 2)
    at = torch.arange(size, device=generator.device)
    return (at >= corner[..., None]) & (at < (corner + sides)[..., None]) & drawn[:, :, None, None]


def under_boxes(boxes: tuple[Tensor, ...]) -> Tensor:
    """Return [n, size, size] bool: True for pixels under any box. boxes: results of `draw_boxes`."""
    columns, rows = torch.cat(boxes, dim=1).float().unbind(2)
    # The number of boxes over each pixel: a sum of zeros and ones, which is exact in any precision.
    return torch.bmm(rows.transpose(1, 2), columns) > 0


def draw_strokes(n: int, size: int, most: int, generator: torch.Generator) -> Strokes:
    """Draw randint(most) strokes for each of n images."""
    count, vertices = max(most - 1, 0), SEGMENTS[1]
    device = generator.device

    def uniform(*shape: int) -> Tensor:
        return torch.rand(shape, device=device, generator=generator)

    drawn = torch.arange(count, device=device) < _below(most, (n, 1), generator)
    segments = SEGMENTS[0] + _below(SEGMENTS[1] - SEGMENTS[0], (n, count), generator)
    width = (WIDTHS[0] + (WIDTHS[1] - WIDTHS[0]) * uniform(n, count)).floor()
    lowest, highest = TURN - TURN_SPREAD * uniform(n, count, 1), TURN + TURN_SPREAD * uniform(n, count, 1)
    angle = lowest + (highest - lowest) * uniform(n, count, vertices - 1)
    mean = math.sqrt(2 * size**2) / 8
    length = torch.randn(n, count, vertices - 1, device=device, generator=generator)
    length = (mean + mean // 2 * length).clamp_(0, 2 * mean)
    step_x, step_y = (length * angle.cos()).unbind(2), (length * angle.sin()).unbind(2)
    x, y = [_below(size, (n, count), generator)], [_below(size, (n, count), generator)]
    for i in range(vertices - 1):
        x.append((x[-1] + step_x[i]).clamp_(0, size).floor_())
        y.append((y[-1] - step_y[i] if i % 2 == 0 else y[-1] + step_y[i]).clamp_(0, size).floor_())
    return Strokes(x=torch.stack(x, 2), y=torch.stack(y, 2), segments=torch.where(drawn, segments, 0), width=width)
