"""P-IDS and U-IDS: how often a linear classifier takes completions for real images (Zhao et al. 2021)."""

from typing import NamedTuple

import torch
from torch import Tensor

from condvae.metrics.estimate import Estimate
from condvae.metrics.frechet import check_features

_MOST_STEPS = 200
_TOLERANCE = 1e-10
"""The fit stops when the norm of the gradient is at most this fraction of the sum of the norms of all feature vectors.

Further steps would not change how any image is classified.
"""
_SHORTEST = 2.0**-30


class InceptionDiscrimination(NamedTuple):
    """P-IDS and U-IDS. Higher is better, since the classifier is then mistaken more often.

    Standard errors are over images, for a fixed classifier.
    """

    p_ids: Estimate
    """The share of pairs whose completion the classifier f rates as more real than the original: f(fake) > f(real)."""
    u_ids: Estimate
    """The share of all images and completions that are classified wrongly: 1 - accuracy."""


def ids(real: Tensor, fake: Tensor) -> InceptionDiscrimination:
    """Compute P-IDS and U-IDS from features [N, D] of images and of their completions; row i of both is a pair.

    If rows are not in the same order, P-IDS is wrong, which cannot be detected. In P-IDS, a pair with equal features
    counts 0, since neither image looks more real. If both sets contain the same rows in different orders, the
    classifier f is constant: U-IDS is then one half, and in P-IDS a pair with different features counts one half, as it
    would on average if f had a little noise.
    """
    check_features(real)
    check_features(fake, real.shape[1])
    if len(real) != len(fake):
        raise ValueError(f"there are {len(real)} images but {len(fake)} completions: give one completion of each image")
    real, fake = real.double(), fake.to(real.device, torch.float64)
    weights = _classifier(real, fake)
    direction, bias = weights[:-1], weights[-1]
    apart = fake - real  # exactly zero for equal features, in spite of rounding
    gain = apart @ direction
    deceived = (gain > 0).double() + ((gain == 0) & (apart != 0).any(dim=1)).double() / 2
    mistaken = (real @ direction + bias <= 0).double() + (fake @ direction + bias > 0).double()
    return InceptionDiscrimination(Estimate.of(deceived), Estimate.of(mistaken / 2))


def _classifier(real: Tensor, fake: Tensor) -> Tensor:
    """Fit the classifier by Newton's method; return its weights [D + 1], with the bias last.

    The weights minimise |w|^2 / 2 + sum_i max(0, 1 - y_i f(x_i))^2 like scikit-learn's LinearSVC(dual=False), where
    y_i is 1 for real and -1 for fake rows. The Hessian is I + 2 X'X, where X contains the rows inside the margin. Few
    rows enter or leave the margin in one step, so the Hessian is updated with these rows only.
    """
    signed = torch.cat((real, -fake))  # y_i x_i
    signs = torch.cat((real.new_ones(len(real), 1), real.new_full((len(fake), 1), -1)))
    signed = torch.cat((signed, signs), dim=1)
    scale = float(signed.norm(dim=1).sum())
    weights = signed.new_zeros(signed.shape[1])
    hessian = torch.eye(len(weights), dtype=signed.dtype, device=signed.device)
    inside = torch.zeros(len(signed), dtype=torch.bool, device=signed.device)
    margins = signed @ weights  # y_i f(x_i)
    for _ in range(_MOST_STEPS):
        now = margins < 1
        _add_rows(hessian, signed[now & ~inside], 2.0)
        _add_rows(hessian, signed[inside & ~now], -2.0)
        inside = now
        gradient = weights - 2 * signed.T @ (1 - margins).clamp_min(0)
        if float(gradient.norm()) <= _TOLERANCE * scale:
            return weights
        move = -torch.cholesky_solve(gradient[:, None], torch.linalg.cholesky(hessian))[:, 0]
        weights, margins = _line_search(weights, margins, move, signed @ move, float(gradient @ move))
    raise ValueError(
        f"the classifier of P-IDS did not converge within {_MOST_STEPS} steps: check that the features are from images"
    )


def _add_rows(hessian: Tensor, rows: Tensor, factor: float) -> None:
    if len(rows):
        hessian.addmm_(rows.T, rows, alpha=factor)


def _line_search(weights: Tensor, margins: Tensor, move: Tensor, change: Tensor, slope: float) -> tuple[Tensor, Tensor]:
    """Return weights and margins after a step along `move` that is short enough to lower the loss (Armijo's rule)."""
    before = _loss(weights, margins)
    length = 1.0
    while length > _SHORTEST:
        there = weights + length * move, margins + length * change
        if _loss(*there) <= before + 1e-4 * length * slope + 1e-13 * before:  # the last term allows for rounding
            break
        length /= 2
    return there


def _loss(weights: Tensor, margins: Tensor) -> float:
    return float(weights.square().sum() / 2 + (1 - margins).clamp_min(0).square().sum())
