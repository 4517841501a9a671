"""Harmonic fill: the smoothest surface through the known pixels, what diffusion from the hole's border ends in."""

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
"""Grey levels by which the equation may be missed anywhere."""
_PIXELS_AT_ONCE = {"cuda": 2**21, "cpu": 2**16}
"""Of all images solved together; on a CPU, what stays in its cache."""


@dataclass(frozen=True, kw_only=True, eq=False)
class HarmonicFill:
    """Laplace's equation in the hole, known pixels as boundary values, no flow through the image's edge."""

    name: ClassVar[str] = "harmonic fill"
    varies: ClassVar[bool] = False

    fallback: Tensor | None = None
    """[C, H, W] uint8: the answer where nothing is known, such as the training mean; None for mid grey."""
    channels: int = 3
    """Of images, for observations that hold no pixels at all."""

    def complete(self, observation: Observation, k: int, seed: int, *, places: Sequence[int] | None = None) -> Tensor:
        """k times the same: a view, no copies."""
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
    """[B, C, H, W] float64: values where known; elsewhere each pixel is the mean of its neighbours in the image.

    values: [B, C, H, W], of which only the known are looked at; known: [B, 1, H, W] bool. Conjugate gradients, every
    channel with steps of its own. Where nothing is known every constant is a solution, and the answer is 0.
    """
    hole = ~known
    fixed = torch.where(known, values.double(), 0.0)
    count = known.flatten(2).sum(dim=2)[:, :, None, None]
    # Start at the mean of the known pixels: what is left to find is small.
    start = fixed.sum(dim=(2, 3), keepdim=True) / count.clamp_min(1)
    u = torch.where(known, fixed, start)
    residual = torch.where(hole & (count > 0), -_laplacian(u), 0.0)
    direction, power = residual.clone(), _dot(residual, residual)
    most = 4 * hole[0].numel()  # exact arithmetic needs one step per unknown at most
    for step in range(most):
        if step % 8 == 0 and float(residual.abs().amax()) < _RESIDUAL:  # waits for the device
            return u
        image = torch.where(hole, _laplacian(direction), 0.0)
        scale = power / _dot(direction, image).clamp_min(torch.finfo(torch.float64).tiny)
        u = u + scale * direction
        residual = residual - scale * image
        before, power = power, _dot(residual, residual)
        direction = residual + power / before.clamp_min(torch.finfo(torch.float64).tiny) * direction
    raise RuntimeError(f"the harmonic fill did not converge in {most} steps")


def _laplacian(u: Tensor) -> Tensor:
    """Sum over a pixel's two to four neighbours in the image of its difference from them."""
    down, right = u[..., 1:, :] - u[..., :-1, :], u[..., 1:] - u[..., :-1]
    out = torch.zeros_like(u)
    out[..., 1:, :] += down
    out[..., :-1, :] -= down
    out[..., 1:] += right
    out[..., :-1] -= right
    return out


def _dot(a: Tensor, b: Tensor) -> Tensor:
    return (a * b).sum(dim=(2, 3), keepdim=True)
