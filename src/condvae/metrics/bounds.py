"""What a VAE and its partial encoder say of held-out images: bits per dimension and forward KL."""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from condvae import objectives
from condvae.conditional import ConditionalVAE
from condvae.noise import NoiseSource
from condvae.observe import Observation
from condvae.vdvae import VDVAE


class BitsPerDim(NamedTuple):
    """A bound on -log p of each image in bits, over its C * H * W dimensions or over the hidden ones."""

    native: Tensor
    """[B]: under the model's own likelihood; with `GaussianPixels`, above its noise floor."""
    of_8_bits: Tensor | None
    """[B]: a bound on the code length of 8-bit images, comparable between models. None for a 5-bit likelihood."""


@torch.no_grad()
def elbo_bits_per_dim(vae: VDVAE, x: Tensor, *, noise: NoiseSource) -> BitsPerDim:
    """One walk, z from q(z | x), for 8-bit images [B, C, H, W] in [-1, 1]."""
    return _bits(vae, objectives.elbo(vae, x, noise=noise, pixel_score=vae.pixel_log_probs).bits_per_dim)


@torch.no_grad()
def forward_kl_nats_per_dim(
    model: ConditionalVAE, x: Tensor, observation: Observation, *, noise: NoiseSource
) -> Tensor:
    """[B]: KL(q(z | x) || c(z | y)) over C * H * W, what the partial encoder is trained to lower (eq:forward-elbo)."""
    return _kl(objectives.forward(model, x, observation, noise=noise, likelihood=model.trains_artifact))


@torch.no_grad()
def unknown_bits_per_dim(
    model: ConditionalVAE, x: Tensor, observation: Observation, *, noise: NoiseSource, samples: int = 1
) -> BitsPerDim:
    """-log p_cond(x~ | y) in bits over the hidden dimensions: bounded from above by the ELBO (eq:forward-elbo, one walk
    with z from q(z | x)), or with several samples by the importance-weighted bound, which falls towards it.

    For 8-bit images [B, C, H, W] in [-1, 1]. NaN where nothing is hidden.
    """
    if samples == 1:
        return forward_kl_and_bits(model, x, observation, noise=noise)[1]
    score = model.artifact.pixel_log_probs
    bound = objectives.importance_weighted(model, x, observation, samples=samples, noise=noise, pixel_score=score)
    return _hidden_bits(model.artifact, bound)


@torch.no_grad()
def forward_kl_and_bits(
    model: ConditionalVAE, x: Tensor, observation: Observation, *, noise: NoiseSource
) -> tuple[Tensor, BitsPerDim]:
    """`forward_kl_nats_per_dim` and `unknown_bits_per_dim` of one walk."""
    bound = objectives.forward(model, x, observation, noise=noise, pixel_score=model.artifact.pixel_log_probs)
    return _kl(bound), _hidden_bits(model.artifact, bound)


def _kl(bound: objectives.Bound) -> Tensor:
    return bound.kl_nats.double().sum(dim=1) / bound.image_dims


def _hidden_bits(vae: VDVAE, bound: objectives.LogProbability) -> BitsPerDim:
    return _bits(vae, torch.where(bound.scored_dims > 0, bound.bits_per_scored_dim, math.nan))


def _bits(vae: VDVAE, bits: Tensor) -> BitsPerDim:
    """[1 or 2, B] as `pixel_log_probs` tells them apart."""
    return BitsPerDim(bits[0].double(), bits[-1].double() if vae.likelihood.bits == 8 else None)
