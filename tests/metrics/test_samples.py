import itertools
import math

import pytest
import torch
from lpips_networks import random_lpips
from models import images
from torch import Tensor

from condvae.metrics import Estimate, sample_distances


def samples_of(count: int, k: int) -> tuple[Tensor, Tensor]:
    return images(count, size=32), images(count * k, size=32, seed=1).unflatten(0, (count, k))


@pytest.mark.parametrize("k", [1, 2, 5, 8])
@pytest.mark.parametrize("at_once", [2, 4, 1000])
def test_every_distance_is_that_of_its_two_images(k: int, at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    lpips = random_lpips()
    truth, samples = samples_of(3, k)
    monkeypatch.setattr("condvae.metrics.lpips._PIXELS_AT_ONCE", dict.fromkeys(("cpu", "cuda"), at_once * 32 * 32))
    found = sample_distances(lpips, truth, samples)
    assert (found.to_truth.shape, found.between.shape) == ((3, k), (3, k // 2))
    for b in range(3):
        torch.testing.assert_close(found.to_truth[b], lpips(samples[b], truth[b : b + 1].expand(k, -1, -1, -1)))
        for pair in range(k // 2):
            one, other = samples[b, 2 * pair], samples[b, 2 * pair + 1]
            torch.testing.assert_close(found.between[b, pair], lpips(one[None], other[None])[0])


def test_the_closest_of_more_samples_is_no_farther_and_the_truth_itself_is_at_zero() -> None:
    truth, samples = samples_of(3, 6)
    found = sample_distances(random_lpips(), truth, samples)
    closest = [found.closest(k) for k in range(1, 7)]
    assert all((later <= earlier).all() for earlier, later in itertools.pairwise(closest))
    assert (closest[-1] < closest[0]).any()
    samples[1, 4] = truth[1]
    with_truth = sample_distances(random_lpips(), truth, samples).closest()
    assert float(with_truth[1]) < 1e-9
    torch.testing.assert_close(with_truth[[0, 2]], found.closest()[[0, 2]])


def test_diversity_is_zero_for_equal_samples_and_undefined_for_one() -> None:
    truth, samples = samples_of(2, 4)
    lpips = random_lpips()
    assert float(sample_distances(lpips, truth, samples[:, :1].expand(-1, 4, -1, -1, -1)).diversity().max()) < 1e-9
    assert sample_distances(lpips, truth, samples[:, :1]).diversity().isnan().all()
    found = sample_distances(lpips, truth, samples)
    torch.testing.assert_close(found.diversity(), found.between.mean(1))


def test_samples_of_other_images_are_refused() -> None:
    truth, samples = samples_of(2, 3)
    for wrong in (samples[:1], samples[:, 0], samples[..., 1:], samples[:, :0]):
        with pytest.raises(ValueError, match=r"expected \[B, K, C, H, W\]"):
            sample_distances(random_lpips(), truth, wrong)


def test_an_estimate_is_the_mean_with_its_standard_error() -> None:
    estimate = Estimate.of(torch.tensor([1.0, 2.0, 3.0, 6.0]))
    assert estimate.mean == 3
    assert estimate.standard_error == pytest.approx(math.sqrt((4 + 1 + 0 + 9) / 3 / 4))
    assert math.isnan(Estimate.of(torch.tensor([1.0])).standard_error)
