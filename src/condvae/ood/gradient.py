"""The temperature gradient: the derivative of the bound on log p(y) with respect to each latent group's temperature.

The temperature t_l multiplies the prior's standard deviations in latent group l. It affects the bound
E_c [log p(z; t) + log p(y | z) - log c(z | y)] only through -KL(c || p) of that group, because z is drawn from c,
which does not depend on t. Given z_<l, the derivative at t_l = 1 is

    sum over the group of  (mu_c - mu_p)^2 / sigma_p^2  +  (sigma_c^2 / sigma_p^2 - 1)
                           ---------- shift ----------     ---------- spread ---------

One pass through the decoder computes the derivative for all groups and each image of a batch, without autograd.
The derivative is positive where z is further from the prior's mean than the prior expects (an irregular image), and
negative where z is nearer (a regular one).
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
    """The two terms of the temperature gradient, for B images, L latent groups and C channels: float64 [B, L, C].

    The terms measure different things, and their deviations may cancel in the sum.
    """

    channel_shift: Tensor
    """Squared difference between the means of c and of the prior, divided by the variance of the prior."""
    channel_spread: Tensor
    """Variance of c divided by the variance of the prior, minus 1: negative where y contains information about z."""

    @property
    def shift(self) -> Tensor:
        """The shift term of each image and latent group, [B, L]."""
        return self.channel_shift.sum(dim=2)

    @property
    def spread(self) -> Tensor:
        """The spread term of each image and latent group, [B, L]."""
        return self.channel_spread.sum(dim=2)

    @property
    def total(self) -> Tensor:
        """Derivative of each image's bound at t = 1, with one temperature t per latent group: [B, L]."""
        return self.shift + self.spread

    @property
    def by_channel(self) -> Tensor:
        """Derivative of each image's bound at t = 1, with a temperature t per latent group and channel: [B, L, C]."""
        return self.channel_shift + self.channel_spread


def temperature_gradient(
    inference: Inference, observation: Observation, *, noise: NoiseSource, walks: int = 1
) -> TemperatureGradient:
    """Return the temperature gradient of each observation, averaged over `walks` passes with new latents each."""
    return gradient_and_bound(inference, observation, noise=noise, walks=walks, bound=False)[0]


@torch.no_grad()
def gradient_and_bound(
    inference: Inference, observation: Observation, *, noise: NoiseSource, walks: int = 1, bound: bool = True
) -> tuple[TemperatureGradient, Tensor]:
    """Return the temperature gradient, and the bound on log p(y) in nats, [B], both from the same decoder passes.

    With bound=False, log p(y | z) is not computed, and the second result is only the -KL term of the bound.
    """
    check_whole(walks, "the number of passes through the decoder", least=1)
    observation.check_values()
    noise, vae, source = as_noise(noise), inference.vae, inference.source(observation)
    count, groups, channels = len(observation), inference.groups, vae.config.latent_channels
    terms = torch.zeros(count, groups, 3 * channels, dtype=torch.float64, device=inference.device)
    nats = terms.new_zeros(count)
    for walk in range(walks):
        first = walk * groups  # each pass has its own noise streams
        descent = vae.descend(source, batch=count, noise=noise, score=_terms, first_stream=first)
        terms += descent.scores / walks
        if bound:
            nats += _pixel_nats(vae, descent.state, observation) / walks
    shift, spread, kl = terms.unflatten(2, (3, channels)).unbind(dim=2)
    return TemperatureGradient(shift, spread), nats - kl.sum(dim=(1, 2))


def _terms(step: Step) -> Tensor:
    """Return the shift, the spread and the KL of one latent group, each for C channels: [B, 3 C]."""
    c, p = step.drawn_from, step.prior()
    shift = ((c.mean - p.mean) * (-p.log_std).exp()).square()
    spread = torch.expm1(2 * (c.log_std - p.log_std))
    return torch.cat((shift, spread, c.kl_to(p)), dim=1).sum(dim=(2, 3), dtype=torch.float64)


def _pixel_nats(vae: VDVAE, state: Tensor, observation: Observation) -> Tensor:
    """Return the log-probability of the known pixels of each image in nats, [B]."""
    pixels, known = known_pixels(observation)
    log_p = vae.pixel_log_prob(state, torch.where(known, pixels, 0.0))
    return torch.where(known[:, 0], log_p, 0.0).sum(dim=(1, 2), dtype=torch.float64)
