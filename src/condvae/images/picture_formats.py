"""The file formats in which output pictures can be written."""
# This module does not import torch or Pillow, because the command line uses its types and --help must be quick.

from typing import Any, Literal, TypeAlias

from condvae.runtime.checks import check_choice

PictureFormat: TypeAlias = Literal["png", "jpg", "webp"]

SAVE_OPTIONS: dict[PictureFormat, dict[str, Any]] = {
    "png": {},
    "jpg": {"quality": 95, "subsampling": 0},  # colours at full resolution, because pictures are small
    "webp": {"lossless": True},
}
"""For each format, the arguments of `PIL.Image.Image.save`. Only jpg changes pixel values."""


def check_picture_format(picture_format: PictureFormat, *, keep_size: bool) -> None:
    """Raise ValueError if the format is unknown, or would change pixels of a picture that keeps its size."""
    check_choice(picture_format, "the picture format", tuple(SAVE_OPTIONS))
    if keep_size and picture_format == "jpg":
        raise ValueError(
            "jpg changes all pixels a little, but a picture that keeps its size must keep its known pixels exactly: "
            "choose the format png or webp"
        )
