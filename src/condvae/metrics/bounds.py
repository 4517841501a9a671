"""What a VAE and its partial encoder say of held-out images: bits per dimension, nats and forward KL.

Functions return a number for each image. Where images have holes of different sizes, bits per hidden dimension of a set
are the sum of nats over the sum of dimensions (`Estimate.of_ratio`): in a mean of each image's own ratio the smallest
holes would count as much as the largest.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from condvae import objectives
from condvae.conditional import ConditionalVAE
from condvae.noise import NoiseSource
from condvae.observe import Observation
from condvae.vdvae import VDVAE


class ByLikelihood(NamedTuple):
    """A bound on -log p of each image, under two likelihoods."""

    native: Tensor
    """[B]: under the model's own likelihood; with `GaussianPixels`, above its noise floor."""
    of_8_bits: Tensor | None
    """[B]: a bound on the code length of 8-bit images, comparable between models. None for a 5-bit likelihood."""


class ConditionalNats(NamedTuple):
    """Bounds on -log p_cond(x~ | y) of each image in nats, for both targets out of the same walks."""

    hidden: ByLikelihood
    """x~ is the hidden pixels."""
    whole: ByLikelihood
    """x~ is the whole image."""
    hidden_dims: Tensor
    """[B]: hidden pixels times channels."""
    whole_dims: Tensor
    """[B]: C * H * W."""
    kl: Tensor | None
    """[B]: KL(q(z | x) || c(z | y)), which is part of the bound by one walk; None with several samples."""


@torch.no_grad()
def elbo_bits_per_dim(vae: VDVAE, x: Tensor, *, noise: NoiseSource) -> ByLikelihood:
    """One walk, z from q(z | x), for 8-bit images [B, C, H, W] in [-1, 1]."""
    bound = objectives.elbo(vae, x, noise=noise, pixel_score=vae.pixel_log_probs)
    return _by_likelihood(vae, bound.bits_per_dim.double())


@torch.no_grad()
def forward_kl_nats_per_dim(
    model: ConditionalVAE, x: Tensor, observation: Observation, *, noise: NoiseSource
) -> Tensor:
    """[B]: KL(q(z | x) || c(z | y)) over C * H * W, what the partial encoder is trained to lower (eq:forward-elbo)."""
    bound = objectives.forward(model, x, observation, noise=noise, likelihood=model.trains_artifact)
    return bound.kl_nats.double().sum(dim=1) / bound.image_dims


@torch.no_grad()
def conditional_nats(
    model: ConditionalVAE, x: Tensor, observation: Observation, *, noise: NoiseSource, samples: int = 1
) -> ConditionalNats:
    """-log p_cond(x~ | y): bounded from above by the ELBO (eq:forward-elbo, one walk with z from q(z | x)), or with
    several samples by the importance-weighted bound, which falls towards it.

    For 8-bit images [B, C, H, W] in [-1, 1].
    """
    vae = model.artifact
    score = objectives.for_both_targets(observation, vae.pixel_log_probs)
    bound: objectives.LogProbability
    kl = None
    if samples == 1:
        bound = objectives.forward(model, x, observation, noise=noise, target="whole", pixel_score=score)
        kl = bound.kl_nats.double().sum(dim=1)
    else:
        bound = objectives.importance_weighted(
            model, x, observation, samples=samples, noise=noise, target="whole", pixel_score=score
        )
    hidden, whole = -bound.nats.double()
    return ConditionalNats(
        hidden=_by_likelihood(vae, hidden),
        whole=_by_likelihood(vae, whole),
        hidden_dims=objectives.hidden_dims(vae, observation),
        whole_dims=bound.scored_dims,
        kl=kl,
    )


def hidden_bits_per_dim(
    model: ConditionalVAE, x: Tensor, observation: Observation, *, noise: NoiseSource, samples: int = 1
) -> ByLikelihood:
    """`conditional_nats` of the hidden pixels in bits over their dimensions; NaN where nothing is hidden.

    To average over images, take `conditional_nats` and divide the sum of nats by the sum of dimensions.
    """
    nats = conditional_nats(model, x, observation, noise=noise, samples=samples)
    native, of_8_bits = nats.hidden
    dims = torch.where(nats.hidden_dims > 0, nats.hidden_dims * math.log(2), math.nan)
    return ByLikelihood(native / dims, None if of_8_bits is None else of_8_bits / dims)


def _by_likelihood(vae: VDVAE, values: Tensor) -> ByLikelihood:
    """[1 or 2, B] as `pixel_log_probs` tells them apart."""
    return ByLikelihood(values[0], values[-1] if vae.likelihood.bits == 8 else None)
