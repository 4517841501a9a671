"""Compute means and standard errors of a method's metrics, for each bin and for the mixture, from results of units.

The mixture is computed in three ways:

- Metrics of single images: all bins use the same images. The value of an image is the mean over its bins.
- Bits per dimension: a sum of bits is divided by a sum of dimensions, so that every hidden pixel counts equally. The
  sums run over all images and bins.
- Metrics of sets: the set contains each image once, where image i has a hole of bin i mod 5.

Standard errors are always over images. Metrics of single images and bits are computed from stored values of the
images, so that the same functions also give those of a group of images.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from condvae.experiments.evaluation.plan import DIRECTIONS, IMPORTANCE_SAMPLES, MIXTURE, EvaluationSettings
from condvae.metrics import FWV_SIGMAS, HOLE_BINS, Calibration, ConditionalMoments, Estimate, Moments, calibration, cfid
from condvae.metrics import faithfulness_weighted_variance as weighted_variance
from condvae.metrics.discrimination import ids
from condvae.metrics.frechet import fid
from condvae.metrics.kernel_distance import kid

Plain = dict[str, float | None]
ByColumn = dict[str, Plain]
COLUMNS = (*map(str, HOLE_BINS), MIXTURE)
ALL = "all"
"""The name of the column for metrics that do not use holes."""
COVERAGES = (*DIRECTIONS, "reference")
"""The kinds of coverage: by random projections, and by distances to reference images."""
SET_METRICS = ("fid", "cfid", "kid", "p_ids", "u_ids")
"""Metrics of sets of images, which have no value for a single image."""
CURVE = (1, 2, 5, 10, 20, 50, 100)
"""Numbers of completions for which LPIPS-GT is reported, in addition to n."""
BOUNDS = {
    "": "8-bit images, -ELBO",
    f"@{IMPORTANCE_SAMPLES}": f"8-bit images, {IMPORTANCE_SAMPLES} importance samples",
    "_native": "the model's own likelihood, -ELBO",
    f"_native@{IMPORTANCE_SAMPLES}": f"the model's own likelihood, {IMPORTANCE_SAMPLES} importance samples",
}
"""Suffixes in the names of bounds on -log p given y, and their meanings."""
_SHOWN = slice(4, None, 5)
"""Levels at which coverage curves are stored, 0.05 ... 0.95; errors are computed from all 99 levels."""


def plain(estimate: Estimate) -> Plain:
    """Convert an estimate for JSON, which has neither NaN nor infinity: these become None."""
    return {name: value if math.isfinite(value) else None for name, value in estimate._asdict().items()}


def by_column(values: Tensor) -> ByColumn:
    """Estimate the mean of values [bins, images] in each bin and in the mixture; None if a value is NaN or infinite."""
    found = {str(hole): plain(Estimate.of(row)) for hole, row in zip(HOLE_BINS, values, strict=True)}
    return {**found, MIXTURE: plain(Estimate.of(values.double().mean(dim=0)))}


def ratio_by_column(values: Tensor, weights: Tensor) -> ByColumn:
    """Estimate sum(values) / sum(weights), both [bins, images], in each bin and over all bins (the mixture)."""
    ratios = map(Estimate.of_ratio, values, weights)
    found = {str(hole): plain(ratio) for hole, ratio in zip(HOLE_BINS, ratios, strict=True)}
    return {**found, MIXTURE: plain(Estimate.of_ratio(values.sum(dim=0), weights.sum(dim=0)))}


class RealFeatures:
    """Features of the originals and of their observations, with the matrices that are the same for all methods."""

    def __init__(self, features: Tensor, observed: Callable[[], Iterable[Tensor]]) -> None:
        """features: of the originals, [N, D]. observed: returns those of the observations in each bin, [N, D]."""
        self.features, self.observed = features, observed
        self._given: dict[str, ConditionalMoments] = {}

    @cached_property
    def moments(self) -> Moments:
        return Moments.of(self.features)

    def given(self, column: str, observed: Tensor) -> ConditionalMoments:
        """Return the moments of the originals given the observations of a column. They are computed once."""
        if column not in self._given:
            self._given[column] = ConditionalMoments.of(self.features, observed)
        return self._given[column]


def of_features(originals: RealFeatures, bins: Iterable[Tensor], *, seed: int) -> dict[str, ByColumn]:
    """Compute FID, CFID, KID, P-IDS and U-IDS in each bin and in the mixture.

    bins: features of the completions in each bin, [N, D], in the order of the originals.
    """
    real = originals.features
    mixture, mixture_observed = torch.empty_like(real), torch.empty_like(real)
    found: dict[str, ByColumn] = {name: {} for name in SET_METRICS}

    def add(column: str, fake: Tensor, observed: Tensor) -> None:
        discrimination = ids(real, fake)
        found["fid"][column] = plain(fid(real, fake, paired=True, real_moments=originals.moments))
        given = originals.given(column, observed)
        found["cfid"][column] = plain(cfid(real, fake, observed, real_given=given))
        found["kid"][column] = plain(kid(real, fake, seed=seed))
        found["p_ids"][column] = plain(discrimination.p_ids)
        found["u_ids"][column] = plain(discrimination.u_ids)

    for number, (hole, fake, observed) in enumerate(zip(HOLE_BINS, bins, originals.observed(), strict=True)):
        add(str(hole), fake, observed)
        own = slice(number, None, len(HOLE_BINS))
        mixture[own], mixture_observed[own] = fake[own], observed[own]
    add(MIXTURE, mixture, mixture_observed)
    return found


def image_values(bins: Sequence[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """Join the numbers of the same images in all bins: [images, bins, ...] by name."""
    return {name: torch.stack([numbers[name] for numbers in bins], dim=1) for name in bins[0]}


def sample_values(bins: Sequence[Mapping[str, Tensor]], settings: EvaluationSettings) -> dict[str, Tensor]:
    """Return each metric of each deep image, [images, bins], and the ranks of coverage, [images, bins, ranks].

    bins: the numbers of the deep images in each bin.
    """
    joined = image_values(bins)
    found = {"put_back": joined["put_back"]}
    if "lpips" in settings.metrics:
        to_truth, between = joined["to_truth"], joined["between"]
        found["lpips_gt"] = to_truth.amin(dim=2)
        # A method with one fixed completion stores it once: its LPIPS-GT is the same for all k, its diversity is 0.
        single = to_truth.shape[2] == 1
        for k in sorted({*(k for k in CURVE if k < settings.n), settings.n}):
            found[f"lpips_gt@{k}"] = to_truth[:, :, :k].amin(dim=2)
        if settings.n > 1:
            found["lpips_diversity"] = torch.zeros(to_truth.shape[:2]) if single else between.mean(dim=2)
            for sigma in FWV_SIGMAS:
                pairs = zip(to_truth.unbind(1), joined["to_mean"].unbind(1), strict=True)
                found[f"fwv@{sigma:g}"] = torch.stack([weighted_variance(a, b, sigma) for a, b in pairs], dim=1)
        found["crps_lpips"] = joined["crps_lpips"]
    if "pixels" in settings.metrics:
        found["crps_pixels"] = joined["crps_pixels"]
        found["best_mse"] = joined["mse"].amin(dim=2)
        found["psnr_of_mean"] = joined["psnr"]
        found["ssim_of_mean"] = joined["ssim"]
    if "coverage" in settings.metrics:
        found |= {name: joined[name] for name in map(_ranks, COVERAGES)}
    return found


def of_samples(values: Mapping[str, Tensor]) -> dict[str, Any]:
    """Compute metrics and coverage from the values of some deep images, as `sample_values` returns them."""
    other = {"put_back", *map(_ranks, COVERAGES)}
    metrics = {name: by_column(value.T) for name, value in values.items() if name not in other}
    found: dict[str, Any] = {"metrics": metrics, "known_pixels_put_back": int(values["put_back"].sum())}
    if _ranks(COVERAGES[0]) in values:
        found["coverage"] = {}
        for kind in COVERAGES:
            ranks = values[_ranks(kind)]
            by_bin = [calibration(one, one_sided=kind == "reference") for one in ranks.unbind(1)]
            # Put all ranks of an image into one row, since images are the independent units.
            together = calibration(ranks.flatten(1), one_sided=kind == "reference")
            columns = dict(zip(COLUMNS, (*by_bin, together), strict=True))
            found["coverage"][kind] = {column: _coverage(one) for column, one in columns.items()}
            metrics[f"calibration_error@{kind}"] = {
                column: {"mean": one.error, "standard_error": None} for column, one in columns.items()
            }
            if kind in DIRECTIONS:  # leaning has no meaning for references
                metrics[f"leaning@{kind}"] = {column: plain(one.leaning) for column, one in columns.items()}
    return found


def _ranks(kind: str) -> str:
    return f"{kind}_ranks"


def _coverage(found: Calibration) -> dict[str, Any]:
    def rounded(values: Tensor) -> list[float]:
        return [round(value, 4) for value in values.tolist()]

    return {
        "images": found.images,
        "levels": rounded(found.levels[_SHOWN]),
        "coverage": rounded(found.coverage[_SHOWN]),
        "band": found.band,
        "error": found.error,
        "error_by_chance": found.error_by_chance,
        "p_value": found.p_value,
        "largest": found.largest,
        **({} if found.one_sided else {"leaning": plain(found.leaning)}),
        "shift": plain(found.shift),
        "verdict": found.verdict,
        "histogram": rounded(found.histogram),
    }


def of_vae(values: Mapping[str, Tensor]) -> dict[str, Any]:
    """Compute the bits per dimension of a VAE alone, from those of some images."""
    metrics = {"bits_per_dim_native": {ALL: plain(Estimate.of(values["native"]))}}
    if "8_bits" in values:
        metrics["bits_per_dim"] = {ALL: plain(Estimate.of(values["8_bits"]))}
    return {"metrics": metrics}


def of_bounds(values: Mapping[str, Tensor]) -> dict[str, Any]:
    """Compute the forward KL, and bounds on -log p given y in bits per dimension and in nats.

    The bounds are for the hidden pixels and for the whole image. values: the bounds of some images, [images, bins].
    """
    joined = {name: value.T for name, value in values.items()}  # [bins, images]
    metrics = {"forward_kl_nats_per_dim": by_column(joined["kl_nats"] / joined["whole_dims"])}
    for target in ("hidden", "whole"):
        for name in (f"{target}_nats{kind}" for kind in BOUNDS):
            if name in joined:
                bits, dims = joined[name] / math.log(2), joined[f"{target}_dims"]
                metrics[name.replace("nats", "bits_per_dim")] = ratio_by_column(bits, dims)
                metrics[name] = by_column(joined[name])
    return {"metrics": metrics}
