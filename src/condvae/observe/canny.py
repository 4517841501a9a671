"""Canny's edge detector, batched: smooth, differentiate, thin along the gradient, keep what hangs on a strong edge.

J. Canny, "A computational approach to edge detection", 1986. Every sum pairs what lies left with what lies right, and
ties are settled by the gradient's own direction, so that a mirrored image has exactly the mirrored edges.
"""

import math

import torch
from torch import Tensor
from torch.nn import functional as F

_TIE = 1e-5
"""Slopes nearer to each other than this share of them count as equal: the rounding of a few float32 sums."""
_GROWTHS_BETWEEN_LOOKS = 8
"""Each look at whether edges still grow waits for the device."""


def canny(grey: Tensor, *, sigma: float, low: float, high: float) -> Tensor:
    """[B, 1, H, W] bool: the edges of grey images [B, 1, H, W].

    sigma: of the Gaussian that smooths, in pixels; 0: none. low, high: an edge has slopes above low and somewhere above
    high, in units of grey that the image gains over two pixels.
    """
    slope_x, slope_y = slopes(blur(grey, sigma))
    slope = torch.hypot(slope_x, slope_y)
    thin = ridges(slope, slope_x, slope_y)
    return grown(thin & (slope > high), within=thin & (slope > low))


def blur(x: Tensor, sigma: float) -> Tensor:
    """Convolve [B, C, H, W] with a Gaussian cut at three sigma; the image goes on beyond its border as at it."""
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
    """Sobel's derivatives of [B, C, H, W] over x and y: the gain over two pixels, averaged over three rows 1:2:1."""

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
    """[B, 1, H, W] bool: where the slope is greatest along its own direction.

    Slopes one step ahead and one behind lie between two of the eight neighbours and are interpolated. Of equal ones in
    a row the foremost is taken, on the brighter side, so that lines are one pixel wide.
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
    """[B, 1, H, W] bool: all of `within` that some path over it, by sides or corners, joins to a seed."""
    area, reached = within.float(), (seeds & within).float()
    while True:
        before = reached
        for _ in range(_GROWTHS_BETWEEN_LOOKS):
            reached = F.max_pool2d(reached, 3, stride=1, padding=1) * area
        if torch.equal(before, reached):
            return reached.bool()


def _replicate(x: Tensor, by: int, dim: int) -> Tensor:
    """Repeat the first and the last entry along a dimension; unlike F.pad, by any number of pixels."""
    size = x.shape[dim]
    return x.index_select(dim, torch.arange(-by, size + by, device=x.device).clamp(0, size - 1))
