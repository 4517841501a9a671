"""Decode image files of any format, mode and orientation to upright arrays of 8-bit levels."""

from typing import Any, BinaryIO, NamedTuple

import numpy as np
import numpy.typing as npt
from PIL import Image

from condvae.images.image_files import open_image
from condvae.runtime.pixels import PixelArray

# Modes that cannot hold a colour. A file of another mode may still be grey: WebP, for example, has no grey mode.
_GREY_MODES = frozenset({"1", "L", "LA", "I", "I;16", "I;16B", "I;16L", "I;16N"})
_ALPHA_MODES = frozenset({"LA", "PA", "RGBA", "RGBa"})
_ORIENTATION = 0x0112
# EXIF orientation -> the operation that turns the image upright
_UPRIGHT = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
_SIDEWAYS = (5, 6, 7, 8)
_PIXELS_COMPARED = 2**20
# Tags of TIFF files
_BITS_PER_SAMPLE, _WHITE_IS_ZERO, _MAX_SAMPLE_VALUE = 258, 262, 281
_DEPTHS = (8, 10, 12, 14, 16)
"""The bit depths of sensors, one of which is assumed for 16-bit pixels."""
_FULL = 2**16 - 1


class ImageHeader(NamedTuple):
    """Properties of an image file, read from its header."""

    width: int
    height: int
    grey: bool  # True: certainly grey. False: the pixels have to be checked


def read_header(file: BinaryIO) -> ImageHeader:
    """Return the size of the upright image, and whether it is grey. Decode the pixels only if this is unavoidable."""
    with open_image(file) as image:
        width, height = image.size
        if width != height:  # a square keeps its size when turned, so most files need no search for EXIF data
            if image.format == "TIFF":  # Pillow turns these itself, on opening or loading depending on its version
                image.load()
            width, height = image.size
            if image.getexif().get(_ORIENTATION) in _SIDEWAYS:
                width, height = height, width
        return ImageHeader(width, height, image.mode in _GREY_MODES)


def decode(file: BinaryIO, *, channels: int, size: int | None, pair: bool = False) -> PixelArray:
    """Return the first picture in the file, upright, as [H, W, channels] uint8.

    size: if given, crop the picture to its largest centred square and resize this square to size x size pixels.
    pair: the file contains two square pictures side by side. They are resized separately, and returned side by side.
    """
    with open_image(file) as opened:
        image = layers(opened).on_white()
    if not pair:
        return fit(image, channels=channels, size=size)
    side = image.height
    halves = (image.crop((left, 0, left + side, side)) for left in (0, side))
    return np.concatenate([fit(half, channels=channels, size=size) for half in halves], axis=1)


class DecodedImage(NamedTuple):
    """An upright picture, whose colours and opacity are two separate images."""

    colours: Image.Image  # L or RGB, as in the file, including the colours of transparent pixels
    alpha: Image.Image | None  # L: 255 is opaque
    note: str = ""
    """What was assumed about the level of white, to be printed after the picture's name; empty if nothing was."""

    def on_white(self) -> Image.Image:
        """Return the picture on a white background."""
        if self.alpha is None:
            return self.colours
        page = Image.new(self.colours.mode, self.colours.size, "white")
        page.paste(self.colours, mask=self.alpha)
        return page


def layers(image: Image.Image, *, turn: bool = True, white: int | None = None) -> DecodedImage:
    """Turn an opened image upright, and separate its colours from its opacity; of several frames, use the first.

    turn: False leaves the image as it is stored, for callers to whom the orientation does not matter.
    white: the grey level that is white in an image with 16-bit pixels; None to use what the file states, or else what
    `eight_bits` assumes. Images with 8-bit pixels do not need it.
    """
    mode, info, note = image.mode, image.info, ""
    alpha = None
    if mode == "F":
        raise ValueError(
            "the image has floating-point pixels, so the level of white is unknown: convert it to 8 or 16 bits"
        )
    if mode.startswith("I"):
        levels = np.asarray(image)
        grey, note = eight_bits(levels, white or _stated_white(image, levels))
        if image.format == "TIFF" and getattr(image, "tag_v2", {}).get(_WHITE_IS_ZERO) == 0:
            grey = 255 - grey  # Pillow inverts such files only if they have 8 bits
        colours = Image.fromarray(grey)
        if isinstance(clear := info.get("transparency"), int):  # one grey level that is transparent
            alpha = Image.fromarray(np.where(levels == clear, np.uint8(0), np.uint8(255)))
    elif mode in _ALPHA_MODES or "transparency" in info or _clear_palette(image):
        rgba = image.convert("RGBA")
        colours, alpha = rgba.convert("L" if mode in _GREY_MODES else "RGB"), rgba.getchannel("A")
    else:
        colours = image.convert("L" if mode in _GREY_MODES else "RGB")
    if not turn:
        return DecodedImage(colours, alpha, note)
    return DecodedImage(_turned(colours, image), None if alpha is None else _turned(alpha, image), note)


def eight_bits(levels: npt.NDArray[Any], white: int | None = None) -> tuple[PixelArray, str]:
    """Scale 16-bit grey levels to 8 bits, so that the level `white` becomes 255; higher levels become 255 too.

    If white is None, it is the highest level of the bit depth that the levels need: the smallest of 8, 10, 12, 14 and
    16 bits that holds the largest level. Many sensors have 10 to 14 bits and store them in 16-bit files, which would
    otherwise look nearly black. If fewer than 16 bits are assumed, a note for the user is returned too.
    """
    low, largest, note = int(levels.min()), int(levels.max()), ""
    if white is None:
        if low < 0 or largest > _FULL:
            raise ValueError(
                "the image has 32-bit pixels, so the level of white is unknown: convert it to 8 or 16 bits, or give "
                "the level of white with --white"
            )
        depth = next(bits for bits in _DEPTHS if largest < 2**bits)
        white = 2**depth - 1
        if white < _FULL:
            article = "an" if depth == 8 else "a"
            note = (
                f"has 16-bit pixels with levels up to {largest:,}: it is read as {article} {depth}-bit image; "
                "give --white LEVEL to set the level of white"
            )
    highest = min(white, np.iinfo(levels.dtype).max)
    nearest: npt.NDArray[Any] = levels.clip(0, highest).astype(np.uint32 if white <= _FULL else np.uint64)
    nearest *= 255  # computed in place from here on, because pictures may be large
    nearest += white // 2
    nearest //= white
    return nearest.astype(np.uint8), note


def is_grey(file: BinaryIO) -> bool:
    """Return whether red, green and blue are equal in every pixel of the image."""
    with open_image(file) as opened:
        image = layers(opened, turn=False).on_white()
    if image.mode == "L":
        return True
    rows = max(1, _PIXELS_COMPARED // image.width)  # in strips, because most pictures have a colour in the first one
    for top in range(0, image.height, rows):
        pixels = np.asarray(image.crop((0, top, image.width, min(top + rows, image.height))))
        if not ((pixels[..., 0] == pixels[..., 1]).all() and (pixels[..., 0] == pixels[..., 2]).all()):
            return False
    return True


def fit(image: Image.Image, *, channels: int, size: int | None) -> PixelArray:
    """Crop an L or RGB image to its largest centred square, and resize this square to size x size pixels.

    If size is None, the whole image is returned at its own size. channels: 1 converts colours to their luminance; 3
    repeats the level of a grey image. Pillow's Lanczos filter averages over the area when it shrinks an image.
    """
    mode = "L" if channels == 1 else "RGB"
    if image.mode != mode:
        image = image.convert(mode)
    if size is not None and image.size != (size, size):
        side = min(image.size)
        left, top = (image.width - side) // 2, (image.height - side) // 2
        image = image.crop((left, top, left + side, top + side))
        if side != size:
            image = image.resize((size, size), Image.Resampling.LANCZOS)
    return np.asarray(image, dtype=np.uint8).reshape(image.height, image.width, channels)


def _clear_palette(image: Image.Image) -> bool:
    return image.mode == "P" and image.palette is not None and image.palette.mode.endswith("A")


def _turned(image: Image.Image, by: Image.Image) -> Image.Image:
    """Turn an image upright as the EXIF data of the image `by` require; ignore EXIF data that cannot be read."""
    try:
        turn = _UPRIGHT.get(by.getexif().get(_ORIENTATION, 1))
    except Exception:  # Pillow's parser raises exceptions of every type
        turn = None
    return image if turn is None else image.transpose(turn)


def _stated_white(image: Image.Image, levels: npt.NDArray[Any]) -> int | None:
    """Return the level of white that an image with 16-bit pixels states; None if it states none below the highest."""
    if image.format == "PPM":
        return _FULL  # Pillow has scaled the levels already, by the level of white in the file
    tags = getattr(image, "tag_v2", {}) if image.format == "TIFF" else {}
    most = tags.get(_MAX_SAMPLE_VALUE)
    stated = [2**12 - 1] if tags.get(_BITS_PER_SAMPLE) == (12,) else []
    stated += [value for value in (most if isinstance(most, tuple) else (most,)) if isinstance(value, int)]
    white = min(stated, default=_FULL)
    return white if 0 < white < _FULL and levels.max() <= white else None
