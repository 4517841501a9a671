"""CRPS: the continuous ranked probability score of K completions ("samples") against the original ("truth").

For one number with truth t and samples x_1 ... x_K, the fair version (Ferro 2014) is

    mean_i |x_i - t| - 1 / (2 K (K - 1)) sum_ij |x_i - x_j|

Its expectation does not depend on K for K >= 2: it is E|X - t| - E|X - X'| / 2, where X and X' are independent samples.
The score is proper (Gneiting and Raftery 2007): averaged over truths, it is lowest for samples of the true posterior,
and samples that vary too little or too much score worse. One sample, and K equal samples, have the score |x - t|. The
score of a single image can be negative by chance.

With samples in ascending order, the double sum is 2 sum_i (K + 1 - 2 i) (x_(K + 1 - i) - x_(i)) for i <= K / 2. No term
is negative, so equal samples give exactly 0, and the cost is that of sorting.
"""

import numpy as np
import torch
from torch import Tensor

_WHITE = 255.0
_NUMBERS_AT_ONCE = {"cuda": 2**25, "cpu": 2**22}
"""How many values are sorted at once, to bound the memory. A sort also needs 8 bytes per value for indices."""


@torch.no_grad()
def crps(truth: Tensor, samples: Tensor) -> Tensor:
    """Return the fair CRPS of each number, with the shape of truth.

    truth: [B, ...]. samples: K samples of each, [B, K, ...]. The result is float64 if both are float64, else float32.
    """
    if samples.ndim < 2 or (samples.shape[0], *samples.shape[2:]) != tuple(truth.shape) or not samples.shape[1]:
        raise ValueError(
            f"samples have shape {tuple(samples.shape)} and the truth {tuple(truth.shape)}, "
            "expected [B, K, ...] and [B, ...] with at least one sample"
        )
    wide = truth.dtype == samples.dtype == torch.float64
    return _scores(truth, samples, torch.float64 if wide else torch.float32)


@torch.no_grad()
def pixel_crps(truth: Tensor, samples: Tensor, hidden: Tensor) -> Tensor:
    """Return the mean CRPS over the hidden pixels and colour channels of each image, float64 [B].

    truth: uint8 [B, C, H, W]. samples: uint8 [B, K, C, H, W]. hidden: bool [B, 1, H, W]. The unit is the range of
    pixel values: black is 0 and white is 1. An image without hidden pixels has 0.
    """
    if samples.ndim != 5 or (samples.shape[0], *samples.shape[2:]) != tuple(truth.shape) or 0 in samples.shape[1:]:
        raise ValueError(
            f"samples have shape {tuple(samples.shape)} and images {tuple(truth.shape)}, "
            "expected [B, K, C, H, W] and [B, C, H, W]"
        )
    if truth.dtype != torch.uint8 or samples.dtype != torch.uint8:
        raise ValueError(f"images are {truth.dtype} and samples {samples.dtype}, expected grey levels, uint8 for both")
    if hidden.shape != (len(truth), 1, *truth.shape[2:]) or hidden.dtype != torch.bool:
        raise ValueError(
            f"hidden is a {hidden.dtype} tensor of shape {list(hidden.shape)}, expected bool [B, 1, H, W] for images "
            f"of shape {list(truth.shape)}"
        )
    count = hidden.flatten(1).sum(dim=1).clamp_min(1) * truth.shape[1]
    weights = hidden.expand_as(truth).flatten(1)
    return _weighted_sum(truth.flatten(1), samples.flatten(2), weights) / (_WHITE * count)


@torch.no_grad()
def feature_crps(truth: Tensor, samples: Tensor, weights: Tensor) -> Tensor:
    """Return the weighted sum of the CRPS of all features of each image, float64 [B].

    truth: features of the originals, floats [B, D]. samples: features of their K samples, [B, K, D], which may be in
    the memory of another device. weights: [D]; for LPIPS features, `LPIPS.position_weights`.
    """
    if truth.ndim != 2 or samples.ndim != 3 or (samples.shape[0], samples.shape[2]) != tuple(truth.shape):
        raise ValueError(
            f"features have shape {tuple(truth.shape)} for the originals and {tuple(samples.shape)} for the samples, "
            "expected [B, D] and [B, K, D]"
        )
    if weights.shape != truth.shape[1:] or not samples.shape[1]:
        raise ValueError(
            f"there are {samples.shape[1]} samples and weights of shape {tuple(weights.shape)}, expected at least one "
            f"sample and {truth.shape[1]} weights"
        )
    return _weighted_sum(truth, samples, weights.expand_as(truth))


def _scores(truth: Tensor, samples: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
    """Return the CRPS of truth [B, ...] and samples [B, K, ...]."""
    k = samples.shape[1]
    # Subtract the truth first: numbers close to zero have smaller rounding errors.
    apart = samples.to(truth.device, dtype) - truth[:, None].to(dtype)
    error = apart.abs().mean(dim=1)
    if k == 1:
        return error
    ordered, half = _ascending(apart), k // 2
    ranges = ordered[:, k - half :].flip(1) - ordered[:, :half]
    weights = torch.arange(k - 1, k - 1 - 2 * half, -2, device=truth.device, dtype=dtype) / (k * (k - 1))
    return error - (ranges * weights.view(-1, *[1] * (truth.ndim - 1))).sum(dim=1)


def _ascending(samples: Tensor) -> Tensor:
    """Sort floats [B, K, ...] along K."""
    if samples.device.type != "cpu":
        return samples.sort(dim=1).values
    # NumPy sorts short contiguous rows ten times as fast as torch does on a CPU.
    rows = samples.movedim(1, -1).contiguous().numpy()
    return torch.from_numpy(np.sort(rows, axis=-1)).movedim(-1, 1)


def _weighted_sum(truth: Tensor, samples: Tensor, weights: Tensor) -> Tensor:
    """Return the weighted sum over D of the CRPS of truth [B, D] and samples [B, K, D], float64 [B].

    Computed in chunks of images, and of numbers if one image is too large.
    """
    total = torch.zeros(len(truth), dtype=torch.float64, device=truth.device)
    most = max(1, _NUMBERS_AT_ONCE.get(truth.device.type, _NUMBERS_AT_ONCE["cpu"]) // samples.shape[1])
    width = min(most, truth.shape[1])
    for first in range(0, len(truth), most // width):
        rows = slice(first, first + most // width)
        for start in range(0, truth.shape[1], width):
            some = slice(start, start + width)
            scores = _scores(truth[rows, some], samples[rows, :, some])
            total[rows] += (scores * weights[rows, some]).sum(dim=1, dtype=torch.float64)
    return total
