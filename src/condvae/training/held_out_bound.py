"""Compute bounds on held-out images: every time on the same images, observations and noise, split over the ranks."""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast, get_args

import numpy as np
import torch
from torch import Tensor

from condvae.data import ImageSet
from condvae.runtime.progress import track
from condvae.runtime.seeds import Seeds
from condvae.vdvae import VDVAEConfig

if TYPE_CHECKING:
    from condvae.training.step import TrainingStep
    from condvae.training.task import BoundTask

ScoredPixels: TypeAlias = Literal["known", "hidden", "whole"]
"""Which pixels a bound is about: the known pixels, log p(y); the hidden pixels given y; or the whole image."""
_PIXELS: tuple[ScoredPixels, ...] = get_args(ScoredPixels)
CHUNK = 50
"""Number of images that are evaluated together. It is fixed: each chunk has its own seed, so another size would change
results."""


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """The results of one evaluation on held-out images. Numbers are means over images, unless stated otherwise."""

    images: int
    nats_per_dim: float
    """The loss: minus the bound that training maximises, divided by all dimensions of an image."""
    standard_error: float
    """Standard error of nats_per_dim."""
    log_likelihood_nats: float
    kl_nats: tuple[float, ...]
    """KL of each latent group, from coarse to fine."""
    by_pixels: dict[str, float]
    """Bounds by name, for comparing runs that have different losses. For each NAME there is a NAME_standard_error.

    hidden_nats: minus the bound on log p(hidden pixels | y), averaged over images. hidden_bits_per_dim: the sum of
    these nats over all images, divided by the number of hidden dimensions, in bits. whole_nats, whole_bits_per_dim: the
    same for whole images. The reverse objective has known_nats and known_bits_per_dim instead, for the bound on log
    p(y)."""
    config: VDVAEConfig

    @property
    def loss(self) -> float:
        return self.nats_per_dim

    @property
    def bits_per_dim(self) -> float:
        return self.nats_per_dim / math.log(2)

    @property
    def short(self) -> str:
        return f"{self.bits_per_dim:.4f} bits/dim"

    @property
    def text(self) -> str:
        error = f" +- {self.standard_error / math.log(2):.4f}" if self.images > 1 else ""
        return f"{self.bits_per_dim:.4f}{error} bits/dim ({self.summary})"

    def numbers(self, raw: "Evaluation | None" = None) -> dict[str, Any]:
        return {
            "images": self.images,
            "nats_per_dim": self.nats_per_dim,
            "standard_error": self.standard_error,
            "bits_per_dim": self.bits_per_dim,
            "raw_bits_per_dim": None if raw is None else raw.bits_per_dim,
            "log_likelihood_nats": self.log_likelihood_nats,
            "kl_nats": by_resolution(self.config, self.kl_nats),
            **self.by_pixels,
        }

    def record(self) -> dict[str, Any]:
        kl = by_resolution(self.config, self.kl_nats)
        return {
            "bits_per_dim": round(self.bits_per_dim, 5),
            **{name: round(cost, 5) for name, cost in self.by_pixels.items() if "error" not in name},
            "evaluated_on": self.images,
            "kl_nats": {str(resolution): round(nats, 2) for resolution, nats in kl.items()},
        }

    @property
    def summary(self) -> str:
        """The bounds in `by_pixels` as one line of text."""
        found = self.by_pixels
        costs = (
            f"{pixels} {found[f'{pixels}_bits_per_dim']:.4f} bits/dim, {found[f'{pixels}_nats']:,.1f} nats"
            for pixels in _PIXELS
            if f"{pixels}_nats" in found
        )
        return "; ".join(costs)


def by_resolution(config: VDVAEConfig, kl_nats: tuple[float, ...]) -> dict[int, float]:
    """Sum the KLs of the latent groups at each resolution, from coarse to fine."""
    sums: dict[int, float] = {}
    for stage, kl in zip(config.group_stages, kl_nats, strict=True):
        sums[stage.resolution] = sums.get(stage.resolution, 0.0) + kl
    return sums


@torch.no_grad()
def evaluate_held_out(step: "TrainingStep", images: ImageSet, *, seed: int) -> Evaluation:
    """Compute the task's bounds on these images with the current weights."""
    if not len(images):
        raise ValueError("there are no images to evaluate on")
    task = cast("BoundTask", step.task)
    seeds, world = Seeds(seed, "evaluation"), step.world
    config = task.vae.config
    dims, groups = config.image_dims, len(config.group_stages)
    # Sums over images of: 1, loss, squared loss, log-likelihood, KLs. They are in float64, so that the order of
    # summation hardly matters.
    sums = torch.zeros(4 + groups, dtype=torch.float64, device=world.device)
    # [scored pixels, (nats, dimensions), image]
    table = torch.zeros(len(_PIXELS), 2, len(images), dtype=torch.float64, device=world.device)
    chunks = np.split(np.arange(len(images)), range(CHUNK, len(images), CHUNK))
    with track("evaluating", total=len(images)) as job:
        for number in range(world.rank, len(chunks), world.size):
            batch = images.take(chunks[number]).to(world.device).batch()
            bounds = step.reports(batch, seeds.generator(number, world.device))
            for pixels, found in bounds.items():
                costs = torch.stack((-found.nats.double(), found.scored_dims.double()))
                table[_PIXELS.index(pixels), :, number * CHUNK :][:, : len(batch)] = costs
            bound = bounds[task.scores]
            loss, log_likelihood = -bound.nats.double() / dims, bound.log_likelihood_nats
            assert log_likelihood is not None
            figures = torch.stack((torch.ones_like(loss), loss, loss.square(), log_likelihood.double()), dim=1)
            sums += torch.cat((figures, bound.kl_nats.double()), dim=1).sum(dim=0)
            job.update(len(batch) * world.size)  # the other ranks compute as many at the same time
    n, total, squares, log_likelihoods, *kls = world.sum(sums).tolist()
    mean = total / n
    return Evaluation(
        images=int(n),
        nats_per_dim=mean,
        standard_error=math.sqrt(max(squares / n - mean**2, 0.0) / n),
        log_likelihood_nats=log_likelihoods / n,
        kl_nats=tuple(kl / n for kl in kls),
        by_pixels=_by_pixels(world.sum(table).cpu()),
        config=config,
    )


def _by_pixels(table: Tensor) -> dict[str, float]:
    def error(values: Tensor) -> float:
        return float(values.std(correction=0)) / math.sqrt(len(values))

    found: dict[str, float] = {}
    for pixels, (nats, dims) in zip(_PIXELS, table, strict=True):
        if dims.any():
            ratio = nats.sum() / dims.sum()
            scale = float(dims.mean()) * math.log(2)
            found[f"{pixels}_bits_per_dim"] = float(ratio) / math.log(2)
            # The delta method gives the standard error of a ratio of means.
            found[f"{pixels}_bits_per_dim_standard_error"] = error(nats - ratio * dims) / scale
            found[f"{pixels}_nats"] = float(nats.mean())
            found[f"{pixels}_nats_standard_error"] = error(nats)
    return found
