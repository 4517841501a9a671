"""Cut the square that a model sees out of a picture, and put a completed square back onto the picture's pixels.

A square that is upright, inside the picture and on whole pixels is cropped, so that it is resampled only once, to the
model's image size. Any other square is first sampled at least once per pixel of the picture, after large pictures have
been reduced, so that details do not alias.
"""

import math
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
from PIL import Image

from condvae.images.holes import Flags
from condvae.images.placement import Placement
from condvae.runtime.pixels import PixelArray

Points: TypeAlias = npt.NDArray[np.float64]
"""[..., 2]: x and y of points, in pixels of the picture, or in the square from (0, 0), its top left, to (1, 1)."""

_LEAST_PER_PIXEL = 4  # a picture is reduced to at least so many pixels along a pixel at the model's image size
_BICUBIC_REACH = 2  # Pillow's bicubic filter reads so many pixels to each side when it samples a picture
_TOUCHING = 1e-6  # areas that overlap by less than this part of a pixel only touch
_ROWS = 256  # rows of pixels whose positions are computed at a time


class Region(NamedTuple):
    """A rectangle of whole pixels; it may reach over the edge of the picture."""

    left: int
    top: int
    right: int
    bottom: int


def middle_square(size: tuple[int, int]) -> Placement:
    """Return the largest centred square of a picture of this width and height."""
    side = min(size)
    left, top = ((length - side) // 2 for length in size)
    return Placement(left + side / 2, top + side / 2, side)


def whole_box(placement: Placement, size: tuple[int, int]) -> Region | None:
    """Return the square as a box, if it is upright, on whole pixels, and inside a picture of this size; else None."""
    edges = [middle + sign * placement.side / 2 for sign in (-1, 1) for middle in placement[:2]]
    if placement.degrees != 0 or any(edge != int(edge) for edge in edges):
        return None
    box = Region(*map(int, edges))
    return box if min(box) >= 0 and box.right <= size[0] and box.bottom <= size[1] else None


def box_around(placement: Placement) -> Region:
    """Return the smallest box that contains the square."""
    cos, sin = _direction(placement)
    half = placement.side / 2 * (abs(cos) + abs(sin))
    x, y = placement.x, placement.y
    return Region(*(math.floor(middle - half) for middle in (x, y)), *(math.ceil(middle + half) for middle in (x, y)))


def inside_picture(box: Region, size: tuple[int, int]) -> Region:
    """Return the part of a box that is inside a picture of this size; it may be empty."""
    left, right = (min(max(edge, 0), size[0]) for edge in (box.left, box.right))
    top, bottom = (min(max(edge, 0), size[1]) for edge in (box.top, box.bottom))
    return Region(left, top, right, bottom)


def described(placement: Placement) -> str:
    """Describe the square in words, by the box that --box would take for it, and by its angle."""
    left, top = (round(middle - placement.side / 2) for middle in placement[:2])
    side, degrees = round(placement.side), round(placement.degrees)
    turned = f", turned {'anti' * (degrees < 0)}clockwise by {abs(degrees)} degrees" if degrees else ""
    return f"at {left},{top},{side},{side} (x, y, width and height{turned})"


def in_square(points: npt.ArrayLike, placement: Placement) -> Points:
    """Return where points [..., 2] of the picture are in the square: from (0, 0), its top left, to (1, 1)."""
    cos, sin = _direction(placement)
    away = (np.asarray(points, dtype=np.float64) - placement[:2]) / placement.side
    found: Points = away @ np.array([[cos, -sin], [sin, cos]]) + 0.5
    return found


def in_picture(points: npt.ArrayLike, placement: Placement) -> Points:
    """Return where points [..., 2] of the square, from (0, 0) to (1, 1), are in the picture."""
    cos, sin = _direction(placement)
    away = (np.asarray(points, dtype=np.float64) - 0.5) * placement.side
    found: Points = away @ np.array([[cos, sin], [-sin, cos]]) + placement[:2]
    return found


def on_picture(flags: Flags, placement: Placement, size: tuple[int, int]) -> Flags:
    """Spread flags of the square, [S, S], over the pixels of a picture of this size; outside the square they are False.

    A pixel takes the flag at the position of its centre.
    """
    width, height = size
    whole = np.zeros((height, width), dtype=bool)
    count = len(flags)
    if (box := whole_box(placement, size)) is not None:
        side = box.right - box.left
        at = (2 * np.arange(side) + 1) * count // (2 * side)
        whole[box.top : box.bottom, box.left : box.right] = flags[at[:, None], at]
        return whole
    left, top, right, bottom = inside_picture(box_around(placement), size)
    columns = np.arange(left, right) + 0.5
    for first in range(top, bottom, _ROWS):
        rows = np.arange(first, min(first + _ROWS, bottom)) + 0.5
        places = in_square(np.stack(np.meshgrid(columns, rows), axis=-1), placement) * count
        within = ((places >= 0) & (places < count)).all(axis=-1)
        j, i = np.moveaxis(places.clip(0, count - 1).astype(np.intp), -1, 0)
        whole[first : first + len(rows), left:right] = flags[i, j] & within
    return whole


def cut_out(
    page: Image.Image, placement: Placement, size: int, hidden: Flags | None = None
) -> tuple[Image.Image, Flags]:
    """Return the square as an upright image [R, R], and which of its pixels are hidden.

    The image is a crop, or it has 1 to 8 pixels along a pixel at the model's image size, as many as the picture has,
    rounded up. A pixel of the image is hidden if it covers a hidden pixel of the picture, even in part, or lies outside
    the picture. All other pixels are free of the colours of hidden ones.

    hidden: [H, W] bool, True where a pixel of the picture is hidden; None if no pixel is.
    """
    if (box := whole_box(placement, page.size)) is not None:
        square = None if hidden is None else hidden[box.top : box.bottom, box.left : box.right]
        side = box.right - box.left
        return page.crop(box), np.zeros((side, side), dtype=bool) if square is None else square
    canvas, covered, reduced = _canvas(page, placement, size, hidden)
    per_pixel = max(1, math.ceil(reduced.side / size))
    sampled = _hidden_samples(covered, reduced, size * per_pixel)
    shown = _sampled(canvas, reduced, size * per_pixel)
    if covered.any():  # also beside the square, because the filter reads pixels there
        clean = _sampled(_continued(canvas, covered), reduced, size * per_pixel)
        shown = Image.composite(shown, clean, Image.fromarray(sampled))
    return shown, sampled


def completed_region(levels: PixelArray, placement: Placement, size: tuple[int, int], region: Region) -> PixelArray:
    """Return a completion [S, S, C] on the pixels of a region of the picture, [h, w, C] uint8.

    Outside the square, its outermost pixels are repeated. size: width and height of the picture.
    """
    count, (left, top, right, bottom) = len(levels), region
    # Not Lanczos, which overshoots along the edges of a face; enlarging would make this visible.
    if (box := whole_box(placement, size)) is not None:
        square = np.asarray(_image(levels).resize((box.right - box.left,) * 2, Image.Resampling.BICUBIC))
        rows = slice(max(top - box.top, 0), bottom - box.top)
        columns = slice(max(left - box.left, 0), right - box.left)
        beyond = (
            (max(box.top - top, 0), max(bottom - box.bottom, 0)),
            (max(box.left - left, 0), max(right - box.right, 0)),
            (0, 0),
        )
        return np.pad(_with_channels(square[rows, columns]), beyond, mode="edge")
    corners = in_square([(x, y) for x in (left, right) for y in (top, bottom)], placement) * count
    margin = max(0, math.ceil(max(-corners.min(), corners.max() - count))) + _BICUBIC_REACH
    padded = np.pad(levels, ((margin, margin), (margin, margin), (0, 0)), mode="edge")
    length = max(1, round(len(padded) * placement.side / count))
    enlarged = _image(padded).resize((length, length), Image.Resampling.BICUBIC)
    scale = length / len(padded)

    def place(x: float, y: float) -> Points:
        """Return where a point of the region is in the enlarged completion."""
        found: Points = (in_square((left + x, top + y), placement) * count + margin) * scale
        return found

    size = (right - left, bottom - top)
    return _with_channels(np.asarray(_transformed(enlarged, place(0, 0), place(1, 0), place(0, 1), size)))


def _direction(placement: Placement) -> tuple[float, float]:
    """Return the direction of the square's upper edge, from left to right, as x and y (which points down)."""
    angle = math.radians(placement.degrees)
    return math.cos(angle), math.sin(angle)


def _with_channels(image: PixelArray) -> PixelArray:
    return image[:, :, None] if image.ndim == 2 else image


def _image(levels: PixelArray) -> Image.Image:
    return Image.fromarray(levels[:, :, 0] if levels.shape[2] == 1 else levels)


def _canvas(
    page: Image.Image, placement: Placement, size: int, hidden: Flags | None
) -> tuple[Image.Image, Flags, Placement]:
    """Return the picture around the square, reduced if it is large, its hidden pixels, and the square's place in it.

    A pixel of the reduced picture is hidden if any of the pixels that it replaces is, or is outside the picture.
    """
    factor = max(1, int(placement.side / (_LEAST_PER_PIXEL * size)))
    around = box_around(placement)
    left, top = (edge - (_BICUBIC_REACH + 1) * factor for edge in around[:2])
    columns, rows = (
        -(-(end - start) // factor) + _BICUBIC_REACH + 1 for start, end in ((left, around.right), (top, around.bottom))
    )
    box = Region(left, top, left + columns * factor, top + rows * factor)
    inner = inside_picture(box, page.size)
    # The blocks of factor x factor pixels that lie inside the picture. All others count as hidden, and stay black.
    first_column, first_row = -(-(inner.left - left) // factor), -(-(inner.top - top) // factor)
    wide, high = (inner.right - left) // factor - first_column, (inner.bottom - top) // factor - first_row
    canvas, blocks = Image.new(page.mode, (columns, rows)), np.ones((rows, columns), dtype=bool)
    if wide > 0 and high > 0:
        x, y = left + first_column * factor, top + first_row * factor
        canvas.paste(page.reduce(factor, box=(x, y, x + wide * factor, y + high * factor)), (first_column, first_row))
        seen = blocks[first_row : first_row + high, first_column : first_column + wide]
        part = None if hidden is None else hidden[y : y + high * factor, x : x + wide * factor]
        seen[:] = False if part is None else part.reshape(high, factor, wide, factor).any(axis=(1, 3))
    within = Placement((placement.x - left) / factor, (placement.y - top) / factor, placement.side / factor)
    return canvas, blocks, within._replace(degrees=placement.degrees)


def _hidden_samples(covered: Flags, placement: Placement, count: int) -> Flags:
    """Divide the square into count x count parts; return for each whether the box around it has a hidden pixel."""
    sums = np.pad(covered, ((1, 0), (1, 0))).cumsum(axis=0, dtype=np.int32).cumsum(axis=1, dtype=np.int32)
    middles = (np.arange(count) + 0.5) / count
    places = in_picture(np.stack(np.meshgrid(middles, middles), axis=-1), placement)
    cos, sin = _direction(placement)
    reach = placement.side / count / 2 * (abs(cos) + abs(sin)) - _TOUCHING
    left, top = np.moveaxis(np.floor(places - reach).astype(np.intp), -1, 0)
    right, bottom = np.moveaxis(np.ceil(places + reach).astype(np.intp), -1, 0)
    found: Flags = sums[bottom, right] - sums[top, right] - sums[bottom, left] + sums[top, left] > 0
    return found


def _continued(canvas: Image.Image, covered: Flags) -> Image.Image:
    """Return the canvas with hidden pixels near known ones replaced by the mean of the known pixels next to them."""
    colours, known = _with_channels(np.asarray(canvas)).astype(np.float32), ~covered[:, :, None]
    colours *= known
    for _ in range(_BICUBIC_REACH):
        sums, counts = (_sums_around(field) for field in (colours, known.astype(np.float32)))
        np.divide(sums, counts, out=colours, where=(counts > 0) & ~known)
        known = counts > 0
    return Image.fromarray(np.rint(colours).astype(np.uint8).reshape(np.asarray(canvas).shape))


def _sums_around(field: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Return the sum over each pixel of a field [H, W, C] and the eight pixels around it."""
    for axis in (0, 1):
        padded = np.pad(field, [(1, 1) if axis == one else (0, 0) for one in range(3)])
        length = field.shape[axis]
        field = sum(padded.take(range(i, i + length), axis=axis) for i in range(3))  # type: ignore[assignment]
    return field


def _sampled(canvas: Image.Image, placement: Placement, count: int) -> Image.Image:
    """Return the square of a picture as an upright image of count x count pixels."""
    corner, right, down = (in_picture(point, placement) for point in ((0, 0), (1 / count, 0), (0, 1 / count)))
    return _transformed(canvas, corner, right, down, (count, count))


def _transformed(
    image: Image.Image,
    corner: Points,
    right: Points,
    down: Points,
    size: tuple[int, int],
) -> Image.Image:
    """Sample an image; corner, right and down are the places of the new image's points (0, 0), (1, 0) and (0, 1)."""
    across, along = right - corner, down - corner
    data = tuple(map(float, (across[0], along[0], corner[0], across[1], along[1], corner[1])))
    bands = []
    for band in image.split():  # as float, because Pillow rounds the levels of 8-bit images down
        exact = band.convert("F").transform(size, Image.Transform.AFFINE, data, Image.Resampling.BICUBIC)
        bands.append(Image.fromarray(np.rint(np.asarray(exact)).clip(0, 255).astype(np.uint8)))
    return Image.merge(image.mode, bands)
