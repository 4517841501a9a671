"""Check and convert the images that the feature networks of metrics receive."""

import torch
from torch import Tensor

from condvae.runtime.pixels import check_values, from_uint8


def as_colour(images: Tensor, *, device: torch.device, smallest: int, network: str) -> Tensor:
    """Convert images to floats in [-1, 1] with three channels, [B, 3, H, W], on the device.

    images: [B, 3 or 1, H, W], uint8 or floats in [-1, 1]. smallest: the smallest side in pixels that the network
    accepts. network: the network's name in error messages.
    """
    if images.ndim != 4 or images.shape[1] not in (1, 3):
        raise ValueError(f"images have shape {tuple(images.shape)}, expected [B, 3 or 1, H, W]")
    if min(images.shape[2:]) < smallest:
        raise ValueError(
            f"images are {images.shape[2]} x {images.shape[3]} pixels, but {network} needs at least "
            f"{smallest} x {smallest}: enlarge them"
        )
    x = images.to(device)
    if x.dtype == torch.uint8:
        x = from_uint8(x)
    elif x.is_floating_point():
        x = x.float()
        if x.numel():
            check_values(x, name="an image")
    else:
        raise ValueError(f"images are {x.dtype}, expected uint8 or floats in [-1, 1]")
    return x.expand(-1, 3, -1, -1)
