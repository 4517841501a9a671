"""KID: the maximum mean discrepancy of two sets of features under a cubic kernel (Binkowski et al. 2018)."""

import torch
from torch import Tensor

from condvae.metrics.estimate import Estimate
from condvae.metrics.frechet import check_features
from condvae.runtime.checks import check_seed, check_whole


def kid(real: Tensor, fake: Tensor, *, subsets: int = 100, size: int = 1000, seed: int = 0) -> Estimate:
    """Mean over random subsets of features [N, D] and [M, D]: unbiased, so that it may be below zero.

    size: rows of a subset, but no more than half of a set. The error is the spread over subsets, as is customary: with
    that bound it is no smaller than the standard error of the mean.
    """
    check_features(real)
    check_features(fake, real.shape[1])
    check_whole(subsets, "the number of subsets", least=1)
    check_whole(size, "the size of a subset", least=2)
    check_seed(seed)
    if min(len(real), len(fake)) < 4:
        raise ValueError(
            f"{len(real)} real and {len(fake)} fake images were given, KID needs four at least of each: give more"
        )
    size = min(size, len(real) // 2, len(fake) // 2)
    generator = torch.Generator().manual_seed(seed)
    found = []
    for _ in range(subsets):
        x, y = (
            rows[torch.randperm(len(rows), generator=generator)[:size].to(rows.device)].to(real.device, torch.float64)
            for rows in (real, fake)
        )
        within = _between_others(_kernel(x, x)) + _between_others(_kernel(y, y))
        found.append(within - 2 * _kernel(x, y).mean())
    values = torch.stack(found)
    return Estimate(float(values.mean()), float(values.std(correction=0)))


def _kernel(x: Tensor, y: Tensor) -> Tensor:
    return (x @ y.T / x.shape[1] + 1) ** 3


def _between_others(kernel: Tensor) -> Tensor:
    """Its mean over pairs of different rows."""
    n = len(kernel)
    return (kernel.sum() - kernel.trace()) / (n * (n - 1))
