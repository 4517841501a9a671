"""Convert weights to the form in which a file stores them, with 32, 16 or 8 bits each, and back.

With 8 bits, the weights of a convolution are whole numbers from -127 to 127, times a scale for each output channel. The
scale is the channel's largest absolute value divided by 127, rounded to bfloat16. So 127 times the scale is exact in
float32, and weights that were read from an 8-bit file are stored as the same numbers again.
"""

from collections.abc import Mapping
from typing import Literal, TypeAlias

import torch
from torch import Tensor

from condvae.runtime.checks import check_choice, first_few
from condvae.runtime.messages import shown

WeightBits: TypeAlias = Literal[32, 16, 8]
"""How many bits of a file each weight takes. 32: float32; 16: float16; 8: int8, and float16 for a few small tensors."""
SCALE = ".scale"
"""The scales of the int8 tensor NAME are a tensor called NAME.scale. No weight has such a name, since a parameter has
no parts."""
LARGEST = 127
"""The largest 8-bit number, which stands for the largest weight of a channel."""
_FEWEST_INPUTS = 8
"""Convolutions with fewer input channels stay in float16. These see pixels: they have few weights, but an error in them
changes all features."""
_FEWEST_POSITIONS = 16
"""Images with fewer positions, such as a gain per channel, stay in float16, as they would have almost as many scales as
numbers."""


def stored(weights: Mapping[str, Tensor], *, bits: WeightBits) -> dict[str, Tensor]:
    """Convert weights for a file; raise ValueError if a value is not finite, or too large for the precision."""
    check_choice(bits, "the number of bits per weight", (32, 16, 8))
    found: dict[str, Tensor] = {}
    for name, tensor in weights.items():
        if not torch.isfinite(tensor).all():
            raise ValueError(f"the tensor {name} contains NaN or infinite weights: no file was written")
        values = tensor.detach().to("cpu", torch.float32)
        if bits == 8 and (channel := _channel_dimension(values)) is not None:
            found[name], found[f"{name}{SCALE}"] = quantised(values, channel=channel)
            continue
        found[name] = values.to(torch.float32 if bits == 32 else torch.float16, copy=True).contiguous()
        if not torch.isfinite(found[name]).all():
            precision = "single" if bits == 32 else "half"
            raise ValueError(f"the tensor {name} contains weights that are too large for {precision} precision")
    return found


def restored(tensors: Mapping[str, Tensor], *, origin: str) -> dict[str, Tensor]:
    """Return the weights in a file: int8 tensors with their scales become float32; other tensors are unchanged.

    origin: the file, for error messages. Raise ValueError if scales are missing or invalid.
    """
    eighths = {name: tensor for name, tensor in tensors.items() if tensor.dtype == torch.int8}
    if missing := sorted(name for name in eighths if f"{name}{SCALE}" not in tensors):
        raise ValueError(f"{origin} contains 8-bit weights without scales: {first_few(missing)}")
    scales = {f"{name}{SCALE}": tensors[f"{name}{SCALE}"] for name in eighths}
    if not_floats := sorted(name for name, scale in scales.items() if not scale.is_floating_point()):
        raise ValueError(f"{origin} contains scales that are not floating-point numbers: {first_few(not_floats)}")
    misfits = [
        f"{name}{SCALE} is {shown(tuple(scales[f'{name}{SCALE}'].shape))} for weights of {shown(tuple(tensor.shape))}"
        for name, tensor in sorted(eighths.items())
        if not _fits(scales[f"{name}{SCALE}"], tensor)
    ]
    if misfits:
        raise ValueError(f"{origin} contains scales that do not have one number per channel: {first_few(misfits)}")
    invalid = [name for name, scale in sorted(scales.items()) if not (torch.isfinite(scale) & (scale >= 0)).all()]
    if invalid:
        raise ValueError(f"{origin} contains scales that are negative, NaN or infinite: {first_few(invalid)}")
    return {
        name: dequantised(tensor, tensors[f"{name}{SCALE}"]) if name in eighths else tensor
        for name, tensor in tensors.items()
        if name not in scales
    }


def bits_of(tensors: Mapping[str, Tensor]) -> WeightBits:
    """Return how many bits each weight takes, given the tensors in a file: the bits of the smallest numbers."""
    types = {tensor.dtype for tensor in tensors.values()}
    return 8 if torch.int8 in types else 16 if torch.float16 in types else 32


def quantised(values: Tensor, *, channel: int = 0) -> tuple[Tensor, Tensor]:
    """Round finite values [O, I, H, W] to int8 multiples of a scale per channel; return the numbers and the scales.

    channel: the dimension with separate scales. The scales are bfloat16, with length 1 in all other dimensions.
    """
    others = [dimension for dimension in range(values.ndim) if dimension != channel]
    scale = (values.abs().amax(dim=others, keepdim=True) / LARGEST).bfloat16()
    # Below the smallest normal number, scales would be inexact: such weights become zero, as in half precision.
    scale = torch.where(scale < torch.finfo(torch.bfloat16).tiny, 0, scale)
    step = torch.where(scale > 0, scale.float(), 1)
    return (values / step).round().to(torch.int8).contiguous(), scale


def dequantised(numbers: Tensor, scale: Tensor) -> Tensor:
    """Return numbers times scales, in float32."""
    return numbers.float() * scale.float()


def _channel_dimension(values: Tensor) -> int | None:
    """Return the dimension that gets separate scales, or None for a tensor that is stored as float16."""
    if values.ndim != 4 or values.numel() == 0:
        return None
    if values.shape[0] == 1:  # an image, such as a bias for each channel and position
        return 1 if values[0, 0].numel() >= _FEWEST_POSITIONS else None
    return 0 if values.shape[1] >= _FEWEST_INPUTS else None


def _fits(scale: Tensor, numbers: Tensor) -> bool:
    """Return whether there is one scale for each index of the first or of the second dimension."""
    shapes = []
    for dimension in range(min(2, numbers.ndim)):
        shape = [1] * numbers.ndim
        shape[dimension] = numbers.shape[dimension]
        shapes.append(tuple(shape))
    return tuple(scale.shape) in shapes
