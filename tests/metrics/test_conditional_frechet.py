"""CFID against closed forms for normal distributions, and its standard error against repetition."""

import math

import numpy as np
import pytest
import scipy.linalg
import torch
from helpers.models import generator
from torch import Tensor

from condvae.metrics import ConditionalMoments, cfid
from condvae.metrics.frechet import fid


def white(n: int, d: int, *, seed: int = 0) -> Tensor:
    """Rows whose sample mean is exactly 0, and whose sample covariance is exactly the unit matrix."""
    z = torch.randn(n, d, generator=generator(seed), dtype=torch.float64)
    z = z - z.mean(dim=0)
    whitened: Tensor = z @ torch.linalg.inv(torch.linalg.cholesky(z.T @ z / (n - 1))).T
    return whitened


def matrix(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, generator=generator(seed), dtype=torch.float64)


def by_definition(real: Tensor, fake: Tensor, observed: Tensor) -> float:
    """The formula of Soloveitchik et al., with SciPy's square root and NumPy's pseudo-inverse."""
    d = real.shape[1]
    x, other, y = (rows.double().numpy() for rows in (real, fake, observed))
    parts = []
    for one in (x, other):
        joint = np.cov(np.hstack([one, y]), rowvar=False)
        inverse, cross = np.linalg.pinv(joint[d:, d:], hermitian=True), joint[:d, d:]
        parts.append((one.mean(0), cross, joint[:d, :d] - cross @ inverse @ cross.T))
    (m, cross, left), (m2, cross2, left2) = parts
    slopes = np.trace((cross - cross2) @ inverse @ (cross - cross2).T)
    root = np.trace(scipy.linalg.sqrtm(left @ left2).real)
    return float((m - m2) @ (m - m2) + slopes + np.trace(left) + np.trace(left2) - 2 * root)


@pytest.mark.parametrize(("n", "d", "e"), [(300, 8, 5), (300, 5, 8), (9000, 4, 3)])
def test_cfid_equals_its_definition(n: int, d: int, e: int) -> None:
    observed = matrix(n, e, seed=0).relu() @ matrix(e, e, seed=1) + 3
    real = observed @ matrix(e, d, seed=2) + matrix(n, d, seed=3).exp()
    fake = observed @ matrix(e, d, seed=4) + 1.5 * matrix(n, d, seed=5) + 1
    expected = by_definition(real, fake, observed)
    assert cfid(real, fake, observed).mean == pytest.approx(expected, rel=1e-8)
    given = ConditionalMoments.of(real, observed)
    assert cfid(real, fake, observed, real_given=given) == cfid(real, fake, observed)
    assert given.residual.root is given.residual.root


def test_normal_features_with_known_matrices_have_a_closed_form() -> None:
    """x = A y + L e and x' = A' y + L' e', where y, e and e' are exactly uncorrelated in the sample."""
    n, d, e = 200, 3, 2
    z = white(n, e + 2 * d)
    y, noise, other = z[:, :e], z[:, e : e + d], z[:, e + d :]
    a, a2 = matrix(e, d, seed=1), matrix(e, d, seed=2)
    scales, scales2 = torch.tensor([1.0, 2.0, 0.5]).double(), torch.tensor([2.0, 2.0, 0.0]).double()
    shift = torch.tensor([1.0, 0.0, -2.0]).double()
    expected = shift.square().sum() + (a - a2).square().sum() + (scales - scales2).square().sum()
    observed = 2 * y @ matrix(e, e, seed=3) - 7
    found = cfid(y @ a + noise * scales, y @ a2 + other * scales2 + shift, observed)
    assert found.mean == pytest.approx(float(expected), rel=1e-9)


def test_cfid_is_zero_for_the_same_joint_distribution() -> None:
    n, d, e = 100, 4, 3
    z = white(n, e + 2 * d)
    y, noise, other = z[:, :e], z[:, e : e + d], z[:, e + d :]
    mean = y @ matrix(e, d, seed=1)
    assert cfid(mean + noise, mean + other @ torch.linalg.qr(matrix(d, d, seed=2))[0], y).mean < 1e-9
    found = cfid(mean + noise, mean + noise, y)
    assert found.mean < 1e-9 and found.standard_error < 1e-6


def test_completions_that_ignore_the_observation_have_fid_zero_but_not_cfid_zero() -> None:
    n, d = 100, 3
    z = white(n, 3 * d)
    y, noise, other = z[:, :d], z[:, d : 2 * d], z[:, 2 * d :]
    real = 0.8 * y + 0.6 * noise  # covariance 1, and 0.36 given y
    assert fid(real, other, paired=True).mean < 1e-9
    assert cfid(real, other, y).mean == pytest.approx(d * (0.8**2 + (1 - 0.6) ** 2), rel=1e-9)


@pytest.mark.parametrize("level", [0.0, 0.1, 1e3])
def test_cfid_equals_fid_if_the_observation_is_constant(level: float) -> None:
    real, fake = matrix(300, 6, seed=0), matrix(300, 6, seed=1) @ matrix(6, 6, seed=2) + 0.5
    observed = torch.full((300, 4), level)
    found, expected = cfid(real, fake, observed), fid(real, fake, paired=True)
    assert found == pytest.approx(expected, rel=1e-9)


def test_cfid_is_invariant_to_affine_maps_of_the_observation() -> None:
    n, d, e = 300, 5, 4
    observed = matrix(n, e, seed=0)
    real = observed @ matrix(e, d, seed=1) + matrix(n, d, seed=2)
    fake = observed @ matrix(e, d, seed=3) + matrix(n, d, seed=4)
    expected = cfid(real, fake, observed)
    assert cfid(real, fake, 30 * observed @ matrix(e, e, seed=5) + 100) == pytest.approx(expected, rel=1e-6)
    repeated = torch.cat([observed, observed @ matrix(e, 3, seed=6), torch.ones(n, 1)], dim=1)  # singular covariance
    assert cfid(real, fake, repeated) == pytest.approx(expected, rel=1e-6)
    turn = torch.linalg.qr(matrix(d, d, seed=7))[0]
    assert cfid(real @ turn, fake @ turn, observed) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(("n", "d", "e"), [(8, 16, 16), (40, 100, 20), (40, 10, 100), (2, 4, 4)])
def test_fewer_images_than_features(n: int, d: int, e: int) -> None:
    """If N - 1 <= E, the observations determine everything, and CFID is the mean squared distance of the pairs."""
    real, fake, observed = matrix(n, d, seed=0), matrix(n, d, seed=1) + 0.3, matrix(n, e, seed=2).float()
    found = cfid(real, fake, observed)
    assert math.isfinite(found.standard_error)
    if n - 1 <= e:
        apart = real - fake
        expected = apart.mean(0).square().sum() + apart.var(0).sum()
        assert found.mean == pytest.approx(float(expected), rel=1e-9)


def test_the_bias_for_few_images_is_as_documented() -> None:
    """Samples of the true posterior get about 2 r / N tr S_x|y."""
    n, d, e = 500, 6, 50
    found = []
    for seed in range(20):
        y = matrix(n, e, seed=3 * seed)
        mean = y @ matrix(e, d, seed=1)
        real, fake = (mean + matrix(n, d, seed=3 * seed + i) for i in (1, 2))
        found.append(cfid(real, fake, y).mean)
    assert float(np.mean(found)) == pytest.approx(2 * e / n * d, rel=0.1)


def test_the_standard_error_matches_repetition() -> None:
    n, d, e = 500, 4, 3
    found, errors = [], []
    for i in range(300):
        y = matrix(n, e, seed=10 + i)
        real = y @ matrix(e, d, seed=1) + matrix(n, d, seed=10_000 + i)
        fake = 0.7 * y @ matrix(e, d, seed=2) + 0.6 * real + 0.5 * matrix(n, d, seed=20_000 + i) + 0.2
        estimate = cfid(real, fake, y)
        found.append(estimate.mean)
        errors.append(estimate.standard_error)
    # The standard deviation of 300 values is known to 4 %; the delta method neglects terms of order 1 / n.
    assert float(np.mean(errors)) == pytest.approx(float(np.std(found)), rel=0.15)


def test_invalid_features_are_rejected() -> None:
    good = matrix(10, 4, seed=0)
    with pytest.raises(ValueError, match="one observation for each image"):
        cfid(good, good, good[1:])
    with pytest.raises(ValueError, match="one observation for each image"):
        cfid(good, good[1:], good)
    with pytest.raises(ValueError, match="expected the same number"):
        cfid(good, good[:, :3], good)
    with pytest.raises(ValueError, match="NaN"):
        cfid(good, good, good * math.nan)
    with pytest.raises(ValueError, match="at least two"):
        cfid(good[:1], good[:1], good[:1])
    with pytest.raises(ValueError, match="moments of the same sets"):
        cfid(good, good, good[:, :3], real_given=ConditionalMoments.of(good, good))
