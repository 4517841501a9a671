"""Diagonal Gaussians. The prior, the encoder and the partial encoder give one for each latent group."""

import math
from typing import Literal, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from condvae.noise import Noise

Scales = Literal["log_std", "softplus"]

# softplus_beta(0) = log(2) / beta = 1, so that a network output of zero means a standard deviation of one.
_SOFTPLUS_BETA = math.log(2.0)


class Gaussian(NamedTuple):
    """Independent normal distributions, one per element of a tensor.

    The mean and log_std of a latent group have the shape [B, C, H, W].
    """

    mean: Tensor
    log_std: Tensor

    @classmethod
    def from_network(cls, raw: Tensor, scales: Scales = "log_std") -> "Gaussian":
        """Make a Gaussian from network outputs [B, 2 C, H, W]: C channels of means, then C channels of scales.

        scales: whether a scale is the log of the standard deviation ("log_std"), or gives the standard deviation by a
        softplus ("softplus"). Outputs in half precision are converted to float32 first.
        """
        mean, scale = full_precision(raw).chunk(2, dim=1)
        return cls(mean, scale if scales == "log_std" else _log_softplus(scale))

    @property
    def shape(self) -> torch.Size:
        return self.mean.shape

    def draw(self, noise: Noise, stream: int, temperature: float | Tensor = 1.0) -> Tensor:
        """Draw a sample with random numbers from this stream of `noise`; temperature is a factor on the std."""
        return self.sample(noise.normal(stream, self.mean.shape, self.mean.device), temperature)

    def sample(self, noise: Tensor, temperature: float | Tensor = 1.0) -> Tensor:
        """Return mean + temperature * std * noise, where noise is standard normal and of the same shape."""
        return self.mean + temperature * self.log_std.exp() * noise

    def log_prob(self, z: Tensor) -> Tensor:
        """Log-density of each element of z, in nats."""
        standardised = (z - self.mean) * (-self.log_std).exp()
        return -0.5 * standardised.square() - self.log_std - 0.5 * math.log(2 * math.pi)

    def entropy(self) -> Tensor:
        """Differential entropy of each element, in nats."""
        return self.log_std + 0.5 * math.log(2 * math.pi * math.e)

    def kl_to(self, other: "Gaussian") -> Tensor:
        """KL(self || other) of each element, in nats. The expectation is under self."""
        log_ratio = self.log_std - other.log_std
        shift = (self.mean - other.mean) * (-other.log_std).exp()
        return 0.5 * ((2 * log_ratio).exp() + shift.square() - 1) - log_ratio

    def total_kl_to(self, other: "Gaussian") -> Tensor:
        """KL(self || other) of each image in nats, summed over its elements: [B]."""
        return self.kl_to(other).flatten(1).sum(dim=1)

    def shifted_by(self, difference: "Gaussian") -> "Gaussian":
        """Return a Gaussian with mean self.mean + difference.mean and log-std self.log_std + difference.log_std."""
        return Gaussian(self.mean + difference.mean, self.log_std + difference.log_std)


def full_precision(raw: Tensor) -> Tensor:
    """Convert a half-precision tensor (from autocast) to float32, which distributions need; keep other dtypes."""
    return raw.float() if raw.dtype in (torch.bfloat16, torch.float16) else raw


def _log_softplus(raw: Tensor) -> Tensor:
    """Return log(softplus(raw)). Where softplus would underflow, use the log of its limit exp(beta raw) / beta."""
    beta = _SOFTPLUS_BETA
    far_below = raw * beta < -15
    tail = raw * beta - math.log(beta)
    return torch.where(far_below, tail, F.softplus(raw.masked_fill(far_below, 0.0), beta=beta).log())
