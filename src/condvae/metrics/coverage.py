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
"""The first noise stream of this module. Sampling uses lower streams, so its numbers are independent of these."""
_SMOOTH_GRID = 4
_NUMBERS_AT_ONCE = 2**26
"""How many values of image differences and projection weights are held at once, to bound the memory."""
_LEVELS = 99
_HISTOGRAM_BINS = 20
_RESAMPLED = 1000
_BAND_PROBABILITY = 0.95
_SURE = 3.0
"""Leaning or shift counts as real if it is more than this many standard errors away from zero."""
_UNLIKELY = 0.003
"""A calibration error with a lower p-value counts as real. This value corresponds to three standard errors."""


class Calibration(NamedTuple):
    """Coverage: how often the truth lies in a region that contains a given share of the samples."""

    images: int
    one_sided: bool
    """True if regions grow from a reference image (TARP), False if they grow from the middle of the samples."""
    levels: Tensor
    """[99]: the nominal levels 0.01, 0.02, ..., 0.99. A level is the share of the samples that a region contains."""
    coverage: Tensor
    """[99]: how often the truth lies in the region of each level; equal to the level for a calibrated posterior."""
    band: float
    """With probability 0.95, a calibrated posterior has |coverage - level| <= band at all levels at once."""
    error: float
    """Calibration error: the mean of |coverage - level| over the levels."""
    error_by_chance: float
    """The calibration error that a calibrated posterior has on average, by chance, for the same number of images."""
    p_value: float
    """The probability that a calibrated posterior has a calibration error of at least `error` by chance."""
    largest: float
    """The largest |coverage - level| over the levels (the Kolmogorov-Smirnov statistic)."""
    leaning: Estimate
    """Twice the signed area between the diagonal and the coverage curve: 0 if calibrated, towards 1 if the truth is
    always outside the samples (overconfident), towards -1 if it is always in their middle (underconfident)."""
    shift: Estimate
    """The mean rank minus 1/2: above 0 if samples tend to lie below the truth. Random projections have random signs, so
    their shift is 0 except for chance."""
    histogram: Tensor
    """[20]: histogram of the ranks, scaled so that uniform ranks give 1."""

    @property
    def verdict(self) -> str:
        """Return "overconfident", "underconfident", "biased", "miscalibrated" or "calibrated".

        A deviation counts only if it is statistically significant. A posterior is "biased" if it is not calibrated but
        neither over- nor underconfident: its samples are shifted, or its coverage curve crosses the diagonal. With
        one_sided, every significant deviation is "miscalibrated", since the side of the diagonal on which the curve of
        a narrow posterior lies depends on the reference images.
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
    """Rank each original image among its samples by P random projections; return the ranks in (0, 1), [B, P].

    truth: the original images, [B, C, H, W]. samples: K samples of each, [B, K, C, H, W]. hidden: bool [B, 1, H, W];
    only hidden pixels are projected, and the ranks of an image without hidden pixels are NaN. The projections of image
    b depend only on the seed and on first + b.
    kind: "white" draws the weight of each pixel and channel independently from a normal distribution; "smooth" draws
    weights on a 4 x 4 grid and interpolates them, which tests the colours of large regions.
    """
    if samples.ndim != 5 or (samples.shape[0], *samples.shape[2:]) != tuple(truth.shape) or not samples.shape[1]:
        raise ValueError(
            f"samples have shape {tuple(samples.shape)} and images {tuple(truth.shape)}, "
            "expected [B, K, C, H, W] and [B, C, H, W]"
        )
    if hidden.shape != (len(truth), 1, *truth.shape[2:]) or hidden.dtype != torch.bool:
        raise ValueError(
            f"hidden is a {hidden.dtype} tensor of shape {list(hidden.shape)}, expected bool [B, 1, H, W] for images "
            f"of shape {list(truth.shape)}"
        )
    if truth.dtype != samples.dtype:
        raise ValueError(f"images are {truth.dtype} but samples are {samples.dtype}: give the same dtype for both")
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
    """For each reference image, return the share of samples that are nearer to it than the truth is (TARP), [B, R].

    reference_truth: [B, R], distances of the B original images to their R reference images. reference_samples:
    [B, K, R], distances of their K samples to the same reference images, which must not depend on the truth. Shares are
    in (0, 1). Ties are broken at random, with numbers that depend only on the seed and on first + row.
    """
    if (
        reference_samples.ndim != 3
        or tuple(reference_truth.shape) != (len(reference_samples), reference_samples.shape[2])
        or not reference_samples.shape[1]
    ):
        raise ValueError(
            f"distances to references have shape {tuple(reference_truth.shape)} for the originals and "
            f"{tuple(reference_samples.shape)} for the samples, expected [B, R] and [B, K, R]"
        )
    noise = seeds_from(seed, 1, observations=range(first, first + len(reference_truth)))
    return _ranks(reference_samples - reference_truth[:, None], noise)


def calibration(ranks: Tensor, *, one_sided: bool = False, seed: int = 0) -> Calibration:
    """Compute coverage from ranks [B, P] of B images; rows with NaN (images without a hole) are ignored.

    The credibility of the truth is the level of the smallest region that contains the truth. Regions grow from the
    middle of the samples outwards, so the credibility is |2 rank - 1|. With one_sided (TARP), they grow from the
    reference image outwards, and the credibility is the rank itself.

    The ranks of one image are correlated, so the effect of chance is estimated by a multiplier bootstrap over whole
    images, with one normal number per image. Before the bootstrap, the credibilities are replaced by uniform values in
    the same order, which are calibrated and have the same rank correlations. Without this replacement, a posterior that
    is always certain would appear to have no variation by chance.
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
    """For each image and level, return the share of the image's P credibilities that are at most the level.

    credibility: [images, P]. The result is [images, levels].
    """
    return torch.stack([(credibility <= level).double().mean(dim=1) for level in levels], dim=1)


def _direction(noise: SeededNoise, p: int, kind: str, like: Tensor) -> Tensor:
    """Return the pixel weights of projection p, [B, C, H, W]."""
    stream = _STREAMS + 4 * p
    if kind == "white":
        return noise.normal(stream, like.shape, like.device)
    coarse = noise.normal(stream + 1, (*like.shape[:2], _SMOOTH_GRID, _SMOOTH_GRID), like.device)
    return F.interpolate(coarse, size=like.shape[2:], mode="bilinear", align_corners=True)


def _ranks(above_truth: Tensor, noise: SeededNoise) -> Tensor:
    """Return the rank of the truth among K samples by each of P functions of the image, [B, P].

    above_truth: the function of each sample minus the function of the truth, [B, K, P].
    """
    below, ties = ((above_truth < 0).sum(dim=1), (above_truth == 0).sum(dim=1))
    batch, k, p = above_truth.shape
    uniform = noise.uniform(_STREAMS + 2, (batch, p), above_truth.device) + 2.0**-25
    return (below + uniform * (ties + 1)) / (k + 1)


def _from_diagonal(deviations: Tensor) -> tuple[Tensor, Tensor]:
    """Return the mean and the maximum of |coverage - level| over the levels, which are the last dimension."""
    sizes = deviations.abs()
    return sizes.mean(dim=-1), sizes.max(dim=-1).values
