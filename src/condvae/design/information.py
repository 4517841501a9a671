"""Information about v, in nats, that a scan is expected to give.

Every function takes log_p [N, ..., K]: log g(v = k | f(x_n)), the classifier's prediction after the scan if the image
were x_n, for N imagined images x_n. All sums are computed in float64.
"""

import math

from torch import Tensor

_ZERO_GAIN = 1e-14
"""Gains up to this value count as 0: rounding alone makes equal float32 log-probabilities differ by this much."""


def entropy(log_p: Tensor) -> Tensor:
    """Entropy -sum p log p over the last axis: [..., K] -> [...]."""
    log_p = _normalised(log_p)
    return _expected(log_p, -log_p)


def information_gains(log_p: Tensor) -> Tensor:
    """Information gain [N, ...] if the image were x_n: KL(g_n || mean over all g_n) (eq:ig)."""
    log_p = _normalised(log_p)
    gains = _expected(log_p, log_p - _log_mean(log_p))
    return gains.masked_fill(gains <= _ZERO_GAIN, 0.0)  # NaN is kept, so that callers notice it


def expected_information_gain(log_p: Tensor) -> Tensor:
    """EIG [...]: H[mean g_n] - mean H[g_n] (eq:new-eig), computed as the mean gain so that it is never negative."""
    return information_gains(log_p).mean(dim=0)


def expected_posterior_entropy(log_p: Tensor) -> Tensor:
    """EPE [...]: mean H[g_n]. Lower is better; eq:old-eig subtracts it from a constant."""
    return entropy(log_p).mean(dim=0)


def _normalised(log_p: Tensor) -> Tensor:
    """Convert to float64 and normalise again: float32 rounding errors can make a KL negative."""
    log_p = log_p.double()
    return log_p - log_p.logsumexp(dim=-1, keepdim=True)


def _log_mean(log_p: Tensor) -> Tensor:
    return log_p.logsumexp(dim=0) - math.log(len(log_p))


def _expected(log_p: Tensor, values: Tensor) -> Tensor:
    """Expected value over the outcomes. Outcomes of probability 0 add nothing, even if their value is infinite."""
    p = log_p.exp()
    return (p * values).masked_fill(p == 0, 0.0).sum(dim=-1)
