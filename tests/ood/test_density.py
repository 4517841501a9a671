"""The fitted Gaussian, compared with SciPy and with an explicit shrinkage formula, also for degenerate samples."""

import math

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import multivariate_normal

from condvae.ood.density import GaussianDensity


def samples(n: int, features: int, *, seed: int = 0) -> NDArray[np.float64]:
    """Return correlated samples whose units differ by orders of magnitude, like those of latent groups."""
    dice = np.random.default_rng(seed)
    mixing = np.eye(features) + 0.4 * dice.normal(size=(features, features))
    scales = 10.0 ** dice.uniform(-3, 4, features)
    return dice.normal(size=(n, features)) @ mixing * scales + 100 * scales


@pytest.mark.parametrize(("n", "features"), [(400, 1), (400, 6), (50, 40), (5000, 66)])
def test_the_density_is_scipys(n: int, features: int) -> None:
    values = samples(n, features)
    density = GaussianDensity.fit(values)
    # SciPy treats small eigenvalues as 0, so its components are scaled to standard deviations of 1.
    scale = values.std(axis=0, ddof=1)
    expected = multivariate_normal(density.mean / scale, density.covariance / scale / scale[:, None])
    queries = np.concatenate((values[:20], values[:20] * 1.01))
    found = density.log_density(queries)
    np.testing.assert_allclose(found, expected.logpdf(queries / scale) - np.log(scale).sum(), rtol=1e-9, atol=1e-7)


def test_unshrunk_moments_are_those_of_the_samples() -> None:
    values = samples(300, 5)
    density = GaussianDensity.fit(values, shrinkage=1e-12)
    np.testing.assert_allclose(density.mean, values.mean(axis=0))
    np.testing.assert_allclose(density.covariance, np.cov(values.T), rtol=1e-9)


def test_correlations_shrink_and_variances_stay() -> None:
    values = samples(300, 5)
    expected = 0.75 * np.cov(values.T)
    np.fill_diagonal(expected, values.var(axis=0, ddof=1))
    np.testing.assert_allclose(GaussianDensity.fit(values, shrinkage=0.25).covariance, expected)


def test_the_shrinkage_is_that_of_schaefer_and_strimmer() -> None:
    values = samples(60, 8)
    n, features = values.shape
    standard = (values - values.mean(axis=0)) / values.std(axis=0, ddof=1)
    variances = squares = 0.0
    for i in range(features):
        for j in range(features):
            if i != j:
                products = standard[:, i] * standard[:, j]
                variances += n / (n - 1) ** 3 * np.square(products - products.mean()).sum()
                squares += (n / (n - 1) * products.mean()) ** 2
    assert GaussianDensity.fit(values).shrinkage == pytest.approx(variances / squares)


def test_few_samples_shrink_much_and_many_shrink_little() -> None:
    few, many = (GaussianDensity.fit(samples(n, 10)).shrinkage for n in (15, 20_000))
    assert 0.05 < few < 1 and many == pytest.approx(1e-3, rel=2)
    independent = np.random.default_rng(0).normal(size=(30, 40))
    assert GaussianDensity.fit(independent).shrinkage > 0.7


def test_strong_correlations_are_shrunk_a_little() -> None:
    # Two nearly equal features: the estimated best shrinkage is almost 0.
    dice = np.random.default_rng(0)
    one = dice.normal(size=20_000)
    density = GaussianDensity.fit(np.stack((one, one + 1e-4 * dice.normal(size=len(one))), axis=1))
    assert density.shrinkage == 1e-3
    assert density.covariance[0, 1] / np.prod(density.std) == pytest.approx(0.999, abs=1e-6)


@pytest.mark.parametrize("n", [2, 5])
def test_fewer_samples_than_features_have_a_density(n: int) -> None:
    values = samples(n, 30)
    density = GaussianDensity.fit(values)
    assert np.isfinite(density.log_density(values)).all()
    assert density.log_density(values * 3).max() < density.log_density(values).min()


def test_copies_of_a_component_have_a_density() -> None:
    values = samples(200, 3)
    density = GaussianDensity.fit(np.concatenate((values, values), axis=1), shrinkage=None)
    assert np.isfinite(density.log_density(np.concatenate((values, values), axis=1))).all()


def test_a_change_in_a_constant_component_is_strange() -> None:
    values = samples(100, 4)
    values[:, 1], values[:, 2] = 7.0, 0.0
    density = GaussianDensity.fit(values)
    np.testing.assert_allclose(density.std[1:3], (7e-6, 1e-6))
    moved = values[:1].copy()
    moved[0, 1] += 0.1
    ordinary, strange = density.log_density(np.concatenate((values[:1], moved)))
    assert strange < ordinary - 1e6


def test_units_do_not_affect_the_fit() -> None:
    values, units = samples(80, 6), 10.0 ** np.arange(-3, 3)
    plain, scaled = GaussianDensity.fit(values), GaussianDensity.fit(values * units)
    assert plain.shrinkage == pytest.approx(scaled.shrinkage)
    jacobian = np.log(units).sum()
    np.testing.assert_allclose(plain.log_density(values), scaled.log_density(values * units) + jacobian, rtol=1e-9)


def test_rows_are_computed_independently() -> None:
    density, queries = GaussianDensity.fit(samples(300, 21)), samples(64, 21, seed=1)
    together = density.log_density(queries)
    alone = np.concatenate([density.log_density(queries[i : i + 1]) for i in range(len(queries))])
    np.testing.assert_array_equal(together, alone)
    np.testing.assert_array_equal(together, density.log_density(np.asfortranarray(queries)))


def test_standardised_components() -> None:
    values = samples(300, 5)
    standardised = GaussianDensity.fit(values).standardised(values)
    np.testing.assert_allclose(standardised.mean(axis=0), 0, atol=1e-9)
    np.testing.assert_allclose(standardised.std(axis=0, ddof=1), 1)


def test_rows_with_nan_or_infinity_have_density_zero() -> None:
    density = GaussianDensity.fit(samples(50, 3))
    queries = samples(4, 3)
    queries[1, 0], queries[2, 2] = math.nan, math.inf
    found = density.log_density(queries)
    assert np.isfinite(found[[0, 3]]).all() and (found[1:3] == -np.inf).all()


@pytest.mark.parametrize(
    ("values", "said"),
    [
        (np.zeros((1, 3)), "number of samples is 1"),
        (np.full((5, 3), np.nan), "NaN or infinite"),
        (np.zeros(5), r"\[5\], expected \[N, F\]"),
        (np.zeros((5, 0)), r"\[5, 0\]"),
    ],
)
def test_invalid_samples_are_refused(values: NDArray[np.float64], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        GaussianDensity.fit(values)


def test_invalid_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match="shrinkage is 2"):
        GaussianDensity.fit(samples(10, 3), shrinkage=2)
    with pytest.raises(ValueError, match=r"\[4, 2\]"):
        GaussianDensity.fit(samples(10, 3)).log_density(np.zeros((4, 2)))
    broken = GaussianDensity(mean=np.zeros(2), covariance=np.array([[1.0, 2.0], [2.0, 1.0]]), shrinkage=0.1)
    with pytest.raises(ValueError, match="not positive definite"):
        broken.log_density(np.zeros((1, 2)))
