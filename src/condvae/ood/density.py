"""A multivariate Gaussian of features, fitted to samples so that it exists however many there are."""

import functools
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

DensityValues = NDArray[np.float64]

_LEAST_SHRINKAGE = 1e-3
"""Keeps the condition number of the correlations under 1,000 F, whatever the samples are."""
_LEAST_STD = 1e-6
"""Of a component's mean size, where it varies less: rounding to float32 is all that can be seen of it."""


@dataclass(frozen=True, kw_only=True, eq=False)
class GaussianDensity:
    """Correlations are shrunk towards none, variances are the samples' own: in any units the fit is the same.

    covariance = D^1/2 ((1 - shrinkage) R + shrinkage I) D^1/2, R being the correlations and D the variances.
    """

    mean: DensityValues
    """[F]"""
    covariance: DensityValues
    """[F, F], shrunk."""
    shrinkage: float

    @classmethod
    def fit(cls, values: ArrayLike, *, shrinkage: float | None = None) -> "GaussianDensity":
        """Of samples [N, F]. shrinkage None: the one with the least expected squared error of the correlations
        (Schaefer & Strimmer 2005), 0.001 at least.

        A component that hardly varies gets a standard deviation of a millionth of its mean's size (of one, if that
        is zero).
        """
        samples = _checked(values)
        if len(samples) < 2:
            raise ValueError(f"a density was to be fitted to {len(samples)} samples, expected two at least")
        if not np.isfinite(samples).all():
            raise ValueError("the samples hold NaN or infinite values, to which no density can be fitted")
        if shrinkage is not None and not 0 < shrinkage <= 1:
            raise ValueError(f"the shrinkage is {shrinkage!r}, expected a number above 0, 1 at most")
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
        """[F]"""
        return np.sqrt(np.diag(self.covariance))

    def standardised(self, values: ArrayLike) -> DensityValues:
        """[M, F]: (v - mean) / std of each component."""
        return (_checked(values, features=len(self.mean)) - self.mean) / self.std

    def log_density(self, values: ArrayLike) -> DensityValues:
        """[M], in nats, each row by itself to the last bit; -infinity for a row with NaN or infinite values."""
        standardised = self.standardised(values)
        sound = np.all(np.isfinite(standardised), axis=1)
        inverse, log_determinant = self._whitening
        # einsum adds up each row by itself; a matrix product may round it by its company.
        white = np.einsum("fg,mg->mf", inverse, np.where(sound[:, None], standardised, 0.0))
        constant = len(self.mean) * math.log(2 * math.pi) + log_determinant
        return np.where(sound, -0.5 * (np.square(white).sum(axis=1) + constant), -np.inf)

    @functools.cached_property
    def _whitening(self) -> tuple[DensityValues, float]:
        """The inverse of the correlations' Cholesky factor, and the covariance's log-determinant."""
        std = self.std
        try:
            factor = np.linalg.cholesky(self.covariance / std / std[:, None])
        except np.linalg.LinAlgError:
            raise ValueError("the covariance is not positive definite: fit it anew") from None
        log_determinant = 2 * float(np.log(np.diag(factor)).sum() + np.log(std).sum())
        return np.linalg.inv(factor), log_determinant


def _best_shrinkage(standardised: DensityValues, correlations: DensityValues) -> float:
    """Summed variance of the correlations off the diagonal, as estimated from the samples, over their squares."""
    n = len(standardised)
    products = standardised.T @ standardised / n  # means over samples of what correlations are means of
    squares = np.square(standardised).T @ np.square(standardised)
    variances = n / (n - 1) ** 3 * (squares - n * np.square(products))
    off = ~np.eye(len(correlations), dtype=bool)
    size = np.square(correlations[off]).sum()
    best = variances[off].sum() / size if size > 0 else 1.0
    return float(np.clip(best, _LEAST_SHRINKAGE, 1.0))


def _checked(values: ArrayLike, *, features: int | None = None) -> DensityValues:
    array = np.ascontiguousarray(values, dtype=np.float64)  # another order would round otherwise
    if array.ndim != 2 or array.shape[1] == 0 or features not in (None, array.shape[1]):
        raise ValueError(f"features are {list(array.shape)}, expected [N, {'F' if features is None else features}]")
    return array
