"""Bounds on log-probabilities of images: bits per dimension, nats and forward KL.

The functions return one number for each image. For a set of images with holes of different sizes, bits per hidden
dimension are the sum of all images' bits divided by the sum of their hidden dimensions (`Estimate.of_ratio`). Averaging
the bits per dimension of single images would instead give the smallest holes as much weight as the largest.
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
    """An upper bound on -log p of each image, under two likelihoods."""

    native: Tensor
    """[B]: the bound under the model's own likelihood. `GaussianPixels` ignores detail below its noise floor."""
    of_8_bits: Tensor | None
    """[B]: the bound for 8-bit images, which can be compared between models. None for a 5-bit likelihood."""


class ConditionalNats(NamedTuple):
    """Upper bounds on -log p_cond(x~ | y) of each image, in nats.

    The target x~ is the hidden pixels in one bound and the whole image in the other. Both bounds use the same decoder
    passes.
    """

    hidden: ByLikelihood
    """The bounds for the hidden pixels."""
    whole: ByLikelihood
    """The bounds for the whole image."""
    hidden_dims: Tensor
    """[B]: the number of each image's hidden pixels times channels."""
    whole_dims: Tensor
    """[B]: the number of all pixels of an image times channels, C * H * W."""
    kl: Tensor | None
    """[B]: KL(q(z | x) || c(z | y)), which is a part of the bound with one sample; None with several samples."""


@torch.no_grad()
def elbo_bits_per_dim(vae: VDVAE, x: Tensor, *, noise: NoiseSource) -> ByLikelihood:
    """Return the -ELBO of each image in bits per dimension, with one sample z from q(z | x).

    x: 8-bit images, scaled to [-1, 1], [B, C, H, W].
    """
    bound = objectives.elbo(vae, x, noise=noise, pixel_score=vae.pixel_log_probs)
    return _by_likelihood(vae, bound.bits_per_dim.double())


@torch.no_grad()
def forward_kl_nats_per_dim(
    model: ConditionalVAE, x: Tensor, observation: Observation, *, noise: NoiseSource
) -> Tensor:
    """Return KL(q(z | x) || c(z | y)) / (C * H * W) of each image, [B].

    Training minimises this KL, which is a part of the paper's equation for the forward ELBO (eq:forward-elbo).
    """
    bound = objectives.forward(model, x, observation, noise=noise, likelihood=model.trains_artifact)
    return bound.kl_nats.double().sum(dim=1) / bound.image_dims


@torch.no_grad()
def conditional_nats(
    model: ConditionalVAE, x: Tensor, observation: Observation, *, noise: NoiseSource, samples: int = 1
) -> ConditionalNats:
    """Return upper bounds on -log p_cond(x~ | y) of each image, where x~ is the hidden pixels or the whole image.

    x: 8-bit images, scaled to [-1, 1], [B, C, H, W]. With one sample z from q(z | x), the bound is minus the paper's
    forward ELBO (eq:forward-elbo). With several samples it is the importance-weighted bound, which becomes tighter as
    the number of samples grows.
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
    """Return the upper bound on -log2 p of each image's hidden pixels, divided by its number of hidden dimensions.

    The result is NaN for an image without hidden pixels. To average over images, divide the sum of their nats by the
    sum of their hidden dimensions, both from `conditional_nats`.
    """
    nats = conditional_nats(model, x, observation, noise=noise, samples=samples)
    native, of_8_bits = nats.hidden
    dims = torch.where(nats.hidden_dims > 0, nats.hidden_dims * math.log(2), math.nan)
    return ByLikelihood(native / dims, None if of_8_bits is None else of_8_bits / dims)


def _by_likelihood(vae: VDVAE, values: Tensor) -> ByLikelihood:
    """Convert values [1 or 2, B], whose rows are in the order of `VDVAE.pixel_log_probs`, to a `ByLikelihood`."""
    return ByLikelihood(values[0], values[-1] if vae.likelihood.bits == 8 else None)
