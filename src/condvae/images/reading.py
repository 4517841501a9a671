"""Read a picture from a file, a PIL image, an array or a tensor, as upright 8-bit colours with separate opacity."""

import hashlib
import io
import logging
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias

import numpy as np
import numpy.typing as npt
from PIL import Image, UnidentifiedImageError
from torch import Tensor

from condvae.images.decode import DecodedImage, eight_bits, layers
from condvae.images.image_files import FORMATS, MOST_PIXELS, check_image_bytes, check_pixels, open_image
from condvae.runtime.fingerprints import FileId
from condvae.runtime.messages import listed, printable, reason_of, short
from condvae.runtime.pixels import PixelArray

PictureLike: TypeAlias = str | Path | BinaryIO | Image.Image | npt.NDArray[Any] | Tensor
"""A path, an open binary file or `io.BytesIO`, a PIL image, an array [H, W] or [H, W, C], or a tensor [C, H, W]."""

_OPAQUE = 128
_LONGEST_REASON = 120

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
    masked: npt.NDArray[np.bool_] | None = None
    """[H, W] bool: True where a pixel of a NumPy masked array is masked; None if no pixel is."""
    icc_profile: bytes | None = None
    """The colour profile that the file or the PIL image contains, if any."""
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
            return _from_image(source, name, white)
    if isinstance(source, Tensor):
        source = array_of(source, name)
    if isinstance(source, np.ma.MaskedArray):
        data, masked = _unmasked(source)
        return replace(_picture(name, _from_array(data, name, white)), masked=masked)
    if isinstance(source, np.ndarray):
        return _picture(name, _from_array(source, name, white))
    if callable(getattr(source, "read", None)):
        return _from_stream(source, name, white)
    given: Any = source  # a caller may give an object of another type
    raise ValueError(
        f"{name} is a {type(given).__name__}, expected a path, an open binary file, a PIL image, a NumPy array "
        f"[H, W, C] or a tensor [C, H, W]{': wrap it in io.BytesIO' if isinstance(given, bytes) else ''}"
    )


def _from_file(path: Path, white: int | None) -> Picture:
    name = printable(path)
    if path.is_dir():
        raise ValueError(f"{name} is a folder, expected an image file")
    if path.exists() and not path.is_file():
        raise ValueError(f"{name} is not a regular file, expected an image file")
    with _in_one_sentence(name), path.open("rb") as file:
        check_image_bytes(os.fstat(file.fileno()).st_size, name)
        sha256 = hashlib.file_digest(file, "sha256").hexdigest()
        file.seek(0)
        with open_image(file, name=name) as image:
            return _from_image(image, name, white, FileId(path, sha256))


def _from_stream(stream: Any, name: str, white: int | None) -> Picture:
    if isinstance(path := getattr(stream, "name", None), str):
        name = printable(path)
    if isinstance(stream, io.TextIOBase):
        raise ValueError(f"{name} is open as text, expected a binary file: open it with mode 'rb'")
    with _in_one_sentence(name), open_image(stream, name=name) as image:
        return _from_image(image, name, white)


def _from_image(image: Image.Image, name: str, white: int | None, file: FileId | None = None) -> Picture:
    picture = _picture(name, _layers(image, name, white), file)
    profile = image.info.get("icc_profile")
    return replace(picture, icc_profile=profile) if profile and isinstance(profile, bytes) else picture


def _picture(name: str, parts: DecodedImage, file: FileId | None = None) -> Picture:
    alpha = None if parts.alpha is None else np.asarray(parts.alpha)
    if alpha is not None and bool((alpha == 255).all()):
        alpha = None
    notes = (f"{name} {parts.note}",) if parts.note else ()
    return Picture(name=name, colours=parts.colours, alpha=alpha, file=file, notes=notes)


def _layers(image: Image.Image, name: str, white: int | None) -> DecodedImage:
    check_pixels(*image.size, name)
    with _silenced() if image.format == "TIFF" else nullcontext():
        image.load()
        return layers(image, white=white)


def _from_array(array: npt.NDArray[Any], name: str, white: int | None) -> DecodedImage:
    note = ""
    if array.dtype == np.bool_:
        raise ValueError(f"{name} is an array of bool, expected grey levels 0..255 as uint8, or numbers in [0, 1]")
    if array.ndim not in (2, 3) or (array.ndim == 3 and array.shape[2] not in (1, 3, 4)):
        several = ": for several images, give a list of arrays" if array.ndim == 4 else ""
        raise ValueError(
            f"{name} has shape {array.shape}, expected [H, W] or [H, W, C] with 1, 3 or 4 channels{several}"
        )
    check_pixels(array.shape[1], array.shape[0], name)
    if np.issubdtype(array.dtype, np.floating):
        low, high = float(array.min()), float(array.max())
        if not (low >= 0 and high <= 1):  # so that NaN is refused too
            raise ValueError(
                f"{name} contains numbers from {low:g} to {high:g}, expected numbers in [0, 1], or uint8"
                f"{_conversion(low, high)}"
            )
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


def array_of(tensor: Tensor, name: str) -> npt.NDArray[Any]:
    """Convert a tensor [C, H, W] or [1, C, H, W] to an array [H, W, C], and a tensor [H, W] to an array [H, W]."""
    one = tensor[0] if tensor.ndim == 4 and len(tensor) == 1 else tensor
    if one.ndim not in (2, 3) or (one.ndim == 3 and one.shape[0] not in (1, 3, 4)):
        several = ": for several images, give a list of tensors" if tensor.ndim == 4 else ""
        raise ValueError(
            f"{name} is a tensor of shape {tuple(tensor.shape)}, expected [C, H, W] with 1, 3 or 4 channels{several}"
        )
    with _in_one_sentence(name):
        array = (one.float() if one.is_floating_point() else one).detach().cpu().numpy()
    return array if one.ndim == 2 else array.transpose(1, 2, 0)


def _unmasked(array: "np.ma.MaskedArray[Any, Any]") -> tuple[npt.NDArray[Any], npt.NDArray[np.bool_] | None]:
    """Return the data of a masked array, and [H, W] bool: which pixels are masked in any channel; None if none is."""
    data, masked = np.array(np.ma.getdata(array)), np.ma.getmaskarray(array)
    if np.issubdtype(data.dtype, np.floating):  # masked numbers may be anything, such as NaN
        data[masked] = np.clip(np.nan_to_num(data[masked]), 0, 1)
    pixels: npt.NDArray[np.bool_] = np.any(masked, axis=2) if masked.ndim == 3 else masked
    return data, pixels if pixels.any() else None


def _conversion(low: float, high: float) -> str:
    """Say how to convert numbers to [0, 1], if their range shows what they are."""
    if -1 <= low < 0 and high <= 1:
        return ": convert numbers in [-1, 1] with (x + 1) / 2"
    return ": divide grey levels by 255" if low >= 0 and high <= 255 else ""


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
        raise ValueError(f"{name} is not an image that can be read: expected {listed(FORMATS, last='or')}") from None
    except FileNotFoundError:
        raise ValueError(f"{name} does not exist: check the path") from None
    except Image.DecompressionBombError:
        raise ValueError(f"{name} has more than {MOST_PIXELS // 10**6} million pixels: make it smaller") from None
    except MemoryError:
        raise ValueError(f"{name} needs more memory than is available: make it smaller") from None
    except Exception as error:
        if isinstance(error, ValueError) and str(error).startswith(name):
            raise
        if isinstance(error, ValueError) and str(error).startswith("the image has "):  # pixels of another kind
            raise ValueError(str(error).replace("the image", name, 1)) from error
        if isinstance(error, OSError) and error.errno is not None:
            raise ValueError(f"{name} cannot be read: {error.strerror}") from error
        raise ValueError(
            f"{name} is damaged, or not an image that can be read: {short(reason_of(error), _LONGEST_REASON)}"
        ) from error
