"""Estimates of the information, in nats, that a scan gives about a variable v with K outcomes.

Let x_1, ..., x_N be possible images, and g_n = g(v | f(x_n)) the classifier's prediction after the scan if x_n were the
true image. The functions take log_p [N, ..., K], the logarithms of all g_n. All sums are computed in float64.
"""

import math

from torch import Tensor

_ZERO_GAIN = 1e-14
"""Information gains up to this value are set to 0, because rounding errors alone can cause them."""


def entropy(log_p: Tensor) -> Tensor:
    """Return the entropy -sum p log p over the K outcomes: log_p [..., K] -> [...]."""
    log_p = _normalised(log_p)
    return _expected(log_p, -log_p)


def information_gains(log_p: Tensor) -> Tensor:
    """Return the information gain [N, ...] of the scan if possible image n were the true image (the paper's eq:ig).

    It is KL(g_n || mean of all g_n), where g_n is the prediction for image n.
    """
    log_p = _normalised(log_p)
    gains = _expected(log_p, log_p - _log_mean(log_p))
    return gains.masked_fill(gains <= _ZERO_GAIN, 0.0)  # NaN is kept, so that callers notice it


def expected_information_gain(log_p: Tensor) -> Tensor:
    """Return the EIG [...]: H[mean of g_n] - mean of H[g_n], where g_n is the prediction for image n.

    This is the paper's eq:new-eig. It is computed as the mean information gain, so that it is never negative.
    """
    return information_gains(log_p).mean(dim=0)


def expected_posterior_entropy(log_p: Tensor) -> Tensor:
    """Return the EPE [...]: the mean of H[g_n], where g_n is the prediction for image n. Lower is better.

    The paper's older estimate of the gain (eq:old-eig) is a constant minus the EPE.
    """
    return entropy(log_p).mean(dim=0)


def _normalised(log_p: Tensor) -> Tensor:
    """Convert log-probabilities to float64 and normalise them, since float32 rounding errors can make a KL negative."""
    log_p = log_p.double()
    return log_p - log_p.logsumexp(dim=-1, keepdim=True)


def _log_mean(log_p: Tensor) -> Tensor:
    return log_p.logsumexp(dim=0) - math.log(len(log_p))


def _expected(log_p: Tensor, values: Tensor) -> Tensor:
    """Return the expectation of `values` over outcomes. Those of probability 0 add nothing, even if infinite."""
    p = log_p.exp()
    return (p * values).masked_fill(p == 0, 0.0).sum(dim=-1)
