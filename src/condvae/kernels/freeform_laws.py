"""The distribution of freeform holes, as numbers for the GPU kernel, and the boxes and strokes that it draws."""

from typing import NamedTuple

from torch import Tensor


class Law(NamedTuple):
    """Parameters of the distribution of holes, in the order in which the kernel takes them."""

    small_boxes: int
    """An image has randint(small_boxes) small boxes, whose sides are randint(size // 2) pixels."""
    large_boxes: int
    """An image has randint(large_boxes) large boxes, whose sides are randint(size) pixels."""
    strokes: int
    """An image has randint(strokes) strokes."""
    least_segments: int
    most_segments: int
    """A stroke has randint(least_segments, most_segments) segments."""
    least_width: float
    most_width: float
    """A stroke is int(uniform(least_width, most_width)) pixels wide."""
    turn: float
    turn_spread: float
    """Angles of a stroke's segments are between turn - U(0, turn_spread) and turn + U(0, turn_spread), in radians."""
    length: float
    length_spread: float
    """Segment lengths are normal with mean `length` and this standard deviation, and are clipped to [0, 2 length]."""


class LawOfEach(NamedTuple):
    """Lets holes of one launch have different laws. The tensors are int32."""

    table: Tensor
    """[K, 5]: for each of K laws, the least and most hidden pixels, small_boxes, large_boxes and strokes."""
    row: Tensor
    """[n]: the row of each hole in the table; -1 if it is not needed, so that all of its pixels stay known."""


class Plan(NamedTuple):
    """The boxes and strokes that make up the holes of n images, in whole pixels. All tensors are int32."""

    counts: Tensor
    """[n, 3]: for each image, the numbers of small boxes, large boxes and strokes."""
    flips: Tensor
    """[n, 2]: whether the strokes of an image are flipped vertically, and whether horizontally."""
    boxes: Tensor
    """[n, 16, 4]: x, y, width and height of each box. Small boxes start at index 0, large boxes at index 9."""
    strokes: Tensor
    """[n, K, 2]: number of segments and width of each of K strokes."""
    vertices: Tensor
    """[n, K, 2, 32]: x and y of up to 32 vertices of each stroke. Entries after the last vertex are not drawn."""
