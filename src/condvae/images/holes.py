"""The ways to specify hidden pixels: a black and white picture, a box, a half, a random hole, or transparent pixels."""

import operator
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple, SupportsIndex, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from condvae.images.archive import SUFFIXES
from condvae.images.reading import Picture, PictureLike, read_picture
from condvae.runtime.checks import check_choice
from condvae.runtime.fingerprints import FileId
from condvae.runtime.messages import listed, printable, shown
from condvae.runtime.pixels import PixelArray

Half: TypeAlias = Literal["left", "right", "top", "bottom"]
Box: TypeAlias = tuple[int, int, int, int]
"""A rectangle: x, y, width and height, in pixels of the upright picture."""
Flags: TypeAlias = npt.NDArray[np.bool_]

_WHITE = 128
WAYS = (
    "give a picture of the known pixels (--known), a picture of the hidden pixels (--hole), --box x,y,w,h, "
    "--half left|right|top|bottom or --random, or make pixels of the image itself transparent"
)


class Hidden(NamedTuple):
    """The result of `Hole.hidden`: which pixels of a picture are hidden."""

    pixels: Flags | None
    """[H, W], True where a pixel of the upright picture is hidden; None if the hole is yet to be made at model size."""
    notes: tuple[str, ...] = ()
    file: FileId | None = None
    """The picture file that the hole was read from, if any."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Hole:
    """How hidden pixels are specified: at most one field is set. If none is set, transparent pixels are hidden."""

    known: PictureLike | None = None
    """A picture that is white where pixels are known, or a bool array that is True there."""
    hole: PictureLike | None = None
    """A picture that is white where pixels are hidden, or a bool array that is True there."""
    box: Box | None = None
    """The rectangle of pixels that is hidden."""
    half: Half | None = None
    """The half that is hidden: a half of the picture's largest centred square, which is all that the model sees."""
    random: bool = False
    """Whether to draw a random hole, of the kind of holes that the model was trained with."""

    def __post_init__(self) -> None:
        if len(ways := self.ways) > 1:
            raise ValueError(f"hidden pixels are specified in {len(ways)} ways, {listed(ways)}: give only one")
        check_choice(self.random, "random", (True, False))
        if self.half is not None:
            check_choice(self.half, "the half", get_args(Half))
        if self.box is not None:
            object.__setattr__(self, "box", _whole_numbers(self.box))

    @property
    def ways(self) -> list[str]:
        """Names of the fields that are set: one, or none if transparent pixels are hidden."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return [way for way, value in values.items() if (bool(value) if way == "random" else value is not None)]

    @property
    def way(self) -> str:
        return (*self.ways, "transparency")[0]

    def for_file(self, path: Path) -> "Hole":
        """Return the hole for one of several image files.

        If the hole is a folder of pictures, use the picture with the name of the image file; suffixes may differ.
        """
        for way in ("known", "hole"):
            folder = getattr(self, way)
            if isinstance(folder, str | Path) and Path(folder).is_dir():
                picture: dict[str, Any] = {way: _picture_with_stem_of(path, Path(folder))}
                return replace(self, **picture)
        return self

    def hidden(self, picture: Picture) -> Hidden:
        """Return which pixels of the picture are hidden."""
        if self.box is not None:
            return Hidden(_box(self.box, picture))
        if self.known is not None:
            white = _white(self.known, "known", picture)
            return white._replace(pixels=None if white.pixels is None else ~white.pixels)
        if self.hole is not None:
            return _white(self.hole, "hidden", picture)
        if self.half is not None or self.random:
            return Hidden(None)
        if not (clear := picture.transparent).any():
            raise ValueError(f"{picture.name} has no transparent pixels, so specify which are hidden: {WAYS}")
        return Hidden(clear)

    def to_dict(self) -> dict[str, Any]:
        """Return the hole as a dictionary for a record, without its picture, which is recorded with each image."""
        plain: dict[str, Any] = {"way": self.way}
        if self.box is not None:
            plain["box"] = list(self.box)
        if self.half is not None:
            plain["half"] = self.half
        return plain


def known_half(half: Half, size: int) -> Flags:
    """Return [size, size] bool: False in the given half, which is hidden, and True in the other half."""
    known = np.ones((size, size), dtype=bool)
    middle = size // 2
    first, second = slice(0, middle), slice(middle, size)
    every = slice(None)
    hidden = {"left": (every, first), "right": (every, second), "top": (first, every), "bottom": (second, every)}
    known[hidden[half]] = False
    return known


def _whole_numbers(box: Sequence[SupportsIndex]) -> Box:
    try:
        x, y, width, height = (operator.index(number) for number in box)
    except (TypeError, ValueError):
        raise ValueError(f"the box is {shown(box)}, expected four whole numbers: x, y, width, height") from None
    return x, y, width, height


def _box(box: Box, picture: Picture) -> Flags:
    x, y, width, height = box
    right, bottom = picture.size
    if min(x, y) < 0 or min(width, height) < 1 or x + width > right or y + height > bottom:
        raise ValueError(
            f"the box {x},{y},{width},{height} does not lie inside {picture.name}, which is {right} x {bottom}: "
            "give x,y,width,height of a box inside this image"
        )
    hidden = np.zeros((bottom, right), dtype=bool)
    hidden[y : y + height, x : x + width] = True
    return hidden


def _white(source: PictureLike, meaning: str, picture: Picture) -> Hidden:
    """Return where `source`, a black and white picture that belongs to the image `picture`, is white.

    meaning: what white stands for, "known" or "hidden"; used in messages.
    """
    name = f"the picture of the {meaning} pixels"
    if isinstance(source, np.ndarray) and source.dtype == np.bool_:
        flags = source[:, :, 0] if source.ndim == 3 and source.shape[2] == 1 else source
        if flags.ndim != 2:
            raise ValueError(f"{name} has shape {source.shape}, expected [H, W]")
        _check_same_size(name, flags.shape[::-1], picture)
        return Hidden(flags.copy())
    read = read_picture(source, name=name)
    _check_same_size(read.name, read.size, picture)
    if read.alpha is not None:
        raise ValueError(
            f"{read.name} has transparent pixels, but should mark {meaning} pixels in white: give a black and white "
            "picture, or leave it out and make the hidden pixels of the image itself transparent"
        )
    levels: PixelArray = np.asarray(read.colours.convert("L"))
    if levels.max() == 1:
        raise ValueError(
            f"{read.name} has only the grey levels 0 and 1, which both count as black: multiply it by 255, "
            "or give an array of bool"
        )
    notes: tuple[str, ...] = ()
    if bool(((levels > 0) & (levels < 255)).any()):
        notes = (f"{read.name} has grey pixels: levels of {_WHITE} or more count as white, which means {meaning}",)
    return Hidden(levels >= _WHITE, notes, read.file)


def _check_same_size(name: str, size: tuple[int, ...], picture: Picture) -> None:
    if tuple(size) != picture.size:
        width, height = size
        raise ValueError(
            f"{name} is {width} x {height} but {picture.name} is {picture.size[0]} x {picture.size[1]}: "
            "give a picture of the image's size"
        )


def _picture_with_stem_of(path: Path, folder: Path) -> Path:
    found = [file for file in sorted(folder.iterdir()) if file.stem == path.stem and file.suffix.lower() in SUFFIXES]
    if not found:
        raise ValueError(
            f"{printable(folder)} contains no picture named {printable(path.stem)}, expected one for {printable(path)}"
        )
    if len(found) > 1:
        raise ValueError(
            f"{printable(folder)} contains {len(found)} pictures named {printable(path.stem)}, expected one"
        )
    return found[0]
