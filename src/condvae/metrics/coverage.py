"""Coverage: test whether a posterior is calibrated, by the rank of the original ("truth") among its samples.

If truth and samples are exchangeable given the observation, the rank of the truth is uniform for any function of the
images. Two families of functions are used here: random projections of the hidden pixels, and LPIPS distances to random
reference images (TARP, Lemos et al. 2023). Ties are broken at random, so that the rank of a calibrated posterior is
exactly uniform for any number of samples.
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
"""First noise stream used here. Sampling uses lower streams, so equal seeds give independent numbers."""
_SMOOTH_GRID = 4
_NUMBERS_AT_ONCE = 2**26
"""Values of differences and directions held at once, to bound the memory."""
_LEVELS = 99
_HISTOGRAM_BINS = 20
_RESAMPLED = 1000
_BAND_PROBABILITY = 0.95
_SURE = 3.0
"""Standard errors from zero beyond which leaning or shift counts as real."""
_UNLIKELY = 0.003
"""The p-value that corresponds to three standard errors."""


class Calibration(NamedTuple):
    """Coverage: how often the truth lies in a region that contains a given share of the samples."""

    images: int
    one_sided: bool
    """True if regions grow from a reference image (TARP), False if they grow from the middle of the samples."""
    levels: Tensor
    """[99]: nominal levels 0.01 ... 0.99, the shares of the samples."""
    coverage: Tensor
    """[99]: how often the truth is inside; equal to the level for a calibrated posterior."""
    band: float
    """With probability 0.95, |coverage - level| of a calibrated posterior is at most this at all levels at once."""
    error: float
    """Calibration error: the mean of |coverage - level| over the levels."""
    error_by_chance: float
    """The calibration error that a calibrated posterior is expected to have by chance, with as many images."""
    p_value: float
    """The probability that a calibrated posterior has an error at least this large."""
    largest: float
    """The largest |coverage - level| (Kolmogorov-Smirnov)."""
    leaning: Estimate
    """Twice the signed area between the diagonal and the coverage curve: 0 if calibrated, towards 1 if the truth is
    always outside the samples (overconfident), towards -1 if it is always in their middle (underconfident)."""
    shift: Estimate
    """The mean rank minus 1/2: above 0 if samples lie below the truth. 0 for random projections, which have no sign."""
    histogram: Tensor
    """[20]: histogram of the ranks, scaled so that uniform ranks give 1."""

    @property
    def verdict(self) -> str:
        """Return "overconfident", "underconfident", "biased", "miscalibrated" or "calibrated".

        A deviation counts only if it is statistically clear. "biased" is a posterior that is not calibrated but leans
        to neither side: it is shifted, or its curve crosses the diagonal. With one_sided, every clear deviation is
        "miscalibrated": on which side of the diagonal a narrow posterior lies depends on where the references are.
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
    """Rank the images among their samples in P random directions; return ranks in (0, 1), [B, P].

    truth: [B, C, H, W]. samples: [B, K, C, H, W]. hidden: [B, 1, H, W]; only hidden pixels are projected, and an image
    without hidden pixels gets NaN. The directions depend on (seed, first + row) only.
    kind: "white" weights each pixel and channel by an independent normal number; "smooth" draws the weights on a
    4 x 4 grid and interpolates them, which tests the colours of large regions.
    """
    if samples.ndim != 5 or (samples.shape[0], *samples.shape[2:]) != tuple(truth.shape) or not samples.shape[1]:
        raise ValueError(
            f"samples have shape {tuple(samples.shape)} and images {tuple(truth.shape)}, "
            "expected [B, K, C, H, W] and [B, C, H, W]"
        )
    if hidden.shape != (len(truth), 1, *truth.shape[2:]) or hidden.dtype != torch.bool:
        raise ValueError(
            f"hidden is {hidden.dtype} {list(hidden.shape)}, expected bool [B, 1, H, W] for images {list(truth.shape)}"
        )
    if truth.dtype != samples.dtype:
        raise ValueError(f"images are {truth.dtype} but samples are {samples.dtype}: give the same dtype")
    check_whole(projections, "the number of projections", least=1)
    check_choice(kind, "the kind of projections", ("white", "smooth"))
    step = max(1, _NUMBERS_AT_ONCE // (truth[0].numel() * (samples.shape[1] + projections))) if len(truth) else 1
    found = [truth.new_empty(0, projections, dtype=torch.float32)]
    for start in range(0, len(truth), step):
        rows = slice(start, min(start + step, len(truth)))
        noise = seeds_from(seed, 1, observations=range(first + rows.start, first + rows.stop))
        # Project differences, so that equal images give exact ties in spite of rounding.
        apart = (samples[rows].float() - truth[rows, None].float()) * hidden[rows, None]
        directions = [_direction(noise, p, kind, apart[:, 0]).flatten(1) for p in range(projections)]
        projected = torch.einsum("bkd,bpd->bkp", apart.flatten(2), torch.stack(directions, dim=1))
        ranks = _ranks(projected, noise)
        found.append(torch.where(hidden[rows].flatten(1).any(dim=1, keepdim=True), ranks, math.nan))
    return torch.cat(found)


def reference_ranks(reference_truth: Tensor, reference_samples: Tensor, *, seed: int, first: int = 0) -> Tensor:
    """Return the share of samples that are nearer to each reference than the truth is (TARP), in (0, 1), [B, R].

    reference_truth: [B, R], distances of the images to their references. reference_samples: [B, K, R], distances of
    the samples. The references must not depend on the truth.
    """
    if (
        reference_samples.ndim != 3
        or tuple(reference_truth.shape) != (len(reference_samples), reference_samples.shape[2])
        or not reference_samples.shape[1]
    ):
        raise ValueError(
            f"distances have shapes {tuple(reference_truth.shape)} and {tuple(reference_samples.shape)}, "
            "expected [B, R] and [B, K, R]"
        )
    noise = seeds_from(seed, 1, observations=range(first, first + len(reference_truth)))
    return _ranks(reference_samples - reference_truth[:, None], noise)


def calibration(ranks: Tensor, *, one_sided: bool = False, seed: int = 0) -> Calibration:
    """Compute coverage from ranks [B, P] of B images; rows with NaN (images without a hole) are ignored.

    The credibility of the truth is the level of the smallest region that contains it. Regions grow from the middle of
    the samples outwards, which gives |2 rank - 1|; with one_sided (TARP) from the reference outwards, which gives the
    rank itself. The ranks of one image are correlated, so the effect of chance is estimated over whole images, by a
    multiplier bootstrap with one normal number per image. It resamples the credibilities after replacing them by
    uniform values of the same order: these are calibrated and have the same correlations. Without this step, a
    posterior that is always certain would seem to vary by chance not at all.
    """
    if ranks.ndim != 2 or not ranks.shape[1]:
        raise ValueError(f"ranks have shape {tuple(ranks.shape)}, expected [images, projections]")
    ranks = ranks.detach().cpu().double()
    ranks = ranks[~ranks.isnan().any(dim=1)]
    if len(ranks) < 2:
        raise ValueError(f"calibration needs at least two images with holes, but got {len(ranks)}: give more")
    if not bool(((ranks >= 0) & (ranks <= 1)).all()):
        raise ValueError("some ranks are outside [0, 1]: give ranks from projection_ranks or reference_ranks")
    credibility = ranks if one_sided else (2 * ranks - 1).abs()
    levels = torch.arange(1, _LEVELS + 1, dtype=torch.float64) / (_LEVELS + 1)
    coverage = _share_at_most(credibility, levels).mean(dim=0)
    error, largest = _from_diagonal(coverage - levels)
    order = credibility.flatten().argsort(stable=True).argsort()
    uniform = _share_at_most((order + 0.5).div(order.numel()).view_as(credibility), levels)
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


def _share_at_most(credibility: Tensor, levels: Tensor) -> Tensor:
    """Return the share of each image's credibilities [images, P] that are at most each level, [images, levels]."""
    return torch.stack([(credibility <= level).double().mean(dim=1) for level in levels], dim=1)


def _direction(noise: SeededNoise, p: int, kind: str, like: Tensor) -> Tensor:
    """Return the pixel weights of projection p, [B, C, H, W]."""
    stream = _STREAMS + 4 * p
    if kind == "white":
        return noise.normal(stream, like.shape, like.device)
    coarse = noise.normal(stream + 1, (*like.shape[:2], _SMOOTH_GRID, _SMOOTH_GRID), like.device)
    return F.interpolate(coarse, size=like.shape[2:], mode="bilinear", align_corners=True)


def _ranks(above_truth: Tensor, noise: SeededNoise) -> Tensor:
    """Return ranks of the truth, [B, P]. above_truth: how much each sample is above the truth, [B, K, P]."""
    below, ties = ((above_truth < 0).sum(dim=1), (above_truth == 0).sum(dim=1))
    batch, k, p = above_truth.shape
    uniform = noise.uniform(_STREAMS + 2, (batch, p), above_truth.device) + 2.0**-25
    return (below + uniform * (ties + 1)) / (k + 1)


def _from_diagonal(deviations: Tensor) -> tuple[Tensor, Tensor]:
    """Return the mean and the maximum of |coverage - level| over the last dimension."""
    sizes = deviations.abs()
    return sizes.mean(dim=-1), sizes.max(dim=-1).values
