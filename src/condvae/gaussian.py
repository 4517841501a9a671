"""Diagonal Gaussians: what the prior, the encoder and the partial encoder give for every group of latents."""

import math
from typing import Literal, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from condvae.noise import Noise

Scales = Literal["log_std", "softplus"]

# softplus_beta(0) = log(2) / beta = 1: a network that outputs zeros gives a standard deviation of one.
_SOFTPLUS_BETA = math.log(2.0)


class Gaussian(NamedTuple):
    """Independent normal distributions of one shape, [B, C, H, W] for a group of latents."""

    mean: Tensor
    log_std: Tensor

    @classmethod
    def from_network(cls, raw: Tensor, scales: Scales = "log_std") -> "Gaussian":
        """Read [B, 2 C, H, W] network outputs as means and scales, in float32 whatever autocast made of them."""
        mean, scale = full_precision(raw).chunk(2, dim=1)
        return cls(mean, scale if scales == "log_std" else _log_softplus(scale))

    @property
    def shape(self) -> torch.Size:
        return self.mean.shape

    def draw(self, noise: Noise, stream: int, temperature: float | Tensor = 1.0) -> Tensor:
        """A sample, with the numbers of that stream."""
        return self.sample(noise.normal(stream, self.mean.shape, self.mean.device), temperature)

    def sample(self, noise: Tensor, temperature: float | Tensor = 1.0) -> Tensor:
        """mean + temperature * std * noise, for standard normal noise of the same shape."""
        return self.mean + temperature * self.log_std.exp() * noise

    def log_prob(self, z: Tensor) -> Tensor:
        """Log-density of each number in z, in nats."""
        standardised = (z - self.mean) * (-self.log_std).exp()
        return -0.5 * standardised.square() - self.log_std - 0.5 * math.log(2 * math.pi)

    def entropy(self) -> Tensor:
        """Differential entropy of each number, in nats."""
        return self.log_std + 0.5 * math.log(2 * math.pi * math.e)

    def kl_to(self, other: "Gaussian") -> Tensor:
        """KL(self || other) of each number, in nats: the expectation is under self."""
        log_ratio = self.log_std - other.log_std
        shift = (self.mean - other.mean) * (-other.log_std).exp()
        return 0.5 * ((2 * log_ratio).exp() + shift.square() - 1) - log_ratio

    def total_kl_to(self, other: "Gaussian") -> Tensor:
        """KL(self || other) of each image, [B]."""
        return self.kl_to(other).flatten(1).sum(dim=1)

    def shifted_by(self, difference: "Gaussian") -> "Gaussian":
        """The Gaussian whose mean and log-std differ from these by the given amounts."""
        return Gaussian(self.mean + difference.mean, self.log_std + difference.log_std)


def full_precision(raw: Tensor) -> Tensor:
    """What autocast computed in half precision as float32, in which distributions are computed; else as it is."""
    return raw.float() if raw.dtype in (torch.bfloat16, torch.float16) else raw


def _log_softplus(raw: Tensor) -> Tensor:
    """log(softplus(raw)), finite where softplus itself underflows: there it is exp(beta raw) / beta."""
    beta = _SOFTPLUS_BETA
    far_below = raw * beta < -15
    tail = raw * beta - math.log(beta)
    return torch.where(far_below, tail, F.softplus(raw.masked_fill(far_below, 0.0), beta=beta).log())
