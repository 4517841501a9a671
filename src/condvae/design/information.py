"""What a scan would tell about v, in nats, from what g would say after it of each of N imagined images.

log_p: [N, ..., K] is log g(v = k | f(x_n)) throughout. Everything is computed and summed in float64.
"""

import math

from torch import Tensor

_NOTHING = 1e-14
"""Gains below this are 0: float32 log-probabilities that are equal but for rounding differ by as much."""


def entropy(log_p: Tensor) -> Tensor:
    """[..., K] -> [...]: -sum of p log p."""
    log_p = _normalised(log_p)
    return _expected(log_p, -log_p)


def information_gains(log_p: Tensor) -> Tensor:
    """[N, ...]: KL(g_n || mean of all g_n), what seeing x_n rather than any of them would tell (eq:ig)."""
    log_p = _normalised(log_p)
    gains = _expected(log_p, log_p - _log_mean(log_p))
    return gains.masked_fill(gains <= _NOTHING, 0.0)  # not NaN, which must be seen


def expected_information_gain(log_p: Tensor) -> Tensor:
    """[...]: H[mean g_n] - mean H[g_n] (eq:new-eig), as the mean of the gains, so that it is never negative."""
    return information_gains(log_p).mean(dim=0)


def expected_posterior_entropy(log_p: Tensor) -> Tensor:
    """[...]: mean H[g_n], what eq:old-eig subtracts from a constant: less is better."""
    return entropy(log_p).mean(dim=0)


def _normalised(log_p: Tensor) -> Tensor:
    """In float64, with probabilities that sum to one as exactly: float32 is off by enough to make KLs negative."""
    log_p = log_p.double()
    return log_p - log_p.logsumexp(dim=-1, keepdim=True)


def _log_mean(log_p: Tensor) -> Tensor:
    return log_p.logsumexp(dim=0) - math.log(len(log_p))


def _expected(log_p: Tensor, values: Tensor) -> Tensor:
    """The mean of values over the outcomes, where those of probability 0 do not count, whatever their value."""
    p = log_p.exp()
    return (p * values).masked_fill(p == 0, 0.0).sum(dim=-1)
