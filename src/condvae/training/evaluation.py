"""The bound on held-out images: the same images, observations and noise every time, shared out over the ranks."""

import math
from dataclasses import dataclass

import numpy as np
import torch

from condvae.data import ImageSet
from condvae.runtime.seeds import Seeds
from condvae.training.step import TrainingStep
from condvae.vdvae import VDVAEConfig

CHUNK = 50
"""Images evaluated together. A constant: each chunk has its own seed, so results do not depend on ranks or memory."""


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """Means over images."""

    images: int
    nats_per_dim: float
    """Minus the bound: what training lowers."""
    standard_error: float
    """Of nats_per_dim."""
    log_likelihood_nats: float
    kl_nats: tuple[float, ...]
    """Per latent group."""

    @property
    def bits_per_dim(self) -> float:
        return self.nats_per_dim / math.log(2)


@torch.no_grad()
def evaluate(step: TrainingStep, images: ImageSet, *, seed: int) -> Evaluation:
    """The task's bound on these images with the weights as they are."""
    if not len(images):
        raise ValueError("there are no images to evaluate on")
    seeds, world = Seeds(seed, "evaluation"), step.world
    dims = step.task.vae.config.image_dims
    # Images, loss, its square, log-likelihood, KLs; in float64, so that the order of summation does not show.
    sums = torch.zeros(4 + step.groups, dtype=torch.float64, device=world.device)
    chunks = np.split(np.arange(len(images)), range(CHUNK, len(images), CHUNK))
    for number in range(world.rank, len(chunks), world.size):
        batch = images.take(chunks[number]).to(world.device).batch()
        bound = step.bound(batch, seeds.generator(number, world.device))
        loss, log_likelihood = -bound.nats.double() / dims, bound.log_likelihood_nats
        assert log_likelihood is not None
        figures = torch.stack((torch.ones_like(loss), loss, loss.square(), log_likelihood.double()), dim=1)
        sums += torch.cat((figures, bound.kl_nats.double()), dim=1).sum(dim=0)
    n, total, squares, log_likelihoods, *kls = world.sum(sums).tolist()
    mean = total / n
    return Evaluation(
        images=int(n),
        nats_per_dim=mean,
        standard_error=math.sqrt(max(squares / n - mean**2, 0.0) / n),
        log_likelihood_nats=log_likelihoods / n,
        kl_nats=tuple(kl / n for kl in kls),
    )


def by_resolution(config: VDVAEConfig, kl_nats: tuple[float, ...]) -> dict[int, float]:
    """KLs of the latent groups, summed at each resolution, coarse to fine."""
    sums: dict[int, float] = {}
    for stage, kl in zip(config.group_stages, kl_nats, strict=True):
        sums[stage.resolution] = sums.get(stage.resolution, 0.0) + kl
    return sums
