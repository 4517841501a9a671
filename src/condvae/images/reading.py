"""Read a picture from a file, a PIL image or an array, as upright 8-bit colours with separate opacity."""

import hashlib
import logging
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from PIL import Image, UnidentifiedImageError

from condvae.images.decode import DecodedImage, eight_bits, layers
from condvae.runtime.fingerprints import FileId
from condvae.runtime.messages import listed
from condvae.runtime.pixels import PixelArray

PictureLike: TypeAlias = str | Path | Image.Image | npt.NDArray[Any]

MOST_PIXELS = 100_000_000
"""Pictures with more pixels than this are refused before they are decoded."""
# Formats that Pillow loads first come first. Formats that start programs or read other files are left out.
_FORMATS = ("JPEG", "PNG", "GIF", "BMP", "PPM", "WEBP", "TIFF", "AVIF")
_OPAQUE = 128

logging.getLogger("PIL").addHandler(logging.NullHandler())  # its log messages also appear in exceptions


@dataclass(frozen=True, kw_only=True, eq=False)
class Picture:
    """A picture in memory: upright 8-bit colours, and opacity."""

    name: str
    """The words that stand for the picture in messages: its path, or for example "the image"."""
    colours: Image.Image
    """An image in mode L or RGB. Transparent pixels have the colours that are stored in the file."""
    alpha: PixelArray | None
    """[H, W] uint8: the opacity, where 255 is opaque; None if all pixels are opaque."""
    file: FileId | None = None
    """The file that the picture was read from, if any."""
    notes: tuple[str, ...] = ()
    """Messages for the user about how the picture was read, such as the level of white that was assumed."""

    @property
    def size(self) -> tuple[int, int]:
        """Width and height in pixels."""
        return self.colours.size

    @property
    def transparent(self) -> npt.NDArray[np.bool_]:
        """[H, W] bool: True where a pixel is less than half opaque."""
        if self.alpha is None:
            return np.zeros(self.size[::-1], dtype=bool)
        return self.alpha < _OPAQUE

    def on_white(self) -> Image.Image:
        """Return the picture on a white background."""
        if self.alpha is None:
            return self.colours
        page = Image.new(self.colours.mode, self.size, "white")
        page.paste(self.colours, mask=Image.fromarray(self.alpha))
        return page


def read_picture(source: PictureLike, *, name: str = "the image", white: int | None = None) -> Picture:
    """Read a picture; if this fails, raise a ValueError whose message is one sentence.

    The message names a file by its path, and any other source by `name`.
    white: the grey level that is white in a picture with 16-bit pixels; see `layers`.
    """
    if isinstance(source, str | Path):
        return _from_file(Path(source), white)
    if isinstance(source, Image.Image):
        with _in_one_sentence(name):
            return _picture(name, _layers(source, name, white))
    if isinstance(source, np.ndarray):
        return _picture(name, _from_array(source, name, white))
    raise ValueError(f"{name} is a {type(source).__name__}, expected a path, a PIL image or a NumPy array [H, W, C]")


def printable(path: str | os.PathLike[str]) -> str:
    """Return a path for a message, with question marks instead of unprintable characters such as line breaks."""
    return "".join(letter if letter.isprintable() else "?" for letter in str(path))


def _from_file(path: Path, white: int | None) -> Picture:
    name = printable(path)
    if path.is_dir():
        raise ValueError(f"{name} is a folder, expected an image file")
    if path.exists() and not path.is_file():
        raise ValueError(f"{name} is not a regular file, expected an image file")
    with _in_one_sentence(name), path.open("rb") as file:
        sha256 = hashlib.file_digest(file, "sha256").hexdigest()
        file.seek(0)
        with Image.open(file, formats=_FORMATS) as image:
            return _picture(name, _layers(image, name, white), FileId(path, sha256))


def _picture(name: str, parts: DecodedImage, file: FileId | None = None) -> Picture:
    alpha = None if parts.alpha is None else np.asarray(parts.alpha)
    if alpha is not None and bool((alpha == 255).all()):
        alpha = None
    notes = (f"{name} {parts.note}",) if parts.note else ()
    return Picture(name=name, colours=parts.colours, alpha=alpha, file=file, notes=notes)


def _layers(image: Image.Image, name: str, white: int | None) -> DecodedImage:
    _check_size(*image.size, name)
    with _silenced() if image.format == "TIFF" else nullcontext():
        image.load()
        return layers(image, white=white)


def _from_array(array: npt.NDArray[Any], name: str, white: int | None) -> DecodedImage:
    note = ""
    if array.dtype == np.bool_:
        raise ValueError(f"{name} is an array of bool, expected grey levels 0..255 as uint8, or numbers in [0, 1]")
    if array.ndim not in (2, 3) or (array.ndim == 3 and array.shape[2] not in (1, 3, 4)):
        raise ValueError(f"{name} has shape {array.shape}, expected [H, W] or [H, W, C] with 1, 3 or 4 channels")
    _check_size(array.shape[1], array.shape[0], name)
    if np.issubdtype(array.dtype, np.floating):
        low, high = float(array.min()), float(array.max())
        if not (low >= 0 and high <= 1):  # so that NaN is refused too
            raise ValueError(f"{name} contains numbers from {low:g} to {high:g}, expected numbers in [0, 1], or uint8")
        array = np.round(array.astype(np.float64) * 255).astype(np.uint8)
    elif array.dtype == np.uint16:
        array, note = eight_bits(array, white)
    elif array.dtype != np.uint8:
        raise ValueError(f"{name} is an array of {array.dtype}, expected uint8, uint16, or floats in [0, 1]")
    if array.ndim == 2 or array.shape[2] == 1:
        return DecodedImage(Image.fromarray(array.reshape(array.shape[:2])), None, note)
    array = np.ascontiguousarray(array)
    alpha = Image.fromarray(np.ascontiguousarray(array[:, :, 3])) if array.shape[2] == 4 else None
    return DecodedImage(Image.fromarray(np.ascontiguousarray(array[:, :, :3])), alpha, note)


def _check_size(width: int, height: int, name: str) -> None:
    if width < 1 or height < 1:
        raise ValueError(f"{name} is {width} x {height} pixels, expected at least 1 x 1")
    if width * height > MOST_PIXELS:
        raise ValueError(
            f"{name} is {width} x {height} pixels, expected at most {MOST_PIXELS // 10**6} million pixels in all: "
            "make it smaller"
        )


@contextmanager
def _silenced() -> Iterator[None]:
    """Inside the `with` block, discard what is written to stderr, because libtiff prints its warnings there."""
    kept = os.dup(2)
    try:
        with open(os.devnull, "wb") as nowhere:
            os.dup2(nowhere.fileno(), 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


@contextmanager
def _in_one_sentence(name: str) -> Iterator[None]:
    """Turn every exception in the `with` block into a ValueError of one sentence; Pillow raises many other types."""
    try:
        with warnings.catch_warnings():  # they are about harmless damage, or about sizes that we allow
            warnings.simplefilter("ignore")
            yield
    except UnidentifiedImageError:
        raise ValueError(f"{name} is not an image that can be read: expected {listed(_FORMATS, last='or')}") from None
    except FileNotFoundError:
        raise ValueError(f"{name} does not exist: check the path") from None
    except Image.DecompressionBombError:
        raise ValueError(f"{name} has more than {MOST_PIXELS // 10**6} million pixels: make it smaller") from None
    except MemoryError:
        raise ValueError(f"{name} needs more memory than is available: make it smaller") from None
    except Exception as error:
        if isinstance(error, ValueError) and str(error).startswith(name):
            raise
        if isinstance(error, OSError) and error.errno is not None:
            raise ValueError(f"{name} cannot be read: {error.strerror}") from error
        reason = printable(" ".join(str(error).split())[:120]) or type(error).__name__
        raise ValueError(f"{name} is damaged, or not an image that can be read: {reason}") from error
