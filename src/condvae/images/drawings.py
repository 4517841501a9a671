"""Recognise line drawings, and bring them to the size of a model as lines one pixel wide.

A drawing may have any size and shape, and dark lines on light paper or the reverse; it may be a photo of a sheet of
paper. Its lines are found relative to the paper around them, thinned, moved to the middle, and scaled to the size that
objects have in product photos.
"""

from typing import Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from numpy.polynomial.legendre import legvander
from PIL import Image, ImageChops, ImageOps

from condvae.images.holes import Flags
from condvae.images.reading import Picture
from condvae.images.thinning import any_in_squares, centre_lines, opened, thinned, without_specks
from condvae.observe.canny import grown

_Levels: TypeAlias = npt.NDArray[np.float64]

FILLED = 0.8
"""Share of the model's image that the longer side of a drawing fills: the median of product photos of shoes is 50 of
64 pixels, that of bags 55."""

# Finding lines
_SHEET = 384  # the longer side of the whole sheet when the drawing is searched on it, in pixels
_FINE = 6  # pixels per pixel of the model when lines are thinned
_MARGIN = 0.15  # paper around the drawing when lines are thinned, relative to its longer side
_WIDEST_LINE = 1 / 8  # wider strokes are filled areas; relative to the longer side of the drawing
_SPECK_ON_SHEET, _SPECK = 0.02, 0.04  # smaller strokes are specks; relative to the longer side of sheet or drawing
_CROSSED = 0.25  # a pixel of the model is on a line that runs through it for this share of its width
_LEAST_INK = 0.1  # the darkness relative to the paper that the darkest strokes must have
_WEAK, _STRONG = 0.25, 0.5  # darkness of a stroke, and of at least one of its pixels, relative to the darkest strokes
_DEGREE, _SAMPLES, _FITS = 4, 48, 10  # the polynomial of the paper, the samples per side, the steps of the fit

# Telling drawings from photos; tests/campaigns/drawings.py counts errors
_TESTED = 384  # the longer side of the picture when it is judged, in pixels
_MOST_INK = 0.3  # share of the picture that strokes may cover
_MOST_AREAS = 0.1  # share of the strokes that may be wider than lines
_MOST_FAINT = 0.4  # share of the centre lines that may be less dark than half of the darkest strokes
_MOST_OTHER = 0.15  # pixels away from strokes that may not look like paper, relative to the number of stroke pixels
_PALE, _COLOURED = 0.07, 40  # paper is less dark than this, and red, green and blue differ less; in shares and levels
_MOST_NOISE = 0.04  # of the darkness of paper

_Box: TypeAlias = tuple[float, float, float, float]
"""The left, top, right and bottom edge of a part of a page, relative to its width and height."""
_WHOLE: _Box = (0.0, 0.0, 1.0, 1.0)


class _Paper(NamedTuple):
    """The level that the paper of a page has everywhere, since light is uneven: a polynomial in x and y."""

    factors: _Levels
    """[degree + 1, degree + 1]: the factors of the products of Legendre polynomials in y and in x."""

    def levels(self, shape: tuple[int, ...], box: _Box = _WHOLE) -> _Levels:
        """Return the levels [H, W] of the paper in a part of the page that has this shape in pixels."""
        left, top, right, bottom = box
        paper: _Levels = _powers(shape[0], top, bottom) @ self.factors @ _powers(shape[1], left, right).T
        return paper


class _Ink(NamedTuple):
    """The darkness of a page."""

    values: _Levels
    """[H, W]: darkness relative to the paper; 0 is paper, 1 is black."""
    noise: float
    """About the standard deviation of the darkness of paper, between neighbouring pixels."""

    @property
    def darkest(self) -> float:
        """The darkness of the darkest strokes, of which there are at least two pixels."""
        return float(np.quantile(self.values, 1 - min(1, max(2 / self.values.size, 0.0002))))


def kind_of(picture: Picture, size: int) -> Literal["photo", "drawing"]:
    """Decide whether a picture is a photo or a line drawing, for a model whose images are `size` pixels wide.

    A drawing has a few narrow strokes of about the same darkness, on paper that is empty and has one colour.
    """
    page = _on_paper(picture)
    if _saved_lines(page, size) is not None:
        return "drawing"
    grey = _reduced(_dark_on_light(page), _TESTED)
    ink = _ink(grey, _paper_of(grey))
    strokes = _strokes(ink)
    inked = int(strokes.sum())
    if not 0 < inked <= _MOST_INK * strokes.size or ink.noise > _MOST_NOISE:
        return "photo"
    if opened(strokes, _widest(_longer_side(strokes)) + 1).sum() > _MOST_AREAS * inked:
        return "photo"
    if (ink.values[thinned(strokes)] < _STRONG * ink.darkest).mean() > _MOST_FAINT:
        return "photo"
    far = ~any_in_squares(np.pad(strokes, 1), 3)  # from strokes, whose borders are pale
    other = np.abs(ink.values[far]) > max(_PALE, 6 * ink.noise)
    colours = np.asarray(_reduced(page.convert("RGB"), _TESTED), dtype=np.float64)
    colourful = np.ptp(colours - np.median(colours, axis=(0, 1)), axis=2) > _COLOURED
    return "photo" if max(other.sum(), colourful[far].sum()) > _MOST_OTHER * inked else "drawing"


def lines_of(picture: Picture, size: int) -> Flags:
    """Return the lines of a drawing for a model whose images are `size` pixels wide: [size, size] bool, True on lines.

    Raise ValueError if the drawing has no lines.
    """
    page = _on_paper(picture)
    saved = _saved_lines(page, size)
    if saved is not None:
        return saved
    grey = _dark_on_light(page)
    sheet = _reduced(grey, _SHEET)
    paper = _paper_of(sheet)
    lines = _centre_lines(_ink(sheet, paper), longer=max(sheet.size), speck=_SPECK_ON_SHEET)
    if lines.any():
        part, box = _enlarged(grey, lines, size)
        lines = _centre_lines(_ink(part, paper, box), longer=round(_FINE * FILLED * size), speck=_SPECK)
    if not lines.any():
        raise ValueError(
            f"{picture.name} has no lines: give a drawing with dark lines on light paper, or light lines on dark paper"
        )
    return _at_size(lines, size)


def square_page(picture: Picture, *, channels: int, size: int) -> Image.Image:
    """Return the whole drawing as it was given, at size x size pixels, with more paper around it if it is no square."""
    page = _on_paper(picture).convert("L" if channels == 1 else "RGB")
    paper = tuple(int(level) for level in np.median(np.asarray(_reduced(page, size)).reshape(-1, channels), axis=0))
    return ImageOps.pad(page, (size, size), Image.Resampling.LANCZOS, color=paper[0] if channels == 1 else paper)


def _saved_lines(page: Image.Image, size: int) -> Flags | None:
    """Return the lines of a page that is already a picture of thin lines at the model's size; None if it is not.

    The pixels may have been repeated to enlarge the page, as on a contact sheet.
    """
    times, rest = divmod(page.width, size)
    if page.width != page.height or rest:
        return None
    levels = np.asarray(page.convert("RGB"))
    small = levels[::times, ::times]
    black, white = ((small == level).all(axis=2) for level in (0, 255))
    if not (black | white).all() or not np.array_equal(small.repeat(times, axis=0).repeat(times, axis=1), levels):
        return None
    lines: Flags = black if 2 * black.sum() <= black.size else white
    return lines if lines.any() and not opened(lines, 3).any() else None


def _on_paper(picture: Picture) -> Image.Image:
    """Return the picture on white, or on black if all its opaque pixels are light."""
    if picture.alpha is None or (np.asarray(picture.colours.convert("L"))[~picture.transparent] < 128).any():
        return picture.on_white()
    page = Image.new(picture.colours.mode, picture.size, "black")
    page.paste(picture.colours, mask=Image.fromarray(picture.alpha))
    return page


def _dark_on_light(page: Image.Image) -> Image.Image:
    """Convert a drawing to grey, with dark lines on light paper. Lines of any colour become dark."""
    grey = _reduced(page.convert("L"), _TESTED)
    levels = _levels(grey)
    if ((levels - _paper_of(grey).levels(levels.shape)) ** 3).sum() > 0:  # the lines are lighter than the paper
        page = ImageOps.invert(page)
    if page.mode == "L":
        return page
    red, green, blue = page.split()
    return ImageChops.darker(ImageChops.darker(red, green), blue)


def _enlarged(grey: Image.Image, lines: Flags, size: int) -> tuple[Image.Image, _Box]:
    """Cut out the drawing, which was found as `lines` on a smaller copy of the page, and resize it for thinning.

    Also return which part of the page this is.
    """
    left, top, right, bottom = (edge * max(grey.size) / max(lines.shape) for edge in _bounds(lines))
    longer = max(right - left, bottom - top)
    margin, scale = _MARGIN * longer, _FINE * FILLED * size / longer
    left, top = max(0.0, left - margin), max(0.0, top - margin)
    right, bottom = min(grey.width, right + margin), min(grey.height, bottom + margin)
    shape = max(1, round((right - left) * scale)), max(1, round((bottom - top) * scale))
    part = grey.resize(shape, Image.Resampling.BICUBIC, box=(left, top, right, bottom))
    return part, (left / grey.width, top / grey.height, right / grey.width, bottom / grey.height)


def _centre_lines(ink: _Ink, *, longer: int, speck: float) -> Flags:
    """Return the centre lines of the strokes on a page, without specks.

    longer: the longer side of the drawing in pixels. speck: the size of specks, relative to it.
    """
    strokes = without_specks(_strokes(ink), max(2, round(speck * longer)))
    return centre_lines(strokes, widest=_widest(longer))


def _widest(longer: int) -> int:
    """Return the width of the widest lines of a drawing, whose longer side is given in pixels."""
    return max(2, round(_WIDEST_LINE * longer))


def _strokes(ink: _Ink) -> Flags:
    """Return [H, W] bool: True where a page is much darker than its paper."""
    darkest = ink.darkest
    if darkest < max(_LEAST_INK, 6 * ink.noise):
        return np.zeros(ink.values.shape, dtype=bool)
    thresholds = max(_WEAK * darkest, 4 * ink.noise), max(_STRONG * darkest, 5 * ink.noise)
    weak, strong = (torch.from_numpy(ink.values > threshold)[None, None] for threshold in thresholds)
    strokes: Flags = grown(strong, within=weak)[0, 0].numpy()
    return strokes


def _ink(grey: Image.Image, paper: _Paper, box: _Box = _WHOLE) -> _Ink:
    """Return the darkness of a part of a page."""
    levels = _levels(grey)
    white = paper.levels(levels.shape, box)
    values = (white - levels) / np.maximum(white, 0.05)
    return _Ink(values, float(np.median(np.abs(np.diff(values)))) if values.shape[1] > 1 else 0.0)


def _paper_of(grey: Image.Image) -> _Paper:
    """Estimate the level of the paper of a page.

    The polynomial is fitted to samples of the page by least absolute differences, on which ink has little influence,
    because most of the page is paper.
    """
    levels = _levels(grey)
    rows, columns = (np.linspace(0, n - 1, min(n, _SAMPLES)).round().astype(int) for n in levels.shape)
    powers = np.indices((_DEGREE + 1,) * 2)
    i, j = powers[:, powers.sum(axis=0) <= _DEGREE]
    in_y, in_x = (_powers(n)[at] for n, at in zip(levels.shape, (rows, columns), strict=True))
    terms = (in_y[:, None, i] * in_x[None, :, j]).reshape(-1, len(i))
    samples = levels[np.ix_(rows, columns)].ravel()
    factors, difference = np.zeros((_DEGREE + 1,) * 2), samples - np.median(samples)
    for _ in range(_FITS):
        weighted = terms / np.maximum(np.abs(difference), 0.01)[:, None]
        factors[i, j] = np.linalg.lstsq(weighted.T @ terms, weighted.T @ samples, rcond=None)[0]
        difference = samples - terms @ factors[i, j]
    return _Paper(factors)


def _powers(n: int, start: float = 0.0, end: float = 1.0) -> _Levels:
    """Return [n, degree + 1]: Legendre polynomials at n pixels from `start` to `end`, relative to a side of a page."""
    at = start + (np.arange(n) + 0.5) / n * (end - start)
    powers: _Levels = legvander(2 * at - 1, _DEGREE).astype(np.float64)
    return powers


def _at_size(lines: Flags, size: int) -> Flags:
    """Draw lines at the model's size, in its middle, so that their longer side fills `FILLED` of it."""
    left, top, right, bottom = _bounds(lines)
    scale = FILLED * size / max(right - left, bottom - top)
    y, x = np.nonzero(lines)
    column, row = (
        np.floor((at + 0.5 - middle) * scale + size / 2).astype(int)
        for at, middle in ((x, (left + right) / 2), (y, (top + bottom) / 2))
    )
    length = scale * np.bincount(row * size + column, minlength=size * size).reshape(size, size)
    crossed: Flags = length >= min(_CROSSED, length.max())
    # Like edges of photos, the lines have corners where they turn, but no blocks of 2 x 2 pixels.
    return crossed & (thinned(crossed) | ~opened(crossed, 2))


def _bounds(lines: Flags) -> tuple[int, int, int, int]:
    """Return the left, top, right and bottom edge of the pixels that are True."""
    rows, columns = np.flatnonzero(lines.any(axis=1)), np.flatnonzero(lines.any(axis=0))
    return int(columns[0]), int(rows[0]), int(columns[-1]) + 1, int(rows[-1]) + 1


def _longer_side(strokes: Flags) -> int:
    left, top, right, bottom = _bounds(strokes)
    return max(right - left, bottom - top)


def _reduced(page: Image.Image, longest: int) -> Image.Image:
    """Reduce a page so that its longer side has at most this many pixels."""
    share = longest / max(page.size)
    if share >= 1:
        return page
    return page.resize((max(1, round(page.width * share)), max(1, round(page.height * share))), Image.Resampling.BOX)


def _levels(grey: Image.Image) -> _Levels:
    return np.asarray(grey, dtype=np.float64) / 255
