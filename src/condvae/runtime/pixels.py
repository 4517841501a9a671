"""Conversion between 8-bit grey levels and float images [B, C, H, W] in [-1, 1], and checks of such images."""

import math
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from condvae.runtime.messages import counted

PixelArray: TypeAlias = npt.NDArray[np.uint8]
"""One image [H, W, C] or several images [N, H, W, C], as grey levels from 0 to 255."""


def from_uint8(levels: Tensor) -> Tensor:
    """Convert grey levels from 0 to 255 to float32 in [-1, 1]."""
    if not isinstance(levels, Tensor) or levels.dtype != torch.uint8:
        kind = levels.dtype if isinstance(levels, Tensor) else type(levels).__name__
        raise ValueError(f"the grey levels are of type {kind}, expected a uint8 tensor")
    return levels.float() / 127.5 - 1


def to_levels(x: Tensor) -> Tensor:
    """Convert values in [-1, 1] to grey levels from 0 to 255, without rounding."""
    return (x + 1) * 127.5


def to_uint8(x: Tensor) -> Tensor:
    """Convert values in [-1, 1] to the nearest grey levels from 0 to 255."""
    return to_levels(x).round().clamp(0, 255).to(torch.uint8)


def check_images(x: Tensor, *, channels: int, size: int, name: str = "x", values: bool = True) -> None:
    """Raise ValueError unless x is a batch of images, [B, channels, size, size] in [-1, 1].

    name: what to call x in the error message. values: whether to check every pixel value, which waits for the device.
    """
    expected = f"expected shape [batch, {channels}, {size}, {size}]"
    if not isinstance(x, Tensor):
        raise ValueError(
            f"{name} is a {type(x).__name__}, expected a torch tensor: convert arrays with torch.from_numpy"
        )
    if x.ndim != 4:
        raise ValueError(f"{name} has {counted(x.ndim, 'dimension')}, {expected}")
    if x.shape[0] == 0:
        raise ValueError(f"{name} is an empty batch, expected at least one image")
    if x.shape[1] != channels:
        raise ValueError(f"{name} has {counted(x.shape[1], 'channel')}, {expected}")
    if x.shape[2] != x.shape[3]:
        raise ValueError(f"{name} is {x.shape[2]} x {x.shape[3]} pixels, which is not square, {expected}")
    if x.shape[2] != size:
        raise ValueError(f"{name} is {x.shape[2]} x {x.shape[3]} pixels, {expected}: resize it, or use another model")
    if x.dtype not in (torch.float32, torch.float64):  # half precision cannot represent 256 grey levels accurately
        raise ValueError(
            f"{name} is {x.dtype}, expected float32 values in [-1, 1]: convert grey levels with pixels.from_uint8"
        )
    if values:
        check_values(x, name=name)


def check_values(x: Tensor, *, name: str = "x") -> None:
    """Raise ValueError unless every pixel is a number in [-1, 1]. This waits for the device once."""
    low, high = torch.stack(torch.aminmax(x)).tolist()  # NaN if any pixel is NaN
    if not (math.isfinite(low) and math.isfinite(high)):
        raise ValueError(f"{name} has NaN or infinite pixels, expected numbers in [-1, 1]")
    if low < -1.001 or high > 1.001:
        raise ValueError(
            f"{name} has pixels from {low:g} to {high:g}, expected [-1, 1]: convert grey levels with pixels.from_uint8"
        )
