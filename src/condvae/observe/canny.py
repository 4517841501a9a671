"""Canny's edge detector: blur, differentiate, thin the edges, keep weak edges only if connected to strong ones.

J. Canny, "A computational approach to edge detection", 1986. A mirrored image gives exactly the mirrored edges,
because sums add pixels in left-right pairs, and because ties are broken along the direction of the gradient.
"""

import math

import torch
from torch import Tensor
from torch.nn import functional as F

_TIE = 1e-5
"""Relative difference up to which slopes count as equal, because of the rounding of float32 sums."""
_STEPS_PER_CHECK = 8
"""Number of growth steps between two checks of whether edges still grow. Each check waits for the device."""


def canny(grey: Tensor, *, sigma: float, low: float, high: float) -> Tensor:
    """Find the edges of grey images [B, 1, H, W]: bool of the same shape, True on an edge.

    sigma: standard deviation of the Gaussian blur, in pixels; 0 for no blur.
    low, high: thresholds on the slope, which is the change of the grey value over two pixels. All pixels of an edge are
    above low, and at least one is above high.
    """
    slope_x, slope_y = slopes(blur(grey, sigma))
    slope = torch.hypot(slope_x, slope_y)
    thin = ridges(slope, slope_x, slope_y)
    return grown(thin & (slope > high), within=thin & (slope > low))


def blur(x: Tensor, sigma: float) -> Tensor:
    """Blur images [B, C, H, W] with a Gaussian cut off at three sigma; border pixels are repeated outside the image."""
    if sigma == 0:
        return x
    radius = max(1, math.ceil(3 * sigma))
    weights = [math.exp(-0.5 * (k / sigma) ** 2) for k in range(radius + 1)]
    total = weights[0] + 2 * sum(weights[1:])
    for dim in (2, 3):
        size = x.shape[dim]
        padded = _replicate(x, radius, dim)
        x = x * (weights[0] / total)
        for k in range(1, radius + 1):
            pair = padded.narrow(dim, radius - k, size) + padded.narrow(dim, radius + k, size)
            x = x + pair * (weights[k] / total)
    return x


def slopes(x: Tensor) -> tuple[Tensor, Tensor]:
    """Return the Sobel derivatives of images [B, C, H, W] in x and in y.

    Each is the change over two pixels, averaged over three neighbouring rows or columns with the weights 1:2:1.
    """

    def along(dim: int) -> Tensor:
        across = 5 - dim
        size, breadth = x.shape[dim], x.shape[across]
        padded = _replicate(x, 1, dim)
        gain = _replicate(padded.narrow(dim, 2, size) - padded.narrow(dim, 0, size), 1, across)
        return (
            gain.narrow(across, 0, breadth) + gain.narrow(across, 2, breadth) + 2 * gain.narrow(across, 1, breadth)
        ) / 4

    return along(3), along(2)


def ridges(slope: Tensor, slope_x: Tensor, slope_y: Tensor) -> Tensor:
    """Return [B, 1, H, W] bool: True where the slope has a maximum along the gradient.

    A pixel's slope is compared with the slopes one step up and one step down the gradient. These are interpolated
    between two of the eight neighbours. If several pixels along the gradient have equal slopes, only the one on the
    brightest side is kept, so that lines are one pixel wide.
    """
    height, width = slope.shape[2:]
    padded = F.pad(slope, (1, 1, 1, 1)).flatten(1)
    at = torch.arange(height, device=slope.device)[:, None] * (width + 2) + torch.arange(width, device=slope.device)
    at = at + (width + 2) + 1
    ahead_x, ahead_y = slope_x.sign().long(), slope_y.sign().long() * (width + 2)
    steep_x, steep_y = slope_x.abs(), slope_y.abs()
    straight = torch.where(steep_x >= steep_y, ahead_x, ahead_y)
    diagonal = ahead_x + ahead_y
    share = torch.minimum(steep_x, steep_y) / torch.maximum(steep_x, steep_y).clamp(min=torch.finfo(slope.dtype).tiny)

    def neighbour(sign: int) -> Tensor:
        beside, corner = (
            padded.gather(1, (at + sign * step).flatten(1)).view_as(slope) for step in (straight, diagonal)
        )
        return beside + share * (corner - beside)

    return (slope > neighbour(1) * (1 + _TIE)) & (slope >= neighbour(-1) * (1 - _TIE))


def grown(seeds: Tensor, *, within: Tensor) -> Tensor:
    """Return the pixels that can be reached from a seed without leaving `within`.

    Each step goes to one of the eight neighbours. All tensors are [B, 1, H, W] bool.
    """
    area, reached = within.float(), (seeds & within).float()
    while True:
        before = reached
        for _ in range(_STEPS_PER_CHECK):
            reached = F.max_pool2d(reached, 3, stride=1, padding=1) * area
        if torch.equal(before, reached):
            return reached.bool()


def _replicate(x: Tensor, by: int, dim: int) -> Tensor:
    """Pad a dimension of x with `by` copies of its first entry at the start, and of its last entry at the end."""
    size = x.shape[dim]
    return x.index_select(dim, torch.arange(-by, size + by, device=x.device).clamp(0, size - 1))
