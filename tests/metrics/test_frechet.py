import json
import math
from collections.abc import Iterable

import numpy as np
import pytest
import scipy.linalg
import torch
import torch.nn.functional as F
from helpers.fixtures import FIXTURES
from helpers.models import generator
from torch import Tensor, nn
from torchmetrics.image.fid import FrechetInceptionDistance

from condvae.metrics import Moments, frechet_distance
from condvae.metrics.frechet import fid

DATA = FIXTURES


def reference_features() -> tuple[Tensor, Tensor]:
    with np.load(DATA / "metric_features.npz") as features:
        return torch.from_numpy(features["real"]), torch.from_numpy(features["fake"])


def features(n: int, d: int, *, seed: int, spread: float = 1.0, shift: float = 0.0) -> Tensor:
    """Features like those of a network: correlated, positive, with variances over three orders of magnitude."""
    mix = torch.randn(d, d, generator=generator(7), dtype=torch.float64) / d**0.5
    scales = torch.logspace(-2, 1, d, dtype=torch.float64)
    normal = torch.randn(n, d, generator=generator(seed), dtype=torch.float64)
    return F.relu(normal @ mix * spread + shift) * scales


def exactly(mean: Tensor, covariance: Tensor, *, seed: int = 0) -> Moments:
    """Moments of a set that has exactly this mean and covariance."""
    d = len(mean)
    z = torch.randn(4 * d, d, generator=generator(seed), dtype=torch.float64)
    z = z - z.mean(dim=0)
    z = z @ torch.linalg.inv(torch.linalg.cholesky(z.T @ z / (len(z) - 1))).T  # exactly white
    values, vectors = torch.linalg.eigh(covariance)
    return Moments.of(z @ (vectors * values.clamp_min(0).sqrt()).T + mean)


def rotation(d: int) -> Tensor:
    rotated: Tensor = torch.linalg.qr(torch.randn(d, d, generator=generator(3), dtype=torch.float64))[0]
    return rotated


def by_scipy(real: Tensor, fake: Tensor) -> float:
    a, b = real.double().numpy(), fake.double().numpy()
    s, t = np.cov(a, rowvar=False), np.cov(b, rowvar=False)
    apart = a.mean(0) - b.mean(0)
    return float(apart @ apart + np.trace(s) + np.trace(t) - 2 * np.trace(scipy.linalg.sqrtm(s @ t).real))


def test_the_reference_value_is_reproduced() -> None:
    real, fake = reference_features()
    expected = json.loads((DATA / "metric_expected.json").read_text())["fid"]
    assert fid(real, fake, paired=True).mean == pytest.approx(expected, rel=1e-5)
    assert frechet_distance(Moments.of(real), Moments.of(fake)) == pytest.approx(expected, rel=1e-5)


def test_fid_equals_that_of_scipy_and_torchmetrics() -> None:
    real, fake = features(500, 16, seed=0), features(400, 16, seed=1, spread=1.3, shift=0.2)
    found = fid(real, fake, paired=False).mean
    assert found == pytest.approx(by_scipy(real, fake), rel=1e-7)

    class Already(nn.Module):
        num_features = 16

        def forward(self, rows: Tensor) -> Tensor:
            return rows

    theirs = FrechetInceptionDistance(feature=Already(), normalize=True)
    theirs.set_dtype(torch.float64)
    theirs.update(real, real=True)
    theirs.update(fake, real=False)
    assert found == pytest.approx(float(theirs.compute()), rel=1e-6)


def test_diagonal_covariances_have_a_closed_form() -> None:
    one, other = torch.tensor([4.0, 1.0, 9.0, 0.0]).double(), torch.tensor([1.0, 25.0, 9.0, 1.0]).double()
    apart = torch.tensor([1.0, 2.0, 0.0, 2.0]).double()
    real, fake = exactly(torch.zeros_like(apart), one.diag()), exactly(apart, other.diag(), seed=1)
    expected = float(apart.square().sum() + (one.sqrt() - other.sqrt()).square().sum())
    assert frechet_distance(real, fake) == pytest.approx(expected, rel=1e-9)
    assert frechet_distance(fake, real) == pytest.approx(expected, rel=1e-7)


def test_fid_is_invariant_to_a_rotation_of_both_sets() -> None:
    one, other = torch.tensor([4.0, 1.0, 0.25]).double().diag(), torch.tensor([1.0, 9.0, 0.01]).double().diag()
    zero, turn = torch.zeros(3).double(), rotation(3)
    turned = frechet_distance(exactly(zero, turn @ one @ turn.T), exactly(zero, turn @ other @ turn.T, seed=1))
    assert turned == pytest.approx((2 - 1) ** 2 + (1 - 3) ** 2 + (0.5 - 0.1) ** 2, rel=1e-9)
    assert frechet_distance(exactly(zero, one), exactly(zero, turn @ other @ turn.T)) > turned + 0.1


def test_singular_covariances_in_different_planes() -> None:
    """For data on two lines, tr (S1 S2)^(1/2) = |cos| s1 s2; it is 0 at a right angle."""
    zero = torch.zeros(5).double()
    basis = rotation(5)
    for angle in (0.0, 0.7, math.pi / 2):
        one = basis[:, 0]
        other = math.cos(angle) * basis[:, 0] + math.sin(angle) * basis[:, 1]
        real, fake = exactly(zero, 4 * torch.outer(one, one)), exactly(zero, 9 * torch.outer(other, other), seed=1)
        assert frechet_distance(real, fake) == pytest.approx(4 + 9 - 2 * abs(math.cos(angle)) * 6, abs=1e-6)
        assert math.isfinite(frechet_distance(exactly(zero, torch.zeros(5, 5).double()), fake))


@pytest.mark.parametrize(("n", "m", "d"), [(30, 40, 100), (30, 400, 100), (400, 30, 100), (2, 2, 10)])
def test_fewer_images_than_features(n: int, m: int, d: int) -> None:
    """tr (S1 S2)^(1/2) is the sum of singular values of the two centred sets' products with each other."""
    real, fake = features(n, d, seed=0), features(m, d, seed=1, shift=0.3)
    a, b = ((rows - rows.mean(0)) / (len(rows) - 1) ** 0.5 for rows in (real, fake))
    overlap = torch.linalg.svdvals(a @ b.T).sum()
    expected = (real.mean(0) - fake.mean(0)).square().sum() + a.square().sum() + b.square().sum() - 2 * overlap
    found = fid(real, fake, paired=False)
    assert found.mean == pytest.approx(float(expected), rel=1e-6)
    assert found.standard_error > 0
    assert frechet_distance(Moments.of(real), Moments.of(fake)) == pytest.approx(float(expected), rel=1e-6)


@pytest.mark.parametrize(("n", "d"), [(300, 20), (40, 100)])
def test_fid_of_a_set_with_itself_is_zero_with_zero_error(n: int, d: int) -> None:
    rows = features(n, d, seed=0).float()
    for other in (rows, rows.flip(0)):
        found = fid(rows, other, paired=False)
        assert 0 <= found.mean < 1e-6
        assert found.standard_error < 1e-4


def test_moments_do_not_depend_on_the_order_of_adding() -> None:
    rows = 1000 + features(1000, 12, seed=0)  # far from zero, where a sum of squares would lose digits
    whole = Moments.of(rows)
    np.testing.assert_allclose(whole.covariance.numpy(), np.cov(rows.numpy(), rowvar=False), rtol=1e-10, atol=1e-12)

    def streamed(parts: Iterable[Tensor]) -> Moments:
        found = Moments.empty(12)
        for part in parts:
            found = found.add(part)
        return found

    shards = [streamed(rows[i::3].split(50)) for i in range(3)]
    merged = Moments.empty(12).merge(shards[2]).merge(shards[0]).merge(shards[1]).merge(Moments.empty(12))
    for other in (
        streamed(rows.split(7)),
        streamed(rows[torch.randperm(1000, generator=generator())].split(64)),
        merged,
    ):
        assert other.count == 1000
        torch.testing.assert_close(other.mean, whole.mean, rtol=1e-13, atol=0)
        torch.testing.assert_close(other.scatter, whole.scatter, rtol=1e-9, atol=1e-9)


def test_real_moments_can_be_reused() -> None:
    real, fake = features(200, 10, seed=0), features(200, 10, seed=1, shift=0.2)
    moments = Moments.of(real)
    assert fid(real, fake, paired=True, real_moments=moments) == fid(real, fake, paired=True)
    assert moments.root is moments.root
    with pytest.raises(ValueError, match="moments of the same set"):
        fid(real[:-1], fake, paired=False, real_moments=moments)


@pytest.mark.parametrize("paired", [True, False])
def test_the_standard_error_matches_repetition(paired: bool) -> None:
    """Draws many sets from one distribution; for similar pairs the errors of both sides partly cancel."""
    n, d, times = 400, 6, 400
    found, errors = [], []
    for i in range(times):
        real = features(n, d, seed=10 + i)
        other = features(n, d, seed=10_000 + i)
        fake = 0.8 * real + 0.3 * other + 0.1 if paired else 1.2 * other + 0.1
        estimate = fid(real, fake, paired=paired)
        found.append(estimate.mean)
        errors.append(estimate.standard_error)
    spread = float(torch.tensor(found).std())
    # The standard deviation of 400 values is known to 3.5 %; the delta method neglects terms of order 1 / n.
    assert float(torch.tensor(errors).mean()) == pytest.approx(spread, rel=0.15)
    if paired:  # treating the pairs as independent would be far off
        assert fid(real, fake, paired=False).standard_error > 1.5 * spread


def test_the_standard_error_matches_the_bootstrap() -> None:
    real, fake = reference_features()
    pick = generator(4)
    resampled = []
    for _ in range(200):
        rows = torch.randint(len(real), (len(real),), generator=pick)
        resampled.append(frechet_distance(Moments.of(real[rows]), Moments.of(fake[rows])))
    assert fid(real, fake, paired=True).standard_error == pytest.approx(float(torch.tensor(resampled).std()), rel=0.25)


def test_invalid_features_are_rejected() -> None:
    good = features(10, 4, seed=0)
    for wrong, words in (
        (good[:, 0], "floats"),
        (good[:0], "at least one"),
        (good.long(), "floats"),
        (good[:, :3], "same number"),
        (torch.full_like(good, math.nan), "NaN"),
    ):
        with pytest.raises(ValueError, match=words):
            fid(good, wrong, paired=False)
    with pytest.raises(ValueError, match="one fake image for each"):
        fid(good, good[1:], paired=True)
    with pytest.raises(ValueError, match="at least two"):
        fid(good[:1], good[:1], paired=True)
    with pytest.raises(ValueError, match="expected the same number"):
        Moments.of(good).merge(Moments.empty(3))


@pytest.mark.parametrize("count", [2, 5, 10])
def test_the_root_of_few_images_is_that_of_the_whole_matrix(count: int) -> None:
    """With far fewer images than features, the root is found in the range of the covariance."""
    scales = torch.logspace(-3, 2, 40, dtype=torch.float64)
    few = Moments.of(
        torch.randn(count, 40, generator=torch.Generator().manual_seed(count), dtype=torch.float64) * scales
    )
    root = few.root
    assert root.factor.shape == (40, count - 1) and root.inverse.shape == (count - 1, 40)
    torch.testing.assert_close(root.factor @ root.factor.T, few.covariance, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(root.inverse @ root.factor, torch.eye(count - 1, dtype=torch.float64), rtol=0, atol=1e-9)
