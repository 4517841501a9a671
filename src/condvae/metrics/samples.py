"""LPIPS distances of K samples of an image to the original ("truth"), each other, their mean and reference images.

The CRPS of LPIPS features is computed here as well, from the same features.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from condvae.metrics.lpips import LPIPS
from condvae.metrics.ranked_probability import feature_crps
from condvae.sampling.plain import chunks

FWV_SIGMAS = (0.05, 0.1, 0.15, 0.2, 0.3, 0.5, 1.0)
"""Values of sigma for which FWV is reported. A small sigma counts only samples close to the truth, a large one all."""
_HELD_AT_MOST = 2**28
"""If the features of all samples of one image are more values than this, they are held in the CPU's memory."""


class SampleDistances(NamedTuple):
    """LPIPS distances for B images with K samples each."""

    to_truth: Tensor
    """[B, K]: distance of each sample to the original image (the truth)."""
    between: Tensor
    """[B, K // 2]: distance of sample 1 to sample 2, of sample 3 to sample 4, and so on. The mean of these K / 2
    distances is an unbiased estimate of the mean over all K (K - 1) / 2 pairs."""
    to_mean: Tensor
    """[B, K]: distance of each sample to the pixelwise mean of the K samples."""
    reference_truth: Tensor | None = None
    """[B, R]: distance of the original image to each of R reference images."""
    reference_samples: Tensor | None = None
    """[B, K, R]: distance of each sample to each of R reference images."""
    crps: Tensor | None = None
    """[B], float64: the CRPS of LPIPS features, which is the score of `condvae.metrics.ranked_probability` for each
    coordinate of the feature maps that LPIPS compares. These have length 1 over channels, and are scaled by the square
    roots of LPIPS's linear weights. The scores are averaged over positions, and summed over channels and layers."""

    def closest(self, k: int | None = None) -> Tensor:
        """Return the distance from the truth to the nearest of the first k samples, or of all if k is None, [B].

        The mean of the result over images is LPIPS-GT (section 4 of the paper).
        """
        return self.to_truth[:, :k].min(dim=1).values

    def diversity(self) -> Tensor:
        """Return the mean distance between two samples, [B] (Zhu et al. 2017); NaN if there is only one sample."""
        return self.between.mean(dim=1)


@torch.inference_mode()
def sample_distances(
    lpips: LPIPS, truth: Tensor, samples: Tensor, references: Tensor | None = None, *, crps: bool = False
) -> SampleDistances:
    """Compute the LPIPS distances of samples [B, K, C, H, W] of images [B, C, H, W], on the network's device.

    Images are uint8 or floats in [-1, 1]. references: R reference images for each image, [B, R, C, H, W], which must
    not depend on the truth; their distances are for `reference_ranks`. Samples are processed in chunks, and only the
    features of one chunk are held, so that memory is bounded for any B and K. crps: whether to compute the CRPS of
    LPIPS features as well. It needs the features of all samples of an image at once.
    """
    _check(truth, samples, "samples", "K")
    if references is not None:
        _check(truth, references, "references", "R")
    count, k = samples.shape[:2]
    r = 0 if references is None else references.shape[1]
    device = lpips.device
    to_truth, to_mean = torch.empty(2, count, k, device=device)
    between = torch.empty(count, k // 2, device=device)
    reference_truth, reference_samples = torch.empty(count, r, device=device), torch.empty(count, k, r, device=device)
    scores = torch.empty(count, device=device, dtype=torch.float64) if crps else None
    held = torch.empty(0)
    for rows, columns in chunks(count, k, _samples_at_once(lpips, truth, k, r)):
        if columns.start == 0:  # compute the features that all samples of these rows are compared with
            wanted = lpips.features(truth[rows])
            mean = lpips.features(_mean_image(samples[rows]))
            points = _features(lpips, references[rows]).unbind(dim=1) if references is not None else ()
            for i, point in enumerate(points):
                reference_truth[rows, i] = lpips.distance(wanted, point)
        found = _features(lpips, samples[rows, columns])
        to_truth[rows, columns] = lpips.distance(found, wanted[:, None])
        to_mean[rows, columns] = lpips.distance(found, mean[:, None])
        for i, point in enumerate(points):
            reference_samples[rows, columns, i] = lpips.distance(found, point[:, None])
        # Chunks start at even samples, so that no pair is split.
        pairs = slice(columns.start // 2, columns.stop // 2)
        last = 2 * (found.shape[1] // 2)
        between[rows, pairs] = lpips.distance(found[:, 0:last:2], found[:, 1:last:2])
        if scores is not None:
            if columns.stop - columns.start < k:  # the samples of one image in several chunks
                if columns.start == 0:
                    held = _held(found, k)
                held[:, columns] = found
                found = held
            if columns.stop == k:
                scores[rows] = feature_crps(wanted, found, lpips.position_weights(*truth.shape[-2:]))
    if references is None:
        return SampleDistances(to_truth, between, to_mean, crps=scores)
    return SampleDistances(to_truth, between, to_mean, reference_truth, reference_samples, scores)


def faithfulness_weighted_variance(to_truth: Tensor, to_mean: Tensor, sigma: float) -> Tensor:
    """Return sum_k exp(-to_truth_k / (2 sigma^2)) * to_mean_k of each image, [B].

    to_truth, to_mean: LPIPS distances of the K samples, [B, K]. The mean of the result over N images is the paper's FWV
    divided by N (Li et al. 2020; the paper's appendix on metrics). The result is a sum over the K samples, so it grows
    with K.
    """
    if to_truth.shape != to_mean.shape or to_truth.ndim != 2:
        raise ValueError(
            f"distances have shapes {tuple(to_truth.shape)} and {tuple(to_mean.shape)}, expected [B, K] for both"
        )
    if not sigma > 0:
        raise ValueError(f"sigma is {sigma}, expected a positive number")
    return ((-to_truth.double() / (2 * sigma**2)).exp() * to_mean.double()).sum(dim=1)


def _check(truth: Tensor, others: Tensor, name: str, k: str) -> None:
    if others.ndim != 5 or (others.shape[0], *others.shape[2:]) != tuple(truth.shape) or 0 in others.shape[:2]:
        raise ValueError(
            f"{name} have shape {tuple(others.shape)} and images {tuple(truth.shape)}, "
            f"expected [B, {k}, C, H, W] and [B, C, H, W]"
        )


def _samples_at_once(lpips: LPIPS, truth: Tensor, k: int, r: int) -> int:
    """Return how many samples to process at once, an even number.

    The number is smaller if an image has more references than samples, since features of references are held as well.
    """
    most = lpips.images_at_once(*truth.shape[-2:])
    return max(2, most * k // max(k, r) // 2 * 2)


def _held(found: Tensor, k: int) -> Tensor:
    """Return an empty tensor [B, k, D] for the features of all k samples, given those of the first, [B, some, D]."""
    size = (found.shape[0], k, found.shape[2])
    return torch.empty(size, device="cpu" if torch.Size(size).numel() > _HELD_AT_MOST else found.device)


def _features(lpips: LPIPS, images: Tensor) -> Tensor:
    """Return LPIPS features [B, K, D] of images [B, K, C, H, W]."""
    return lpips.features(images.flatten(0, 1)).reshape(*images.shape[:2], -1)


def _mean_image(samples: Tensor) -> Tensor:
    """Return the mean of the K samples [B, K, C, H, W] of each image, [B, C, H, W] in [-1, 1], without rounding."""
    mean = samples.mean(dim=1, dtype=torch.float32)
    return mean / 127.5 - 1 if samples.dtype == torch.uint8 else mean
