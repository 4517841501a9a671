import pytest
import torch
from helpers.models import generator
from torch import Tensor, nn
from torchmetrics.image.kid import KernelInceptionDistance

from condvae.metrics.kernel_distance import kid


def features(n: int, *, seed: int, shift: float = 0.0) -> Tensor:
    return torch.randn(n, 8, generator=generator(seed), dtype=torch.float64) + shift


def by_hand(x: Tensor, y: Tensor) -> float:
    """Compute the unbiased estimate pair by pair."""

    def kernel(a: Tensor, b: Tensor) -> float:
        return float((a @ b / len(a) + 1) ** 3)

    n, m = len(x), len(y)
    within_x = sum(kernel(x[i], x[j]) for i in range(n) for j in range(n) if i != j) / (n * (n - 1))
    within_y = sum(kernel(y[i], y[j]) for i in range(m) for j in range(m) if i != j) / (m * (m - 1))
    return within_x + within_y - 2 * sum(kernel(a, b) for a in x for b in y) / (n * m)


def test_kid_is_the_mean_over_subsets() -> None:
    real, fake = features(12, seed=0), features(16, seed=1, shift=0.5)
    picked = generator(3)
    expected = []
    for _ in range(4):
        rows, others = (torch.randperm(len(rows), generator=picked)[:5] for rows in (real, fake))
        expected.append(by_hand(real[rows], fake[others]))
    found = kid(real, fake, subsets=4, size=5, seed=3)
    assert found.mean == pytest.approx(sum(expected) / 4, rel=1e-9)
    assert found.standard_error == pytest.approx(
        float(torch.tensor(expected, dtype=torch.float64).std(correction=0)), rel=1e-9
    )


@pytest.mark.filterwarnings("ignore:Metric `Kernel Inception Distance` will save")
def test_kid_equals_that_of_torchmetrics() -> None:
    real, fake = features(60, seed=0), features(80, seed=1, shift=0.3)
    theirs = KernelInceptionDistance(feature=nn.Identity(), subsets=10, subset_size=30, normalize=True)
    theirs.set_dtype(torch.float64)
    theirs.update(real, real=True)
    theirs.update(fake, real=False)
    with torch.random.fork_rng():
        torch.manual_seed(5)
        mean, spread = theirs.compute()
    found = kid(real, fake, subsets=10, size=30, seed=5)
    assert found.mean == pytest.approx(float(mean), rel=1e-9)
    assert found.standard_error == pytest.approx(float(spread), rel=1e-9)


def test_kid_is_unbiased_and_its_error_is_not_too_small() -> None:
    """KID of two sets from one distribution is 0 on average; its spread over subsets exceeds that over repetitions."""
    same = [kid(features(40, seed=i), features(40, seed=1000 + i), subsets=20) for i in range(200)]
    means = torch.tensor([one.mean for one in same])
    assert abs(float(means.mean())) < 4 * float(means.std()) / 200**0.5
    moved = [kid(features(40, seed=i), features(40, seed=1000 + i, shift=0.5), subsets=20) for i in range(100)]
    assert min(one.mean for one in moved) > float(means.max()) / 2
    spread = float(torch.tensor([one.mean for one in moved]).std())
    assert float(torch.tensor([one.standard_error for one in moved]).mean()) > 0.8 * spread


def test_a_seed_repeats_and_few_images_are_rejected() -> None:
    real, fake = features(20, seed=0), features(20, seed=1)
    assert kid(real, fake, seed=1) == kid(real, fake, seed=1) != kid(real, fake, seed=2)
    with pytest.raises(ValueError, match="at least four"):
        kid(real[:3], fake)
    with pytest.raises(ValueError, match="expected the same number"):
        kid(real, fake[:, 1:])
