"""Harmonic fill: solve Laplace's equation in the hole. The result is the limit of diffusion from the hole's border."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from condvae.completers.interface import paste_known
from condvae.observe import Observation
from condvae.runtime.checks import check_whole
from condvae.runtime.pixels import to_levels

_RESIDUAL = 1e-6
"""The solver stops when all residuals of the equation are below this value, in grey levels."""
_PIXELS_AT_ONCE = {"cuda": 2**21, "cpu": 2**16}
"""How many pixels, over all images, are solved for together. On a CPU, the number is small enough for its cache."""


@dataclass(frozen=True, kw_only=True, eq=False)
class HarmonicFill:
    """Solves Laplace's equation in the hole.

    Known pixels are boundary values, and the gradient across the edge of the image is zero.
    """

    name: ClassVar[str] = "harmonic fill"
    varies: ClassVar[bool] = False

    fallback: Tensor | None = None
    """The completion of an image without known pixels, such as the training mean, uint8 [C, H, W]. None: mid grey."""
    channels: int = 3
    """Number of image channels. It is used only for observations that contain no pixels."""

    def complete(self, observation: Observation, k: int, seed: int, *, places: Sequence[int] | None = None) -> Tensor:
        """Return k identical completions of each image, as a view that does not copy them."""
        check_whole(k, "the number of samples", least=1)
        count, _, height, width = observation.y.shape
        known, pixels = observation.known, observation.pixels
        if known is None or pixels is None:
            known = torch.zeros(count, 1, height, width, dtype=torch.bool, device=observation.y.device)
            pixels = torch.zeros(count, self.channels, height, width, device=observation.y.device)
        fallback = torch.full_like(pixels[:1], 128.0) if self.fallback is None else self.fallback[None].to(pixels)
        levels = torch.empty_like(pixels)
        step = max(1, _PIXELS_AT_ONCE.get(pixels.device.type, 2**16) // (height * width))
        for first in range(0, count, step):
            some = slice(first, first + step)
            levels[some] = harmonic(to_levels(pixels[some]), known[some]).to(pixels.dtype)
        anything = known.flatten(1).any(dim=1)[:, None, None, None]
        images = torch.where(anything, levels, fallback).round().clamp(0, 255).to(torch.uint8)
        return paste_known(observation, images[:, None]).expand(-1, k, -1, -1, -1)


@torch.no_grad()
def harmonic(values: Tensor, known: Tensor) -> Tensor:
    """Return images with the known values, in which every hidden pixel is the mean of its neighbours.

    values: pixel values [B, C, H, W]; only known ones are used. known: bool [B, 1, H, W]. The result is float64
    [B, C, H, W]. The solver is the conjugate gradient method, with separate step sizes for every image and channel. If
    an image has no known pixels, every constant image is a solution, and 0 is returned.
    """
    hole = ~known
    fixed = torch.where(known, values.double(), 0.0)
    count = known.flatten(2).sum(dim=2)[:, :, None, None]
    # Start at the mean of the known pixels, which is close to the solution.
    start = fixed.sum(dim=(2, 3), keepdim=True) / count.clamp_min(1)
    u = torch.where(known, fixed, start)
    residual = torch.where(hole & (count > 0), -_laplacian(u), 0.0)
    direction, power = residual.clone(), _dot(residual, residual)
    most = 4 * hole[0].numel()  # exact arithmetic needs at most one step per hidden pixel
    for step in range(most):
        # Check every 8th step only, since the check waits for the device.
        if step % 8 == 0 and float(residual.abs().amax()) < _RESIDUAL:
            return u
        image = torch.where(hole, _laplacian(direction), 0.0)
        scale = power / _dot(direction, image).clamp_min(torch.finfo(torch.float64).tiny)
        u = u + scale * direction
        residual = residual - scale * image
        before, power = power, _dot(residual, residual)
        direction = residual + power / before.clamp_min(torch.finfo(torch.float64).tiny) * direction
    raise RuntimeError(f"the harmonic fill did not converge within {most} steps")


def _laplacian(u: Tensor) -> Tensor:
    """For each pixel, return the sum of its differences from the two to four neighbours that lie inside the image."""
    down, right = u[..., 1:, :] - u[..., :-1, :], u[..., 1:] - u[..., :-1]
    out = torch.zeros_like(u)
    out[..., 1:, :] += down
    out[..., :-1, :] -= down
    out[..., 1:] += right
    out[..., :-1] -= right
    return out


def _dot(a: Tensor, b: Tensor) -> Tensor:
    return (a * b).sum(dim=(2, 3), keepdim=True)
