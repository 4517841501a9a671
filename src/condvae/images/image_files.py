"""Open image files with Pillow: only formats that run no program, and only sizes that fit into memory."""

from pathlib import Path
from typing import BinaryIO

from PIL import Image, UnidentifiedImageError

# Formats that Pillow loads first come first. Formats that start programs or read other files are left out.
FORMATS = ("JPEG", "PNG", "GIF", "BMP", "PPM", "WEBP", "TIFF", "AVIF")
MOST_PIXELS = 100_000_000
"""Pictures with more pixels than this are refused before they are decoded."""
MOST_SIDE = 100_000
"""Pictures that are wider or higher than this are refused: turning them takes very long."""
MOST_IMAGE_BYTES = 2**30
"""Files with more bytes than this are refused: a picture of `MOST_PIXELS` pixels with four 16-bit channels is smaller.
"""


def open_image(file: BinaryIO | Path, *, name: str = "the image") -> Image.Image:
    """Open an image file, but do not decode its pixels; raise ValueError if it has too many."""
    try:
        image = Image.open(file, formats=FORMATS)
    except UnidentifiedImageError:  # its own message has the address of a Python object
        raise UnidentifiedImageError("not an image that can be read") from None
    except Image.DecompressionBombError:
        raise ValueError(f"{name} has more than {MOST_PIXELS // 10**6} million pixels: make it smaller") from None
    check_pixels(*image.size, name)
    return image


def check_pixels(width: int, height: int, name: str) -> None:
    """Raise ValueError unless a picture has at least one pixel and at most `MOST_PIXELS`."""
    if width < 1 or height < 1:
        raise ValueError(f"{name} is {width} x {height} pixels, expected at least 1 x 1")
    if max(width, height) > MOST_SIDE:
        raise ValueError(
            f"{name} is {width} x {height} pixels, expected at most {MOST_SIDE:,} pixels in each direction: crop it"
        )
    if width * height > MOST_PIXELS:
        raise ValueError(
            f"{name} is {width} x {height} pixels, expected at most {MOST_PIXELS // 10**6} million pixels in all: "
            "make it smaller"
        )


def check_image_bytes(size: int, name: str) -> None:
    """Raise ValueError if a file has too many bytes for an image."""
    if size > MOST_IMAGE_BYTES:
        raise ValueError(
            f"{name} has {size:,} bytes, expected an image file of at most {MOST_IMAGE_BYTES // 2**20:,} MiB"
        )
