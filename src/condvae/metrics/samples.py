"""LPIPS of K completions of an image: to the truth, and to each other."""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from condvae.metrics.lpips import LPIPS
from condvae.sample import chunks


class Estimate(NamedTuple):
    """A mean over images, and how sure it is."""

    mean: float
    standard_error: float
    """Of the mean: the spread of images over the root of their number; NaN for fewer than two."""

    @staticmethod
    def of(values: Tensor) -> "Estimate":
        values = values.double()
        return Estimate(
            mean=float(values.mean()),
            standard_error=float(values.std() / math.sqrt(len(values))) if len(values) > 1 else math.nan,
        )


class SampleDistances(NamedTuple):
    """For B images and K samples of each."""

    to_truth: Tensor
    """[B, K]: each sample to the image that was observed."""
    between: Tensor
    """[B, K // 2]: samples 1 and 2, samples 3 and 4, and so on. Pairs without a common sample: their mean is that over
    all pairs up to chance, for K / 2 distances instead of K (K - 1) / 2."""

    def closest(self, k: int | None = None) -> Tensor:
        """[B]: min over the first k samples (None: all). Its mean over images is LPIPS-GT, section 4 of the paper."""
        return self.to_truth[:, :k].min(dim=1).values

    def diversity(self) -> Tensor:
        """[B]: mean over pairs (Zhu et al. 2017); NaN where there is but one sample."""
        return self.between.mean(dim=1)


@torch.inference_mode()
def sample_distances(lpips: LPIPS, truth: Tensor, samples: Tensor) -> SampleDistances:
    """Distances of samples [B, K, C, H, W] to images [B, C, H, W], uint8 or in [-1, 1]; on the network's device.

    In chunks, whatever B and K are: only a chunk's features are ever there.
    """
    if samples.ndim != 5 or (samples.shape[0], *samples.shape[2:]) != tuple(truth.shape) or 0 in samples.shape[:2]:
        raise ValueError(
            f"samples of shape {tuple(samples.shape)} were given for images of {tuple(truth.shape)}, "
            "expected [B, K, C, H, W] for [B, C, H, W]"
        )
    count, k = samples.shape[:2]
    to_truth = torch.empty(count, k, device=lpips.device)
    between = torch.empty(count, k // 2, device=lpips.device)
    wanted = truth.new_empty(0)
    for rows, columns in chunks(count, k, lpips.images_at_once(*truth.shape[-2:])):
        if columns.start == 0:
            wanted = lpips.features(truth[rows])[:, None]
        some = samples[rows, columns]
        found = lpips.features(some.flatten(0, 1)).unflatten(0, some.shape[:2])
        to_truth[rows, columns] = lpips.distance(found, wanted)
        # A chunk begins at an even sample, so that no pair is cut.
        pairs = slice(columns.start // 2, columns.stop // 2)
        last = 2 * (found.shape[1] // 2)
        between[rows, pairs] = lpips.distance(found[:, 0:last:2], found[:, 1:last:2])
    return SampleDistances(to_truth, between)
