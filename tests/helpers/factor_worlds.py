"""Toy models for which the information gain of a scan has a closed form: x_i = a_i v + s_i e_i, independent given v.

The variable v is Gaussian (and predicted in many narrow bins) or binary. Completions and predictions are exact.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from condvae.completers.interface import paste_known
from condvae.observe import Observation
from condvae.runtime.pixels import to_uint8
from condvae.runtime.seeds import Seeds

SIZE = 4


@dataclass(frozen=True, kw_only=True, eq=False)
class FactorWorld:
    """Base class of both toy models. Loads and stds are so small that no grey level is clipped."""

    loads: Tensor
    """[SIZE, SIZE] float64: the coefficients a."""
    stds: Tensor
    """[SIZE, SIZE] float64: the noise standard deviations s."""
    outcomes: int
    name: str = "exact"
    varies: bool = True
    names: tuple[str, ...] = ("v",)

    def evidence(self, pixels: Tensor, known: Tensor) -> tuple[Tensor, Tensor]:
        """Return two sums over the known pixels, [B] each: of a x / s^2, and of a^2 / s^2."""
        weight = torch.where(known[:, 0], self.loads / self.stds**2, 0.0)
        return (weight * pixels[:, 0]).sum(dim=(1, 2)), (weight * self.loads).sum(dim=(1, 2))

    def draw_v(self, observation: Observation, k: int, generator: torch.Generator) -> Tensor:
        """Draw k values of v from p(v | y) for one observation: [k]."""
        raise NotImplementedError

    def complete(self, observation: Observation, k: int, seed: int, *, places: Sequence[int] | None = None) -> Tensor:
        seeds, made = Seeds(seed, "exact completions"), []
        for i, place in enumerate(range(len(observation)) if places is None else places):
            generator = seeds.generator(place)
            v = self.draw_v(observation[i : i + 1], k, generator)[:, None, None]
            noise = torch.randn(k, SIZE, SIZE, generator=generator, dtype=torch.float64)
            made.append(to_uint8(self.loads * v + self.stds * noise)[:, None])
        return paste_known(observation, torch.stack(made))

    def log_posterior(self, pixels: Tensor, known: Tensor) -> Tensor:
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True, eq=False)
class GaussianWorld(FactorWorld):
    """v ~ N(0, 1); the classifier g predicts in which of many bins v is."""

    outcomes: int = 256

    def posterior(self, pixels: Tensor, known: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and standard deviation of p(v | y), [B] each."""
        about, precision = self.evidence(pixels, known)
        return about / (1 + precision), (1 + precision) ** -0.5

    def draw_v(self, observation: Observation, k: int, generator: torch.Generator) -> Tensor:
        assert observation.pixels is not None and observation.known is not None
        mean, std = self.posterior(observation.pixels, observation.known)
        drawn: Tensor = mean + std * torch.randn(k, generator=generator, dtype=torch.float64)
        return drawn

    def log_posterior(self, pixels: Tensor, known: Tensor) -> Tensor:
        mean, std = self.posterior(pixels, known)
        edges = torch.linspace(-5, 5, self.outcomes + 1, dtype=torch.float64)
        below = torch.special.ndtr((edges - mean[:, None]) / std[:, None])
        masses = below.diff(dim=1)
        log_p: Tensor = (masses / masses.sum(dim=1, keepdim=True)).log()
        return log_p[:, None].float()

    def eig(self, known: Tensor, windows: Tensor) -> Tensor:
        """The EIG of each window in nats, [L]: half the log of the ratio of the precisions of v after and before."""
        nothing = torch.zeros(1, 1, SIZE, SIZE)
        _, before = self.evidence(nothing, known)
        _, after = self.evidence(nothing, known | windows)
        return ((1 + after) / (1 + before)).log() / 2


@dataclass(frozen=True, kw_only=True, eq=False)
class BinaryWorld(FactorWorld):
    """A toy model in which v is -1 or 1."""

    prior: float = 0.3
    """The prior probability of v = 1."""
    outcomes: int = 2

    def log_odds(self, pixels: Tensor, known: Tensor) -> Tensor:
        return math.log(self.prior / (1 - self.prior)) + 2 * self.evidence(pixels, known)[0]

    def draw_v(self, observation: Observation, k: int, generator: torch.Generator) -> Tensor:
        assert observation.pixels is not None and observation.known is not None
        p = self.log_odds(observation.pixels, observation.known).sigmoid()
        return torch.where(torch.rand(k, generator=generator, dtype=torch.float64) < p, 1.0, -1.0).double()

    def log_posterior(self, pixels: Tensor, known: Tensor) -> Tensor:
        odds = self.log_odds(pixels, known)
        return torch.nn.functional.logsigmoid(torch.stack((-odds, odds), dim=1))[:, None].float()

    def eig(self, pixels: Tensor, known: Tensor, windows: Tensor) -> Tensor:
        """The EIG of each window in nats, [L], for one observation, by Gauss-Hermite quadrature.

        Given v, the new pixels add N(2 v d, 4 d) to the log-odds, where d is their sum of a^2 / s^2.
        """
        odds = self.log_odds(pixels, known)
        _, before = self.evidence(pixels, known)
        _, after = self.evidence(pixels, known | windows)
        d = (after - before)[:, None]
        roots, weights = (torch.from_numpy(part) for part in np.polynomial.hermite_e.hermegauss(80))
        weights = weights / weights.sum()
        p = odds.sigmoid()
        expected = sum(
            share * (binary_entropy(odds + 2 * v * d + 2 * d.sqrt() * roots) * weights).sum(dim=1)
            for v, share in ((1, p), (-1, 1 - p))
        )
        return binary_entropy(odds) - expected


def binary_entropy(log_odds: Tensor) -> Tensor:
    """Entropy of a binary variable, in nats."""
    log_sigmoid = torch.nn.functional.logsigmoid
    return -(log_odds.sigmoid() * log_sigmoid(log_odds) + (-log_odds).sigmoid() * log_sigmoid(-log_odds))


def uneven(seed: int = 0) -> tuple[Tensor, Tensor]:
    """Loads and stds with which some pixels are much more informative than others."""
    generator = torch.Generator().manual_seed(seed)
    loads = torch.rand(SIZE, SIZE, generator=generator, dtype=torch.float64) * 0.16 - 0.08
    stds = 0.06 + 0.06 * torch.rand(SIZE, SIZE, generator=generator, dtype=torch.float64)
    return loads, stds


@dataclass(frozen=True, kw_only=True, eq=False)
class LinearClassifier:
    """A classifier whose logits are random linear functions of the known pixels, so that every pixel matters."""

    size: int = 8
    channels: int = 1
    names: tuple[str, ...] = ("one", "other")
    outcomes: int = 3
    seed: int = 0
    calls: list[int]
    """The number of images in each call."""

    @property
    def weight(self) -> Tensor:
        shape = (len(self.names) * self.outcomes, (self.channels + 1) * self.size**2)
        return 0.3 * torch.randn(shape, generator=torch.Generator().manual_seed(self.seed), dtype=torch.float64)

    def log_posterior(self, pixels: Tensor, known: Tensor) -> Tensor:
        self.calls.append(len(pixels))
        assert torch.equal(pixels, torch.where(known, pixels, 0.0)), "hidden pixels reach the classifier"
        seen = torch.cat((pixels, known), dim=1).flatten(1).double()
        # One row at a time, so that the result for an image is bit-identical in any batch.
        logits = torch.stack([(self.weight * row).sum(dim=1) for row in seen])
        return logits.view(-1, len(self.names), self.outcomes).log_softmax(dim=-1).float()


def linear_classifier(**changes: object) -> LinearClassifier:
    return LinearClassifier(calls=[], **changes)  # type: ignore[arg-type]
