"""The ways to specify hidden pixels: a black and white picture, a box, a half, part of a face, and others."""

import operator
from collections.abc import Sequence
from dataclasses import InitVar, dataclass, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple, SupportsIndex, TypeAlias, get_args

import numpy as np
import numpy.typing as npt
from torch import Tensor

from condvae.images.image_meanings import FacePart
from condvae.images.reading import Picture, PictureLike, array_of, read_picture
from condvae.images.recorded_files import PICTURE_SUFFIXES
from condvae.runtime.checks import check_choice
from condvae.runtime.fingerprints import FileId
from condvae.runtime.messages import listed, printable, shown
from condvae.runtime.pixels import PixelArray

Half: TypeAlias = Literal["left", "right", "top", "bottom"]
MaskMeaning: TypeAlias = Literal["hole", "known"]
"""What the white pixels of a mask are: hidden or known."""
Box: TypeAlias = tuple[int, int, int, int]
"""A rectangle: x, y, width and height, in pixels of the upright picture."""
Flags: TypeAlias = npt.NDArray[np.bool_]

_WHITE = 128
_STRETCHED = 0.01
"""If a mask is resized, a larger relative change of its proportions is mentioned."""
_FIELDS = ("known", "hole", "box", "half", "part", "random")
_WAYS = (
    "give {}a picture of the known pixels (--known), a picture of the hidden pixels (--hole), --box x,y,w,h, "
    "--half left|right|top|bottom or --random, or make pixels of the image itself transparent"
)


class Hidden(NamedTuple):
    """The result of `Hole.hidden`: which pixels of a picture are hidden."""

    pixels: Flags | None
    """[H, W], True where a pixel of the upright picture is hidden; None if the hole is yet to be made at model size."""
    notes: tuple[str, ...] = ()
    file: FileId | None = None
    """The picture file that the hole was read from, if any."""
    why_nothing: str = ""
    """If a black and white picture hides no pixel, this says why, and what to do."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Hole:
    """How hidden pixels are specified: in at most one way. If none is given, transparent pixels are hidden.

    mask: a picture as for `known` or `hole`. mask_is, which is "known" or "hole", says for which of them.
    """

    known: PictureLike | None = None
    """A picture that is white where pixels are known, or a bool array that is True there."""
    hole: PictureLike | None = None
    """A picture that is white where pixels are hidden, or a bool array that is True there."""
    box: Box | None = None
    """The rectangle of pixels that is hidden."""
    half: Half | None = None
    """The half that is hidden, of the square that the model sees."""
    part: FacePart | None = None
    """The part of a face that is hidden."""
    random: bool = False
    """Whether to draw a random hole, of the kind of holes that the model was trained with."""
    fit_mask: bool = False
    """Whether to resize the picture in `known` or `hole` to the size of the image, if their sizes differ."""
    mask: InitVar[PictureLike | None] = None
    mask_is: InitVar[MaskMeaning | None] = None

    def __post_init__(self, mask: PictureLike | None, mask_is: MaskMeaning | None) -> None:
        if mask_is is not None:
            check_choice(mask_is, "mask_is", get_args(MaskMeaning))
        ways = self.ways if mask is None else [*self.ways, "mask"]
        if len(ways) > 1:
            raise ValueError(f"hidden pixels are specified in {len(ways)} ways, {listed(ways)}: give only one")
        if mask is None and mask_is is not None:
            raise ValueError(
                f"--mask-is {mask_is} (mask_is in Python) was given without a mask: give the mask too, or leave it out"
            )
        if mask is not None:
            if mask_is is None:
                raise ValueError(
                    "a mask can mean two things: if its white (or True) pixels are hidden, give it as hole, or add "
                    'mask_is="hole"; if they are known, give it as known, or add mask_is="known"'
                )
            object.__setattr__(self, mask_is, mask)
        check_choice(self.fit_mask, "fit_mask", (True, False))
        if self.fit_mask and self.known is None and self.hole is None:
            raise ValueError(
                "--fit-mask (fit_mask in Python) was given without a picture of known or hidden pixels: leave it out"
            )
        check_choice(self.random, "random", (True, False))
        if self.half is not None:
            check_choice(self.half, "the half", get_args(Half))
        if self.part is not None:
            check_choice(self.part, "the part of the face", get_args(FacePart))
        if self.box is not None:
            object.__setattr__(self, "box", _whole_numbers(self.box))

    @property
    def ways(self) -> list[str]:
        """Names of the fields that are set: one, or none if transparent pixels are hidden."""
        values = {name: getattr(self, name) for name in _FIELDS}
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

    def for_picture(self, picture: Picture) -> "Hole":
        """Return the hole for one picture: the masked pixels, if the picture is a NumPy masked array."""
        if picture.masked is None or self.hole is picture.masked:
            return self
        if self.ways or picture.transparent.any():
            raise ValueError(
                f"hidden pixels are specified in 2 ways, the mask of the array and {self.way}: give only one; "
                "numpy.ma.getdata(array) is the array without its mask"
            )
        return Hole(hole=picture.masked)

    def hidden(self, picture: Picture, *, in_face: bool = False) -> Hidden:
        """Return which pixels of the picture are hidden. in_face: whether parts of a face can be hidden."""
        if self.box is not None:
            return Hidden(_box(self.box, picture))
        if self.known is not None:
            return _marked(self.known, "known", picture, fit=self.fit_mask)
        if self.hole is not None:
            return _marked(self.hole, "hidden", picture, fit=self.fit_mask)
        if self.half is not None or self.part is not None or self.random:
            return Hidden(None)
        if not (clear := picture.transparent).any():
            ways = _WAYS.format(f"--part {'|'.join(get_args(FacePart))}, " if in_face else "")
            raise ValueError(f"{picture.name} has no transparent pixels, so specify which are hidden: {ways}")
        return Hidden(clear)

    def to_dict(self) -> dict[str, Any]:
        """Return the hole as a dictionary for a record, without its picture, which is recorded with each image."""
        plain: dict[str, Any] = {"way": self.way}
        if self.box is not None:
            plain["box"] = list(self.box)
        if self.half is not None:
            plain["half"] = self.half
        if self.part is not None:
            plain["part"] = self.part
        if self.fit_mask:
            plain["fit_mask"] = True
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


def _marked(source: PictureLike, meaning: Literal["known", "hidden"], picture: Picture, *, fit: bool) -> Hidden:
    """Return which pixels of the image `picture` are hidden, by a picture in which white means known or hidden.

    fit: resize the black and white picture to the size of the image.
    """
    name, found = _read_marks(source, meaning)
    hidden = found.pixels
    assert hidden is not None
    (height, width), (new_width, new_height) = hidden.shape, picture.size
    if (width, height) == (new_width, new_height):
        return found
    is_of_size, size = f"{name} is {width} x {height}", f"{new_width} x {new_height}"
    if not fit:
        raise ValueError(
            f"{is_of_size} but {picture.name} is {size}: give a picture of the image's size, or let --fit-mask (in "
            "Python, fit_mask=True) resize it"
        )
    stretched = abs(width * new_height / (new_width * height) - 1) > _STRETCHED
    note = f"{is_of_size}: it is resized to {size}{', which changes its proportions' if stretched else ''}"
    hidden = _resized(_resized(hidden, new_height, axis=0), new_width, axis=1)
    return found._replace(pixels=hidden, notes=(*found.notes, note))


def _read_marks(source: PictureLike, meaning: Literal["known", "hidden"]) -> tuple[str, Hidden]:
    """Read a black and white picture in which white means known or hidden; return its name too."""
    name = f"the picture of the {meaning} pixels"
    if isinstance(source, np.ma.MaskedArray):
        raise ValueError(
            f"{name} is a masked array, expected a plain one: give its mask (numpy.ma.getmaskarray) or its data"
        )
    if isinstance(source, Tensor):
        source = array_of(source, name)
    if isinstance(source, np.ndarray) and source.dtype == np.bool_:
        flags = source[:, :, 0] if source.ndim == 3 and source.shape[2] == 1 else source
        if flags.ndim != 2 or not flags.size:
            raise ValueError(f"{name} has shape {source.shape}, expected [H, W]")
        is_known = meaning == "known"
        return name, Hidden(
            ~flags if is_known else flags.copy(),
            why_nothing=f"{name} is {is_known} everywhere: set the hidden pixels to {not is_known}",
        )
    read = read_picture(source, name=name)
    if read.alpha is not None:
        raise ValueError(
            f"{read.name} has transparent pixels, but should mark {meaning} pixels in white: give a black and white "
            "picture, or leave it out and make the hidden pixels of the image itself transparent"
        )
    levels: PixelArray = np.asarray(read.colours.convert("L"))
    low, high = int(levels.min()), int(levels.max())
    if high == 1:
        raise ValueError(
            f"{read.name} has only the grey levels 0 and 1, which both count as black: multiply it by 255, "
            "or give an array of bool"
        )
    notes: tuple[str, ...] = ()
    if meaning == "known" and 0 < high < _WHITE:
        notes = (f"no pixel is known, because {_level(read.name, 'brightest', high)}",)
    elif bool(((levels > 0) & (levels < 255)).any()):
        notes = (f"{read.name} has grey pixels: levels of {_WHITE} or more count as white, which means {meaning}",)
    if meaning == "known":
        why = f"{read.name} is white everywhere" if low == 255 else _level(read.name, "darkest", low)
        return read.name, Hidden(levels < _WHITE, notes, read.file, f"{why}: paint the hidden pixels black")
    why = f"{read.name} is black everywhere" if high == 0 else _level(read.name, "brightest", high)
    return read.name, Hidden(levels >= _WHITE, notes, read.file, f"{why}: paint the hidden pixels white")


def _level(name: str, which: str, level: int) -> str:
    return f"the {which} pixel of {name} has level {level}, and levels of {_WHITE} or more count as white"


def _resized(hidden: Flags, length: int, *, axis: int) -> Flags:
    """Resize an axis of flags to this length. If it becomes longer, the nearest flag is repeated.

    If it becomes shorter, a pixel is hidden if any of the pixels that it replaces is hidden, so that thin lines stay.
    """
    old = hidden.shape[axis]
    resized: Flags
    if length >= old:
        resized = hidden.take((2 * np.arange(length) + 1) * old // (2 * length), axis=axis)
        return resized
    new_of_old = (2 * np.arange(old) + 1) * length // (2 * old)
    resized = np.logical_or.reduceat(hidden, np.searchsorted(new_of_old, np.arange(length)), axis=axis)
    return resized


def _picture_with_stem_of(path: Path, folder: Path) -> Path:
    found = [
        file for file in sorted(folder.iterdir()) if file.stem == path.stem and file.suffix.lower() in PICTURE_SUFFIXES
    ]
    if not found:
        raise ValueError(
            f"{printable(folder)} contains no picture named {printable(path.stem)}, expected one for {printable(path)}"
        )
    if len(found) > 1:
        raise ValueError(
            f"{printable(folder)} contains {len(found)} pictures named {printable(path.stem)}, expected one"
        )
    return found[0]
