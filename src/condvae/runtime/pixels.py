"""The one convention for pixel values: float images [B, C, H, W] in [-1, 1], from and to 8-bit grey levels."""

import math
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

PixelArray: TypeAlias = npt.NDArray[np.uint8]
"""Grey levels, [H, W, C] or [N, H, W, C]."""


def from_uint8(levels: Tensor) -> Tensor:
    """Grey levels 0..255 as float32 in [-1, 1]."""
    if not isinstance(levels, Tensor) or levels.dtype != torch.uint8:
        kind = levels.dtype if isinstance(levels, Tensor) else type(levels).__name__
        raise ValueError(f"expected a uint8 tensor of grey levels, got {kind}")
    return levels.float() / 127.5 - 1


def to_levels(x: Tensor) -> Tensor:
    """Values in [-1, 1] as real-valued grey levels in 0..255."""
    return (x + 1) * 127.5


def to_uint8(x: Tensor) -> Tensor:
    """Values in [-1, 1] as the nearest grey levels."""
    return to_levels(x).round().clamp(0, 255).to(torch.uint8)


def check_images(x: Tensor, *, channels: int, size: int, name: str = "x", values: bool = True) -> None:
    """Raise a ValueError unless x is [B, channels, size, size] in [-1, 1].

    values: look at every pixel, which waits for the device.
    """
    expected = f"expected [batch, {channels}, {size}, {size}]"
    if not isinstance(x, Tensor):
        raise ValueError(f"{name} is a {type(x).__name__}, expected a torch tensor: torch.from_numpy converts arrays")
    if x.ndim != 4:
        raise ValueError(f"{name} has {x.ndim} dimensions, {expected}")
    if x.shape[0] == 0:
        raise ValueError(f"{name} is an empty batch, expected at least one image")
    if x.shape[1] != channels:
        raise ValueError(f"{name} has {x.shape[1]} channels, {expected}")
    if x.shape[2] != x.shape[3]:
        raise ValueError(f"{name} is {x.shape[2]} x {x.shape[3]} pixels, which is not square, {expected}")
    if x.shape[2] != size:
        raise ValueError(f"{name} is {x.shape[2]} x {x.shape[3]} pixels, {expected}: resize it, or use another model")
    if x.dtype not in (torch.float32, torch.float64):  # half precision has not the digits for 256 grey levels
        raise ValueError(
            f"{name} is {x.dtype}, expected float32 values in [-1, 1]: pixels.from_uint8 converts grey levels"
        )
    if values:
        check_values(x, name=name)


def check_values(x: Tensor, *, name: str = "x") -> None:
    """Raise a ValueError unless every pixel is a number in [-1, 1]; waits for the device once."""
    low, high = torch.stack(torch.aminmax(x)).tolist()  # NaN wherever there is one
    if not (math.isfinite(low) and math.isfinite(high)):
        raise ValueError(f"{name} holds NaN or infinite pixels, expected numbers in [-1, 1]")
    if low < -1.001 or high > 1.001:
        raise ValueError(
            f"{name} has pixels from {low:g} to {high:g}, expected [-1, 1]: pixels.from_uint8 converts grey levels"
        )
