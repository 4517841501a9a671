"""KID: the maximum mean discrepancy of two sets of features under a cubic kernel (Binkowski et al. 2018)."""

import torch
from torch import Tensor

from condvae.metrics.estimate import Estimate
from condvae.metrics.frechet import check_features
from condvae.runtime.checks import check_seed, check_whole


def kid(real: Tensor, fake: Tensor, *, subsets: int = 100, size: int = 1000, seed: int = 0) -> Estimate:
    """Compute the KID of features [N, D] and [M, D] as a mean over random subsets; it is unbiased and may be negative.

    size: the number of rows in a subset; at most half of the smaller set is used. The `standard_error` of the result is
    the standard deviation over subsets, as is customary. Since a subset is at most half of a set, this is at least the
    standard error of the mean.
    """
    check_features(real)
    check_features(fake, real.shape[1])
    check_whole(subsets, "the number of subsets", least=1)
    check_whole(size, "the size of a subset", least=2)
    check_seed(seed)
    if min(len(real), len(fake)) < 4:
        raise ValueError(
            f"KID needs at least four images in each set, but there are {len(real)} real and {len(fake)} fake ones: "
            "give more"
        )
    size = min(size, len(real) // 2, len(fake) // 2)
    generator = torch.Generator().manual_seed(seed)
    found = []
    for _ in range(subsets):
        x, y = (
            rows[torch.randperm(len(rows), generator=generator)[:size].to(rows.device)].to(real.device, torch.float64)
            for rows in (real, fake)
        )
        within = _off_diagonal_mean(_kernel(x, x)) + _off_diagonal_mean(_kernel(y, y))
        found.append(within - 2 * _kernel(x, y).mean())
    values = torch.stack(found)
    return Estimate(float(values.mean()), float(values.std(correction=0)))


def _kernel(x: Tensor, y: Tensor) -> Tensor:
    return (x @ y.T / x.shape[1] + 1) ** 3


def _off_diagonal_mean(kernel: Tensor) -> Tensor:
    """Return the mean of the off-diagonal entries of a kernel matrix."""
    n = len(kernel)
    return (kernel.sum() - kernel.trace()) / (n * (n - 1))
