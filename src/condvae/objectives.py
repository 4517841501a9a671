"""The three lower bounds of the paper. Each needs one pass. They differ in the distribution of z and in their terms.

    function   z from     KL per group     likelihood of   is a bound on           equation in the paper
    elbo       q(z|x)     q to p           all pixels      log p(x)                eq:eelbo
    forward    q(z|x)     q to c           hidden (x~)     log p_cond(x~|y)        eq:forward-elbo
    reverse    c(z|y)     c to p           known (y)       log p(y)                eq:reverse-obj

The KL of a latent group is computed in closed form or estimated from its drawn z (see the paper's appendix on KL).
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import torch
from torch import Tensor

from condvae.conditional import ConditionalVAE
from condvae.gaussian import Gaussian
from condvae.noise import NoiseSource, as_noise
from condvae.observe.observation import Observation
from condvae.runtime.checks import check_choice, check_whole
from condvae.vdvae.encoder import Posterior, Source
from condvae.vdvae.model import VDVAE, Descent, Step, StepScore

KLEstimate: TypeAlias = Literal["analytic", "sampled"]
Target: TypeAlias = Literal["hidden", "whole"]
PixelScore: TypeAlias = Callable[[Tensor, Tensor], Tensor]
"""A function (final decoder state, images) -> log p of each pixel, [B, H, W], or [M, B, H, W] for M likelihoods."""


class LogProbability(ABC):
    """An estimate of a log-probability for every image of a batch, in nats and in bits.

    With `GaussianPixels`, it measures information above the noise floor, not the log-probability of 8-bit pixels.
    """

    image_dims: int
    """Number of dimensions of an image, C * H * W."""
    scored_dims: Tensor
    """[B]: the number of each image's dimensions that the estimate is about, such as those of its hidden pixels."""

    @property
    @abstractmethod
    def nats(self) -> Tensor: ...

    @property
    def bits_per_dim(self) -> Tensor:
        """[B]: minus `nats`, in bits per dimension; known dimensions count too, as in the public code."""
        return -self.nats / (self.image_dims * math.log(2))

    @property
    def bits_per_scored_dim(self) -> Tensor:
        """[B]: minus `nats`, in bits per scored dimension; infinite or NaN for an image without scored dimensions."""
        return -self.nats / (self.scored_dims * math.log(2))


@dataclass(frozen=True, kw_only=True)
class Bound(LogProbability):
    """A lower bound on a log-probability: the log-likelihood of the scored pixels minus the KL divergence."""

    log_likelihood_nats: Tensor | None
    """[B]: log p of the scored pixels given z. None if it was left out, as training may do where it has no gradient."""
    kl_nats: Tensor
    """[B, L]: the KL divergence of each image and latent group."""
    image_dims: int
    scored_dims: Tensor
    likelihood_weight: float | Tensor = 1.0
    """Factor on the log-likelihood in `loss`; `nats` does not use it."""

    @property
    def nats(self) -> Tensor:
        """[B]: the bound, log-likelihood minus KL."""
        if self.log_likelihood_nats is None:
            raise ValueError("this bound does not include the likelihood: compute it with likelihood=True")
        return self.log_likelihood_nats - self.kl_nats.sum(dim=1)

    @property
    def loss(self) -> Tensor:
        """The training loss: KL minus weighted log-likelihood (if any), in nats per dimension, averaged over images."""
        objective = -self.kl_nats.sum(dim=1)
        if self.log_likelihood_nats is not None:
            objective = objective + self.likelihood_weight * self.log_likelihood_nats
        return -objective.mean() / self.image_dims


@dataclass(frozen=True, kw_only=True)
class ImportanceWeighted(LogProbability):
    """A tighter lower bound on a log-probability, from several samples of z."""

    importance_weighted_nats: Tensor
    image_dims: int
    scored_dims: Tensor

    @property
    def nats(self) -> Tensor:
        """[B]: the bound for each image."""
        return self.importance_weighted_nats


def elbo(
    vae: VDVAE,
    x: Tensor,
    *,
    noise: NoiseSource,
    kl: KLEstimate = "analytic",
    pixel_score: PixelScore | None = None,
    check_values: bool = True,
) -> Bound:
    """Return the ELBO, E_q [log p(x | z)] - KL(q(z | x) || p(z)), for images [B, C, H, W] in [-1, 1].

    pixel_score: computes log p of the pixels instead of the model's own likelihood.
    check_values: whether to check every pixel for NaN and its range. This waits for the device; training turns it off.
    """
    vae.check(x, values=check_values)
    return evidence(vae, vae.posterior(x), x, _everywhere(x), noise=noise, kl=kl, pixel_score=pixel_score)


def forward(
    model: ConditionalVAE,
    x: Tensor,
    observation: Observation,
    *,
    noise: NoiseSource,
    target: Target = "hidden",
    kl: KLEstimate = "analytic",
    likelihood: bool = True,
    pixel_score: PixelScore | None = None,
    check_values: bool = True,
) -> Bound:
    """Return IPA's mass-covering objective (paper: eq:forward-elbo), E_q [log p(x~ | z)] - KL(q(z | x) || c(z | y)).

    target: whether x~ is the hidden pixels or the whole image. If `observation.known` is None, all pixels are hidden.
    likelihood: whether to compute the first term. It has no gradient if the artifact is frozen.
    pixel_score: computes log p of the pixels instead of the model's own likelihood.
    """
    if not likelihood and model.trains_artifact:
        raise ValueError("likelihood is False, but this model trains its artifact: give likelihood=True")
    vae = model.artifact
    vae.check(x, values=check_values)
    _check_batch(x, observation, values=check_values)
    c = vae.aside(lambda: model.posterior(observation), shared=True)
    # z comes from q, so the states have no gradient with respect to psi, and none at all if the artifact is frozen.
    score = _kl_score(kl, lambda step: c(step.group, step.state, step.prior))
    asks_prior = not isinstance(c, Posterior) or c.asks_prior
    descent = vae.descend(vae.posterior(x), batch=len(x), noise=noise, score=score, asks_prior=asks_prior)
    scored = _scored(observation, target)
    return _bound(vae, descent, x, scored, likelihood=likelihood, pixel_score=pixel_score)


def reverse(
    model: ConditionalVAE,
    observation: Observation,
    *,
    noise: NoiseSource,
    likelihood_weight: float | Tensor = 1.0,
    kl: KLEstimate = "analytic",
    pixel_score: PixelScore | None = None,
    check_values: bool = True,
) -> Bound:
    """Return IPA-R's mode-seeking objective (paper: eq:reverse-obj), E_c [log p(y | z)] - KL(c(z | y) || p(z)).

    It does not need the images x, but y must consist of known pixels.
    likelihood_weight: factor on the log-likelihood in `loss`, for annealing; `nats` does not use it.
    pixel_score: computes log p of the pixels instead of the model's own likelihood.
    """
    known, pixels = observation.known, observation.pixels
    if known is None or pixels is None:
        raise ValueError("the reverse objective needs an observation of known pixels, but this observation has none")
    vae = model.artifact
    vae.check(pixels, name="observation.pixels", values=False)
    if check_values:
        observation.check_values()
    bound = evidence(
        vae, model.posterior(observation), pixels, known[:, 0], noise=noise, kl=kl, pixel_score=pixel_score
    )
    return replace(bound, likelihood_weight=likelihood_weight)


def evidence(
    vae: VDVAE,
    source: Source,
    pixels: Tensor,
    scored: Tensor,
    *,
    noise: NoiseSource,
    kl: KLEstimate = "analytic",
    pixel_score: PixelScore | None = None,
    prior_temperature: float | Tensor = 1.0,
) -> Bound:
    """Return E [log p(pixels | z)] - KL(source || p(z)), with z from `source`: a lower bound on log p(scored pixels).

    pixels: [B, C, H, W] in [-1, 1]; only pixels where `scored`, [B, H, W] bool, is True are used.
    pixel_score: computes log p of the pixels instead of the model's own likelihood.
    prior_temperature: factor t on the prior's standard deviations, to bound log p(pixels; t). z is drawn without t.
    It is one number, or a tensor (not checked) of one number per latent group, [L], or per image and group, [B, L].
    """
    score = _kl_score(kl, _prior_at(prior_temperature))
    descent = vae.descend(source, batch=len(pixels), noise=noise, score=score)
    return _bound(vae, descent, pixels, scored, pixel_score=pixel_score)


@torch.no_grad()
def importance_weighted(
    model: VDVAE | ConditionalVAE,
    x: Tensor,
    observation: Observation | None = None,
    *,
    samples: int,
    noise: NoiseSource,
    target: Target = "hidden",
    pixel_score: PixelScore | None = None,
    check_values: bool = True,
) -> ImportanceWeighted:
    """Return the importance-weighted bound log 1/S sum_s p(x~ | z_s) c(z_s | y) / q(z_s | x), with z_s drawn from q.

    For a ConditionalVAE, it bounds log p_cond(x~ | y), where x~ is the target. For a VDVAE, it bounds log p(x), with
    the prior instead of c. Its expectation rises with S towards the log-probability (Burda et al. 2016).
    """
    check_whole(samples, "samples", least=1)
    noise = as_noise(noise)
    vae: VDVAE
    c: Source | None
    if isinstance(model, VDVAE):
        if observation is not None:
            raise ValueError("an unconditional model takes no observation: leave it out, or give a ConditionalVAE")
        vae, c = model, None
        scored = _everywhere(x)
    else:
        if observation is None:
            raise ValueError("a conditional model needs an observation, but none was given")
        _check_batch(x, observation, values=check_values)
        vae, c = model.artifact, model.posterior(observation)
        scored = _scored(observation, target)
    vae.check(x, values=check_values)
    q = vae.posterior(x)

    def log_weight(step: Step) -> Tensor:
        target_density = c(step.group, step.state, step.prior) if c else step.prior()
        return _total(target_density.log_prob(step.z) - step.drawn_from.log_prob(step.z))

    log_weights, groups = [], 0
    for sample in range(samples):
        # Each sample uses other streams: with per-image seeds, all samples would otherwise be the same.
        descent = vae.descend(q, batch=len(x), noise=noise, score=log_weight, first_stream=sample * groups)
        groups = len(descent.latents)
        log_weights.append(_sum_pixels(vae, descent.state, x, scored, pixel_score) + descent.scores.sum(dim=1))
    return ImportanceWeighted(
        importance_weighted_nats=torch.logsumexp(torch.stack(log_weights), dim=0) - math.log(samples),
        image_dims=vae.config.image_dims,
        scored_dims=_scored_dims(vae, scored),
    )


def for_both_targets(observation: Observation, pixel_score: PixelScore) -> PixelScore:
    """Make a pixel score [2, B, H, W] for hidden and for all pixels; one pass with target="whole" gives both bounds."""
    hidden = _scored(observation, "hidden")

    def both(state: Tensor, x: Tensor) -> Tensor:
        return torch.stack((torch.where(hidden, all_pixels := pixel_score(state, x), 0.0), all_pixels))

    return both


def hidden_dims(vae: VDVAE, observation: Observation) -> Tensor:
    """Return the number of hidden dimensions of each image, [B]: its hidden pixels times its channels."""
    return _scored_dims(vae, _scored(observation, "hidden"))


def _kl_score(estimate: KLEstimate, other: Callable[[Step], Gaussian]) -> StepScore:
    """Return a function that computes KL(distribution of z_l || other) of each image at step l of a pass."""
    check_choice(estimate, "the KL estimate", ("analytic", "sampled"))

    def analytic(step: Step) -> Tensor:
        return step.drawn_from.total_kl_to(other(step))

    def sampled(step: Step) -> Tensor:
        return _total(step.drawn_from.log_prob(step.z) - other(step).log_prob(step.z))

    return analytic if estimate == "analytic" else sampled


def _prior_at(temperature: float | Tensor) -> Callable[[Step], Gaussian]:
    """Return a function that gives the prior p(z_l | z_<l) at this temperature (the paper's eq:hierarchical-prior)."""
    if not isinstance(temperature, Tensor):
        if not 0 < temperature < math.inf:
            raise ValueError(f"the prior's temperature is {temperature!r}, expected a finite number above 0")
        if temperature == 1:
            return lambda step: step.prior()
        temperature = torch.tensor(temperature, dtype=torch.float64)
    by_group = temperature.log()

    def scaled(step: Step) -> Gaussian:
        prior = step.prior()
        log_t = by_group[..., step.group] if by_group.ndim else by_group
        return Gaussian(prior.mean, prior.log_std + log_t.to(prior.log_std).reshape(-1, 1, 1, 1))

    return scaled


def _total(values: Tensor) -> Tensor:
    return values.flatten(1).sum(dim=1)


def _scored(observation: Observation, target: Target) -> Tensor:
    """Return [B, H, W] bool: True for the target pixels x~, which are the hidden pixels or all pixels."""
    check_choice(target, "the target", ("hidden", "whole"))
    if target == "whole" or observation.known is None:
        return _everywhere(observation.y)
    return ~observation.known[:, 0]


def _everywhere(images: Tensor) -> Tensor:
    return torch.ones(len(images), *images.shape[2:], dtype=torch.bool, device=images.device)


def _sum_pixels(vae: VDVAE, state: Tensor, x: Tensor, scored: Tensor, pixel_score: PixelScore | None = None) -> Tensor:
    # A pixel that is not scored may have any value, even NaN, and must not affect the sum or its gradient.
    x = torch.where(scored.unsqueeze(1), x, 0.0)
    return torch.where(scored, (pixel_score or vae.pixel_log_prob)(state, x), 0.0).sum(dim=(-2, -1))


def _scored_dims(vae: VDVAE, scored: Tensor) -> Tensor:
    return scored.sum(dim=(1, 2)) * vae.config.channels


def _bound(
    vae: VDVAE,
    descent: Descent,
    x: Tensor,
    scored: Tensor,
    *,
    likelihood: bool = True,
    pixel_score: PixelScore | None = None,
) -> Bound:
    return Bound(
        log_likelihood_nats=_sum_pixels(vae, descent.state, x, scored, pixel_score) if likelihood else None,
        kl_nats=descent.scores,
        image_dims=vae.config.image_dims,
        scored_dims=_scored_dims(vae, scored),
    )


def _check_batch(x: Tensor, observation: Observation, *, values: bool) -> None:
    if len(x) != len(observation):
        raise ValueError(f"the number of images is {len(x)}, expected {len(observation)}: one image per observation")
    if values:
        observation.check_values()
