"""A multivariate Gaussian density of features, regularised so that it can be fitted to any number of samples."""

import functools
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

DensityValues = NDArray[np.float64]

_LEAST_SHRINKAGE = 1e-3
"""The least shrinkage that `fit` chooses. It keeps the condition number of the F x F correlations below 1,000 F."""
_LEAST_STD = 1e-6
"""The least standard deviation of a component, relative to the size of its mean: less is only float32 rounding."""


@dataclass(frozen=True, kw_only=True, eq=False)
class GaussianDensity:
    """A Gaussian with correlations shrunk towards 0. Variances are not shrunk, so units do not affect the fit.

    covariance = D^1/2 ((1 - shrinkage) R + shrinkage I) D^1/2, where R is the correlation matrix of the samples and D
    holds their variances.
    """

    mean: DensityValues
    """The mean of each component, [F]."""
    covariance: DensityValues
    """[F, F], after shrinkage."""
    shrinkage: float

    @classmethod
    def fit(cls, values: ArrayLike, *, shrinkage: float | None = None) -> "GaussianDensity":
        """Fit the density to samples, [N, F].

        shrinkage None chooses the value with the least expected squared error of the correlations (Schaefer & Strimmer
        2005), but at least 0.001. A component that hardly varies gets a standard deviation of one millionth of its
        mean's absolute value, or 1e-6 if the mean is 0.
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
        """Standard deviation of each component, [F]."""
        return np.sqrt(np.diag(self.covariance))

    def standardised(self, values: ArrayLike) -> DensityValues:
        """Return (value - mean) / std of each component, [M, F]."""
        return (_checked(values, features=len(self.mean)) - self.mean) / self.std

    def log_density(self, values: ArrayLike) -> DensityValues:
        """Return the log-density of each row in nats, [M]; -infinity for a row with NaN or infinite values.

        No bit of a row's result depends on the other rows.
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
            raise ValueError("the covariance is not positive definite: fit the density again") from None
        log_determinant = 2 * float(np.log(np.diag(factor)).sum() + np.log(std).sum())
        return np.linalg.inv(factor), log_determinant


def _best_shrinkage(standardised: DensityValues, correlations: DensityValues) -> float:
    """Return the summed variance estimates of off-diagonal correlations, divided by the sum of their squares."""
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
        raise ValueError(f"features are {list(array.shape)}, expected [N, {'F' if features is None else features}]")
    return array
