"""CFID: the conditional Frechet distance between originals and completions, given observations.

Soloveitchik et al. 2021, "Conditional Frechet Inception Distance". Row i of three sets of features belongs to original
x_i, its completion x'_i and its observation y_i. If (x, y) and (x', y) are jointly normal, the Frechet distance between
p(x | y) and p(x' | y), averaged over y, is

    C = |m - m'|^2 + tr (S_xy - S_x'y) S_yy^+ (S_yx - S_yx') + tr S_x|y + tr S_x'|y - 2 tr (S_x|y S_x'|y)^(1/2)

where S_x|y = S_xx - S_xy S_yy^+ S_yx. FID compares only the distributions of x and x': a method that permutes perfect
completions among images has an FID of 0, but a high CFID. If y is constant, CFID equals FID.

With observations whitened, w = R (y - m_y) for S_yy = R^+ R^+', the second term is |S_xw - S_x'w|^2, and S_x|y is the
covariance of the residuals x - m - S_xw w. The last three terms are thus the Frechet distance between the residuals of
originals and completions (`condvae.metrics.frechet`). Computing C takes three `eigh`, of which two do not depend on the
completions and are cached in `ConditionalMoments`. S_yy^+ is the pseudo-inverse: eigenvalues of S_yy that are at most
D eps times the largest one (eps is the precision of float64) count as zero, by the rule of NumPy's matrix_rank.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from condvae.metrics.estimate import Estimate
from condvae.metrics.frechet import ROWS_AT_ONCE, Moments, check_features, transport


@dataclass(frozen=True, kw_only=True, eq=False)
class Whitening:
    """The linear map that makes the covariance of a set of observation features the unit matrix."""

    mean: Tensor
    """The mean of the features, [E]."""
    matrix: Tensor
    """[rank, E]: a square root of the pseudo-inverse of the covariance."""

    @staticmethod
    def of(observed: Tensor) -> "Whitening":
        """Return the map for features [N, E]."""
        moments = Moments.of(observed)
        return Whitening(mean=moments.mean, matrix=moments.root.inverse)

    def __call__(self, observed: Tensor) -> Tensor:
        """Whiten features [N, E]; return [N, rank]."""
        return (observed.to(self.mean) - self.mean) @ self.matrix.T


@dataclass(frozen=True, kw_only=True, eq=False)
class ConditionalMoments:
    """Mean, linear regression on observations, and residual covariance of a set of features, in float64.

    The root of the residual covariance is cached: to compare one real set with many fake ones, reuse the same object.
    """

    whitening: Whitening
    mean: Tensor
    """The mean of the features, [D]."""
    slope: Tensor
    """[D, rank]: the covariance of features and whitened observations, which is the matrix of the regression."""
    residual: Moments
    """The moments of the residuals of the regression. Their covariance is the conditional covariance."""

    @staticmethod
    def of(features: Tensor, observed: Tensor, whitening: Whitening | None = None) -> "ConditionalMoments":
        """Return the moments of features [N, D] given observations with features [N, E], on the device of `features`.

        whitening: `Whitening.of(observed)`, if it is known already.
        """
        _check_rows(features, observed)
        whitening = whitening or Whitening.of(observed)
        mean = features.mean(dim=0, dtype=torch.float64)
        slope = mean.new_zeros(len(mean), len(whitening.matrix))
        for rows, given in _together(features, observed):
            slope += (rows.to(mean) - mean).T @ whitening(given) / max(1, len(features) - 1)
        residual = Moments.empty(len(mean), device=mean.device)
        for rows, given in _together(features, observed):
            residual = residual.add(rows.to(mean) - mean - whitening(given) @ slope.T)
        return ConditionalMoments(whitening=whitening, mean=mean, slope=slope, residual=residual)

    def split(self, features: Tensor, whitened: Tensor) -> tuple[Tensor, Tensor]:
        """Split the deviations of features [N, D] from their mean into predictions and residuals, both [N, D].

        whitened: the whitened observations, [N, rank].
        """
        predicted = whitened @ self.slope.T
        return predicted, features.to(self.mean) - self.mean - predicted


def cfid(real: Tensor, fake: Tensor, observed: Tensor, *, real_given: ConditionalMoments | None = None) -> Estimate:
    """Compute the CFID of features [N, D] of originals and completions, given features [N, E] of observations.

    Row i of all three belongs to image i. The standard error is by the delta method, as that of FID, and needs no
    further decomposition. It does not include the bias, which is large: with r = min(E, N - 1), samples of the true
    posterior get about 2 r / N tr S_x|y instead of 0. Use several times as many images as features, and compare only
    CFIDs of the same number of images.
    real_given: `ConditionalMoments.of(real, observed)`, if it is known already. This saves time if several methods
    complete the same images.
    """
    _check_rows(real, observed)
    _check_rows(fake, observed)
    check_features(fake, real.shape[1])
    one = ConditionalMoments.of(real, observed) if real_given is None else real_given
    sizes = one.residual.count, len(one.mean), len(one.whitening.mean)
    if sizes != (*real.shape, observed.shape[1]):
        raise ValueError(
            f"real_given is of {sizes[0]} images with {sizes[1]} features and {sizes[2]} of observations, but real has "
            f"shape {tuple(real.shape)} and observed {tuple(observed.shape)}: give the moments of the same sets"
        )
    other = ConditionalMoments.of(fake, observed, one.whitening)
    spread = transport(one.residual, other.residual)
    apart, slopes_apart = one.mean - other.mean, one.slope - other.slope
    influence = []
    for rows, others, given in _together(real, fake, observed):
        whitened = one.whitening(given)
        predicted, residual = one.split(rows, whitened)
        other_predicted, other_residual = other.split(others, whitened)
        # The derivative of C with respect to the weight of an image, up to a constant. For the second term it is
        # 2 e'b - |b|^2, where e is the difference of the deviations of x and x', and b its prediction from y. For the
        # others it is that of FID, of the residuals: to first order, errors of the regression do not change S_x|y.
        difference = predicted - other_predicted
        deviation = difference + residual - other_residual
        influence.append(
            2 * deviation @ apart
            + (difference * (2 * deviation - difference)).sum(dim=1)
            + spread.of_real(residual)
            + spread.of_fake(other_residual)
        )
    variance = torch.cat(influence).var() / len(real)
    value = float(apart.square().sum() + slopes_apart.square().sum()) + spread.distance
    return Estimate(max(0.0, value), math.sqrt(float(variance)))


def _together(*sets: Tensor) -> Iterator[tuple[Tensor, ...]]:
    """Yield the rows of all sets in chunks."""
    return zip(*(one.split(ROWS_AT_ONCE) for one in sets), strict=True)


def _check_rows(features: Tensor, observed: Tensor) -> None:
    check_features(features)
    check_features(observed)
    if len(features) != len(observed):
        raise ValueError(
            f"there are features of {len(features)} images but of {len(observed)} observations: give one observation "
            "for each image"
        )
