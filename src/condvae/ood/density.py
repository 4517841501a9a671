"""A multivariate Gaussian density of features, regularised so that it can be fitted to few samples too."""

import functools
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

DensityValues = NDArray[np.float64]

_LEAST_SHRINKAGE = 1e-3
"""The smallest shrinkage that `fit` chooses. It keeps the condition number of the F x F correlations below 1,000 F."""
_LEAST_STD = 1e-6
"""The smallest standard deviation of a feature, as a fraction of its absolute mean. Any smaller variation could be
caused by float32 rounding."""


@dataclass(frozen=True, kw_only=True, eq=False)
class GaussianDensity:
    """A Gaussian whose correlations are shrunk towards 0, while variances are not, so that units do not matter.

    covariance = D^1/2 ((1 - shrinkage) R + shrinkage I) D^1/2, where R is the correlation matrix of the samples and the
    diagonal matrix D holds their variances.
    """

    mean: DensityValues
    """The mean of each feature, [F]."""
    covariance: DensityValues
    """The covariance matrix of the features after shrinkage, [F, F]."""
    shrinkage: float

    @classmethod
    def fit(cls, values: ArrayLike, *, shrinkage: float | None = None) -> "GaussianDensity":
        """Fit the density to N samples of F features, [N, F].

        If shrinkage is None, the value is used that minimises the expected squared error of the correlations (Schaefer
        & Strimmer 2005), but at least 0.001. The standard deviation of each feature is at least one millionth of its
        absolute mean, or 1e-6 if the mean is 0.
        """
        samples = _checked(values)
        if len(samples) < 2:
            raise ValueError(f"the number of samples is {len(samples)}, expected at least 2 to fit a density")
        if not np.isfinite(samples).all():
            raise ValueError("the samples contain NaN or infinite values: fit the density to finite values only")
        if shrinkage is not None and not 0 < shrinkage <= 1:
            raise ValueError(f"the shrinkage is {shrinkage!r}, expected a number above 0 and at most 1")
        mean = samples.mean(axis=0)
        least = _LEAST_STD * np.where(mean == 0, 1.0, np.abs(mean))
        std = np.maximum(samples.std(axis=0, ddof=1), least)
        standardised = (samples - mean) / std
        correlations = standardised.T @ standardised / (len(samples) - 1)
        if shrinkage is None:
            shrinkage = _best_shrinkage(standardised, correlations)
        shrunk = (1 - shrinkage) * correlations
        np.fill_diagonal(shrunk, 1.0)
        return cls(mean=mean, covariance=shrunk * std * std[:, None], shrinkage=float(shrinkage))

    @property
    def std(self) -> DensityValues:
        """Standard deviation of each feature, [F]."""
        return np.sqrt(np.diag(self.covariance))

    def standardised(self, values: ArrayLike) -> DensityValues:
        """Return (value - mean) / std for M rows of features, [M, F]."""
        return (_checked(values, features=len(self.mean)) - self.mean) / self.std

    def log_density(self, values: ArrayLike) -> DensityValues:
        """Return the log-density of M rows of features in nats, [M]; -infinity for a row with NaN or infinite values.

        The result for a row does not depend on the other rows, not even by rounding.
        """
        standardised = self.standardised(values)
        sound = np.all(np.isfinite(standardised), axis=1)
        inverse, log_determinant = self._whitening
        # einsum sums each row separately; in a matrix product, the rounding of a row may depend on the other rows.
        white = np.einsum("fg,mg->mf", inverse, np.where(sound[:, None], standardised, 0.0))
        constant = len(self.mean) * math.log(2 * math.pi) + log_determinant
        return np.where(sound, -0.5 * (np.square(white).sum(axis=1) + constant), -np.inf)

    @functools.cached_property
    def _whitening(self) -> tuple[DensityValues, float]:
        """The inverse Cholesky factor of the correlations, and the log-determinant of the covariance."""
        std = self.std
        try:
            factor = np.linalg.cholesky(self.covariance / std / std[:, None])
        except np.linalg.LinAlgError:
            raise ValueError("the covariance of the density is not positive definite: fit the density again") from None
        log_determinant = 2 * float(np.log(np.diag(factor)).sum() + np.log(std).sum())
        return np.linalg.inv(factor), log_determinant


def _best_shrinkage(standardised: DensityValues, correlations: DensityValues) -> float:
    """Return the optimal shrinkage (Schaefer & Strimmer 2005), which is at least 0.001 and at most 1.

    Over all off-diagonal correlations, sum the estimated variances of the correlations and the squares of the
    correlations. The optimum is the first sum divided by the second.
    """
    n = len(standardised)
    products = standardised.T @ standardised / n  # correlations with n in place of n - 1
    squares = np.square(standardised).T @ np.square(standardised)
    variances = n / (n - 1) ** 3 * (squares - n * np.square(products))
    off = ~np.eye(len(correlations), dtype=bool)
    size = np.square(correlations[off]).sum()
    best = variances[off].sum() / size if size > 0 else 1.0
    return float(np.clip(best, _LEAST_SHRINKAGE, 1.0))


def _checked(values: ArrayLike, *, features: int | None = None) -> DensityValues:
    array = np.ascontiguousarray(values, dtype=np.float64)  # another memory layout would round differently
    if array.ndim != 2 or array.shape[1] == 0 or features not in (None, array.shape[1]):
        expected = f"[N, {'F' if features is None else features}]"
        raise ValueError(f"the features have shape {list(array.shape)}, expected {expected}: one row per sample")
    return array
