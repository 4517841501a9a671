"""P-IDS and U-IDS: how well a linear classifier of features tells completions from images (Zhao et al. 2021)."""

from typing import NamedTuple

import torch
from torch import Tensor

from condvae.metrics.estimate import Estimate
from condvae.metrics.frechet import check_features

_MOST_STEPS = 200
_TOLERANCE = 1e-10
"""Of the gradient, against the sum of the norms that it is made of: digits enough for every sign that counts."""
_SHORTEST = 2.0**-30


class InceptionDiscrimination(NamedTuple):
    """Higher is better: the classifier is deceived more often. Errors are those of the images, the classifier given."""

    p_ids: Estimate
    """The share of pairs whose completion looks more real than its image: f(fake_i) > f(real_i)."""
    u_ids: Estimate
    """The share of all that are taken for the other kind: 1 - accuracy."""


def ids(real: Tensor, fake: Tensor) -> InceptionDiscrimination:
    """For features [N, D] of images and of their completions: row i of both is a pair.

    A shuffled order cannot be seen here: it gives a wrong P-IDS. A pair of equal features counts 0, since neither looks
    more real. If both hold the same rows, in whatever order, f is constant: U-IDS is a half, and a pair of different
    features counts a half, as it would with the least noise on f.
    """
    check_features(real)
    check_features(fake, real.shape[1])
    if len(real) != len(fake):
        raise ValueError(f"{len(real)} images and {len(fake)} completions were given, expected a completion for each")
    real, fake = real.double(), fake.to(real.device, torch.float64)
    weights = _classifier(real, fake)
    direction, bias = weights[:-1], weights[-1]
    apart = fake - real  # so that equal features are no matter of rounding
    gain = apart @ direction
    deceived = (gain > 0).double() + ((gain == 0) & (apart != 0).any(dim=1)).double() / 2
    mistaken = (real @ direction + bias <= 0).double() + (fake @ direction + bias > 0).double()
    return InceptionDiscrimination(Estimate.of(deceived), Estimate.of(mistaken / 2))


def _classifier(real: Tensor, fake: Tensor) -> Tensor:
    """[D + 1], the bias last: the minimum of |w|^2 / 2 + sum_i max(0, 1 - y_i f(x_i))^2, that of scikit-learn's
    LinearSVC(dual=False), by Newton's method.

    The Hessian 1 + 2 X'X over the rows inside the margin changes by few rows a step, and only those are added.
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
        weights, margins = _searched(weights, margins, move, signed @ move, float(gradient @ move))
    raise ValueError(
        f"the classifier of P-IDS was not found in {_MOST_STEPS} steps: check that the features are those of images"
    )


def _add_rows(hessian: Tensor, rows: Tensor, factor: float) -> None:
    if len(rows):
        hessian.addmm_(rows.T, rows, alpha=factor)


def _searched(weights: Tensor, margins: Tensor, move: Tensor, change: Tensor, slope: float) -> tuple[Tensor, Tensor]:
    """Weights and margins after a step along the move that lowers the loss enough (Armijo)."""
    before = _loss(weights, margins)
    length = 1.0
    while length > _SHORTEST:
        there = weights + length * move, margins + length * change
        if _loss(*there) <= before + 1e-4 * length * slope + 1e-13 * before:  # up to rounding
            break
        length /= 2
    return there


def _loss(weights: Tensor, margins: Tensor) -> float:
    return float(weights.square().sum() / 2 + (1 - margins).clamp_min(0).square().sum())
