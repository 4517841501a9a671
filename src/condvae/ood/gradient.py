"""The temperature gradient: how the bound on log p(y) changes with the spread of the prior, group by group.

The bound E_c [log p(z; t) + log p(y | z) - log c(z | y)] depends on t_l, the factor on the prior's standard deviations
in group l, through -KL(c || p) of that group alone: z comes from c, whatever t is. Given z_<l its derivative at 1 is

    sum over the group of  (mu_c - mu_p)^2 / sigma_p^2  +  (sigma_c^2 / sigma_p^2 - 1)
                           ---------- shift ----------     ---------- spread ---------

So one walk down the decoder gives it for all groups: without autograd, and images of a batch have nothing in common.
It is positive where z lies further out than the prior expects (an irregular image), negative where it lies further in.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from condvae.noise import NoiseSource, as_noise
from condvae.observe import Observation
from condvae.ood.bound import known_pixels
from condvae.ood.inference import Inference
from condvae.runtime.checks import check_whole
from condvae.vdvae.model import VDVAE, Step


class TemperatureGradient(NamedTuple):
    """Of each image, latent group and channel in it, float64 [B, L, C]; its two terms measure different things, and may
    cancel.
    """

    channel_shift: Tensor
    """How far c's means are from the prior's, in standard deviations of the prior, squared: 0 or more."""
    channel_spread: Tensor
    """How much wider than the prior c is: negative where y tells something of z."""

    @property
    def shift(self) -> Tensor:
        """[B, L]"""
        return self.channel_shift.sum(dim=2)

    @property
    def spread(self) -> Tensor:
        """[B, L]"""
        return self.channel_spread.sum(dim=2)

    @property
    def total(self) -> Tensor:
        """[B, L]: d/dt of the bound at t = 1, with one temperature for each group."""
        return self.shift + self.spread

    @property
    def by_channel(self) -> Tensor:
        """[B, L, C]: d/dt of the bound at t = 1, with one temperature for each channel of each group."""
        return self.channel_shift + self.channel_spread


def temperature_gradient(
    inference: Inference, observation: Observation, *, noise: NoiseSource, walks: int = 1
) -> TemperatureGradient:
    """The gradient for every observation, as a mean over that many walks: z_<l is drawn anew in each."""
    return gradient_and_bound(inference, observation, noise=noise, walks=walks, bound=False)[0]


@torch.no_grad()
def gradient_and_bound(
    inference: Inference, observation: Observation, *, noise: NoiseSource, walks: int = 1, bound: bool = True
) -> tuple[TemperatureGradient, Tensor]:
    """The gradient, and [B] the bound on log p(y) in nats, of the same walks; only minus its KL if bound is False."""
    check_whole(walks, "the number of walks", least=1)
    observation.check_values()
    noise, vae, source = as_noise(noise), inference.vae, inference.source(observation)
    count, groups, channels = len(observation), inference.groups, vae.config.latent_channels
    terms = torch.zeros(count, groups, 3 * channels, dtype=torch.float64, device=inference.device)
    nats = terms.new_zeros(count)
    for walk in range(walks):
        first = walk * groups  # streams of its own
        descent = vae.descend(source, batch=count, noise=noise, score=_terms, first_stream=first)
        terms += descent.scores / walks
        if bound:
            nats += _pixel_nats(vae, descent.state, observation) / walks
    shift, spread, kl = terms.unflatten(2, (3, channels)).unbind(dim=2)
    return TemperatureGradient(shift, spread), nats - kl.sum(dim=(1, 2))


def _terms(step: Step) -> Tensor:
    """[B, 3 C]: shift, spread and KL of one group, each channel by channel."""
    c, p = step.drawn_from, step.prior()
    shift = ((c.mean - p.mean) * (-p.log_std).exp()).square()
    spread = torch.expm1(2 * (c.log_std - p.log_std))
    return torch.cat((shift, spread, c.kl_to(p)), dim=1).sum(dim=(2, 3), dtype=torch.float64)


def _pixel_nats(vae: VDVAE, state: Tensor, observation: Observation) -> Tensor:
    """[B]: log p of the known pixels."""
    pixels, known = known_pixels(observation)
    log_p = vae.pixel_log_prob(state, torch.where(known, pixels, 0.0))
    return torch.where(known[:, 0], log_p, 0.0).sum(dim=(1, 2), dtype=torch.float64)
