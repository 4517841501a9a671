"""What a VAE and its partial encoder say of held-out images: bits per dimension and forward KL."""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from condvae import objectives
from condvae.likelihood import GaussianPixels
from condvae.noise import NoiseSource
from condvae.observe import Observation
from condvae.partial import ConditionalVAE
from condvae.vdvae import VDVAE, Step


class BitsPerDim(NamedTuple):
    """A bound on -log p of each image in bits, over its C * H * W dimensions or over the hidden ones."""

    native: Tensor
    """[B]: under the model's own likelihood; with `GaussianPixels`, above its noise floor."""
    of_8_bits: Tensor | None
    """[B]: a bound on the code length of 8-bit images, comparable between models. None for a 5-bit likelihood."""


@torch.no_grad()
def elbo_bits_per_dim(vae: VDVAE, x: Tensor, *, noise: NoiseSource) -> BitsPerDim:
    """One walk, z from q(z | x), for 8-bit images [B, C, H, W] in [-1, 1]."""
    vae.check(x)

    def kl(step: Step) -> Tensor:
        return step.drawn_from.total_kl_to(step.prior())

    descent = vae.descend(vae.posterior(x), batch=len(x), noise=noise, score=kl)
    parameters = vae.decoder.pixel_parameters(descent.state)
    kl_nats = descent.scores.double().sum(dim=1)

    def bits(log_mass: Tensor) -> Tensor:
        return (kl_nats - log_mass.double().sum(dim=(1, 2))) / (vae.config.image_dims * math.log(2))

    likelihood = vae.likelihood
    native = bits(likelihood.log_prob(parameters, x))
    if isinstance(likelihood, GaussianPixels):
        return BitsPerDim(native, bits(likelihood.log_mass(parameters, x)))
    return BitsPerDim(native, native if likelihood.bits == 8 else None)


@torch.no_grad()
def forward_kl_nats_per_dim(
    model: ConditionalVAE, x: Tensor, observation: Observation, *, noise: NoiseSource
) -> Tensor:
    """[B]: KL(q(z | x) || c(z | y)) over C * H * W, what the partial encoder is trained to lower (eq:forward-elbo)."""
    bound = objectives.forward(model, x, observation, noise=noise, likelihood=model.trains_artifact)
    return bound.kl_nats.double().sum(dim=1) / bound.image_dims


@torch.no_grad()
def unknown_bits_per_dim(
    model: ConditionalVAE, x: Tensor, observation: Observation, *, noise: NoiseSource, samples: int = 1
) -> BitsPerDim:
    """-log p_cond(x~ | y) in bits over the hidden dimensions: bounded from above by the ELBO (eq:forward-elbo, one walk
    with z from q(z | x)), or with several samples by the importance-weighted bound, which falls towards it.

    For 8-bit images [B, C, H, W] in [-1, 1]. NaN where nothing is hidden.
    """
    vae = model.artifact
    likelihood = vae.likelihood

    def score(state: Tensor, x: Tensor) -> Tensor:
        """[1 or 2, B, H, W]: what one walk says under the model's likelihood, and of 8-bit grey levels."""
        if not isinstance(likelihood, GaussianPixels):
            return vae.pixel_log_prob(state, x)[None]
        parameters = vae.decoder.pixel_parameters(state)
        return torch.stack((likelihood.log_prob(parameters, x), likelihood.log_mass(parameters, x)))

    bound: objectives.LogProbability
    if samples == 1:
        bound = objectives.forward(model, x, observation, noise=noise, pixel_score=score)
    else:
        bound = objectives.importance_weighted(model, x, observation, samples=samples, noise=noise, pixel_score=score)
    bits = torch.where(bound.scored_dims > 0, bound.bits_per_scored_dim, math.nan).double()
    in_levels = isinstance(likelihood, GaussianPixels) or likelihood.bits == 8
    return BitsPerDim(bits[0], bits[-1] if in_levels else None)
