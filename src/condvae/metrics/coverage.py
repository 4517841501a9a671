"""Is a posterior calibrated? Where the truth stands among samples, in ways that a calibrated posterior makes uniform.

If truth and samples are exchangeable given the observation, the rank of any function of them is uniform. Two families
of functions: random projections of the hidden pixels, and LPIPS distances to random reference images (TARP, Lemos et
al. 2023). Ties are broken at random, so that the rank is uniform exactly, for any number of samples.
"""

import math
from typing import Literal, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from condvae.metrics.estimate import Estimate
from condvae.noise import SeededNoise
from condvae.runtime.checks import check_choice, check_whole
from condvae.sampling.plain import seeds_from

_STREAMS = 2**33
"""From here on: no sample is drawn from these, even where it has the same seed."""
_SMOOTH_GRID = 4
_NUMBERS_AT_ONCE = 2**26
"""Of differences and directions, which bounds the memory."""
_LEVELS = 99
_HISTOGRAM_BINS = 20
_RESAMPLED = 1000
_BAND_PROBABILITY = 0.95
_SURE = 3.0
"""Standard errors from zero from which on a posterior is said to lean."""
_UNLIKELY = 0.003
"""The p-value of as many."""


class Calibration(NamedTuple):
    """Expected coverage: how often the truth lies in a region that holds a given share of the samples."""

    images: int
    one_sided: bool
    """Whether regions grow from a reference, as TARP has them, and not from the samples' middle."""
    levels: Tensor
    """[99]: credibility levels 0.01 ... 0.99."""
    coverage: Tensor
    """[99]: how often the truth is inside; the level itself where the posterior is calibrated."""
    band: float
    """With probability 0.95, a calibrated posterior stays this near the level at all levels at once."""
    error: float
    """The mean over levels of |coverage - level|."""
    error_by_chance: float
    """What that mean is expected to be for a calibrated posterior and so many images: good is no less than this."""
    p_value: float
    """The probability of so great an error or a greater one if the posterior is calibrated."""
    largest: float
    """The largest |coverage - level| (Kolmogorov-Smirnov)."""
    leaning: Estimate
    """Twice the area between the diagonal and the curve: 0 if calibrated, up to 1 if the truth is always outside of the
    samples (overconfident), down to -1 if it is always in their middle (underconfident)."""
    shift: Estimate
    """E rank - 1/2: above 0 if samples are below the truth. 0 for random projections, whose sign is random."""
    histogram: Tensor
    """[20]: of the ranks, 1 where it is as high as the uniform's."""

    @property
    def verdict(self) -> str:
        """In a word, if the images are enough to tell: overconfident, underconfident, biased or calibrated.

        Biased is what leans to neither side and is not calibrated either: shifted, or on both sides of the diagonal.
        One-sided, no more than miscalibrated can be said: to which side of the diagonal too narrow a posterior goes
        depends on where the references lie.
        """
        leans = abs(self.leaning.mean) > _SURE * self.leaning.standard_error
        shifted = abs(self.shift.mean) > _SURE * self.shift.standard_error
        if not (leans or shifted or self.p_value < _UNLIKELY):
            return "calibrated"
        if self.one_sided:
            return "miscalibrated"
        return "biased" if not leans else "overconfident" if self.leaning.mean > 0 else "underconfident"


@torch.no_grad()
def projection_ranks(
    truth: Tensor,
    samples: Tensor,
    hidden: Tensor,
    *,
    projections: int,
    seed: int,
    first: int = 0,
    kind: Literal["white", "smooth"] = "white",
) -> Tensor:
    """[B, P] in (0, 1): ranks of images [B, C, H, W] among samples [B, K, C, H, W] in P random directions.

    Directions are over the pixels that are hidden [B, 1, H, W]; an image without any has NaN. They depend on (seed,
    first + row) alone. kind: "white" weighs each pixel and channel by its own normal number, "smooth" draws these on
    4 x 4 places and interpolates, which asks for the colours of large regions.
    """
    if samples.ndim != 5 or (samples.shape[0], *samples.shape[2:]) != tuple(truth.shape) or not samples.shape[1]:
        raise ValueError(
            f"samples of shape {tuple(samples.shape)} were given for images of {tuple(truth.shape)}, "
            "expected [B, K, C, H, W] for [B, C, H, W]"
        )
    if hidden.shape != (len(truth), 1, *truth.shape[2:]) or hidden.dtype != torch.bool:
        raise ValueError(
            f"hidden is {hidden.dtype} {list(hidden.shape)}, expected bool [B, 1, H, W] of images {list(truth.shape)}"
        )
    if truth.dtype != samples.dtype:
        raise ValueError(f"images are {truth.dtype} and samples {samples.dtype}, expected the same")
    check_whole(projections, "the number of projections", least=1)
    check_choice(kind, "the kind of projections", ("white", "smooth"))
    step = max(1, _NUMBERS_AT_ONCE // (truth[0].numel() * (samples.shape[1] + projections))) if len(truth) else 1
    found = [truth.new_empty(0, projections, dtype=torch.float32)]
    for start in range(0, len(truth), step):
        rows = slice(start, min(start + step, len(truth)))
        noise = seeds_from(seed, 1, observations=range(first + rows.start, first + rows.stop))
        # Differences: equal images tie whatever the rounding.
        apart = (samples[rows].float() - truth[rows, None].float()) * hidden[rows, None]
        directions = [_direction(noise, p, kind, apart[:, 0]).flatten(1) for p in range(projections)]
        projected = torch.einsum("bkd,bpd->bkp", apart.flatten(2), torch.stack(directions, dim=1))
        ranks = _ranks(projected, noise)
        found.append(torch.where(hidden[rows].flatten(1).any(dim=1, keepdim=True), ranks, math.nan))
    return torch.cat(found)


def reference_ranks(reference_truth: Tensor, reference_samples: Tensor, *, seed: int, first: int = 0) -> Tensor:
    """[B, R] in (0, 1): the share of samples that are nearer to a reference than the truth is (TARP).

    Distances [B, R] of images and [B, K, R] of their samples, to references that do not depend on the truth.
    """
    if (
        reference_samples.ndim != 3
        or tuple(reference_truth.shape) != (len(reference_samples), reference_samples.shape[2])
        or not reference_samples.shape[1]
    ):
        raise ValueError(
            f"distances of shapes {tuple(reference_truth.shape)} and {tuple(reference_samples.shape)} were given, "
            "expected [B, R] and [B, K, R]"
        )
    noise = seeds_from(seed, 1, observations=range(first, first + len(reference_truth)))
    return _ranks(reference_samples - reference_truth[:, None], noise)


def calibration(ranks: Tensor, *, one_sided: bool = False, seed: int = 0) -> Calibration:
    """What ranks [B, P] of B images say; rows with NaN, of images without a hole, are left out.

    The truth's credibility is that of the smallest region of samples it is in: from the middle outwards, |2 rank - 1|;
    one_sided, as TARP has it, from the reference outwards, the rank itself. The ranks of one image are not independent,
    so chance is told from miscalibration over images, with a normal number for each of them (a multiplier bootstrap).
    What is weighed by these are credibilities made uniform by their order, those of a posterior that is calibrated and
    whose images hang together as these do: else one that is always sure would seem to leave nothing to chance.
    """
    if ranks.ndim != 2 or not ranks.shape[1]:
        raise ValueError(f"ranks have shape {tuple(ranks.shape)}, expected [images, projections]")
    ranks = ranks.detach().cpu().double()
    ranks = ranks[~ranks.isnan().any(dim=1)]
    if len(ranks) < 2:
        raise ValueError(f"{len(ranks)} images have ranks, calibration needs two at least: give more")
    if not bool(((ranks >= 0) & (ranks <= 1)).all()):
        raise ValueError("ranks are outside of [0, 1]: expected those of projection_ranks or reference_ranks")
    credibility = ranks if one_sided else (2 * ranks - 1).abs()
    levels = torch.arange(1, _LEVELS + 1, dtype=torch.float64) / (_LEVELS + 1)
    coverage = _inside(credibility, levels).mean(dim=0)
    error, largest = _from_diagonal(coverage - levels)
    order = credibility.flatten().argsort(stable=True).argsort()
    uniform = _inside((order + 0.5).div(order.numel()).view_as(credibility), levels)
    multipliers = torch.randn(
        _RESAMPLED, len(ranks), generator=torch.Generator().manual_seed(seed), dtype=torch.float64
    )
    by_chance, largest_by_chance = _from_diagonal(multipliers @ (uniform - uniform.mean(dim=0)) / len(ranks))
    return Calibration(
        images=len(ranks),
        one_sided=one_sided,
        levels=levels,
        coverage=coverage,
        band=float(largest_by_chance.quantile(_BAND_PROBABILITY)),
        error=float(error),
        error_by_chance=float(by_chance.mean()),
        p_value=float((1 + (by_chance >= error).sum()) / (1 + _RESAMPLED)),
        largest=float(largest),
        leaning=Estimate.of(2 * credibility.mean(dim=1) - 1),
        shift=Estimate.of(ranks.mean(dim=1) - 0.5),
        histogram=torch.histc(ranks, _HISTOGRAM_BINS, 0, 1) * (_HISTOGRAM_BINS / ranks.numel()),
    )


def _inside(credibility: Tensor, levels: Tensor) -> Tensor:
    """[images, levels]: the share of an image's credibilities [images, P] that are no higher."""
    return torch.stack([(credibility <= level).double().mean(dim=1) for level in levels], dim=1)


def _direction(noise: SeededNoise, p: int, kind: str, like: Tensor) -> Tensor:
    """[B, C, H, W]: what projection p weighs pixels by."""
    stream = _STREAMS + 4 * p
    if kind == "white":
        return noise.normal(stream, like.shape, like.device)
    coarse = noise.normal(stream + 1, (*like.shape[:2], _SMOOTH_GRID, _SMOOTH_GRID), like.device)
    return F.interpolate(coarse, size=like.shape[2:], mode="bilinear", align_corners=True)


def _ranks(above_truth: Tensor, noise: SeededNoise) -> Tensor:
    """[B, P]: ranks of the truth, given by how much each sample is above it [B, K, P]."""
    below, ties = ((above_truth < 0).sum(dim=1), (above_truth == 0).sum(dim=1))
    batch, k, p = above_truth.shape
    uniform = noise.uniform(_STREAMS + 2, (batch, p), above_truth.device) + 2.0**-25
    return (below + uniform * (ties + 1)) / (k + 1)


def _from_diagonal(deviations: Tensor) -> tuple[Tensor, Tensor]:
    """The mean and the largest |coverage - level|, over the last dimension."""
    sizes = deviations.abs()
    return sizes.mean(dim=-1), sizes.max(dim=-1).values
