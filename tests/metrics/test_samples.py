import itertools

import pytest
import torch
from helpers.lpips_networks import random_lpips
from helpers.models import generator, images
from torch import Tensor

from condvae.metrics import FWV_SIGMAS, faithfulness_weighted_variance, sample_distances


def samples_of(count: int, k: int) -> tuple[Tensor, Tensor]:
    return images(count, size=32), images(count * k, size=32, seed=1).unflatten(0, (count, k))


@pytest.mark.parametrize(("k", "r"), [(1, 1), (2, 5), (5, 0), (8, 2)])
@pytest.mark.parametrize("at_once", [2, 4, 1000])
def test_every_distance_equals_that_of_its_two_images(
    k: int, r: int, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    lpips = random_lpips()
    truth, samples = samples_of(3, k)
    references = images(3 * r, size=32, seed=2).unflatten(0, (3, r)) if r else None
    monkeypatch.setattr("condvae.metrics.lpips._PIXELS_AT_ONCE", dict.fromkeys(("cpu", "cuda"), at_once * 32 * 32))
    found = sample_distances(lpips, truth, samples, references)
    assert (found.to_truth.shape, found.between.shape, found.to_mean.shape) == ((3, k), (3, k // 2), (3, k))
    for b in range(3):
        mean = samples[b].mean(dim=0, keepdim=True)
        torch.testing.assert_close(found.to_truth[b], lpips(samples[b], truth[b : b + 1].expand(k, -1, -1, -1)))
        torch.testing.assert_close(
            found.to_mean[b], lpips(samples[b], mean.expand(k, -1, -1, -1)), rtol=1e-4, atol=1e-6
        )
        for pair in range(k // 2):
            one, other = samples[b, 2 * pair], samples[b, 2 * pair + 1]
            torch.testing.assert_close(found.between[b, pair], lpips(one[None], other[None])[0])
    if references is None:
        assert found.reference_truth is found.reference_samples is None
        return
    assert found.reference_truth is not None and found.reference_samples is not None
    for b, i in itertools.product(range(3), range(r)):
        point = references[b, i][None]
        torch.testing.assert_close(found.reference_truth[b, i], lpips(truth[b][None], point)[0])
        torch.testing.assert_close(found.reference_samples[b, :, i], lpips(samples[b], point.expand(k, -1, -1, -1)))


def test_uint8_and_float_images_give_the_same_distances() -> None:
    lpips = random_lpips()
    truth, samples = samples_of(2, 3)
    as_levels = [((part + 1) * 127.5).round().to(torch.uint8) for part in (truth, samples, samples)]
    for found, expected in zip(
        sample_distances(lpips, *as_levels, crps=True),
        sample_distances(lpips, truth, samples, samples, crps=True),
        strict=True,
    ):
        assert found is not None and expected is not None
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-6)


def test_features_of_every_image_are_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    lpips = random_lpips()
    truth, samples = samples_of(3, 6)
    seen = 0
    features = lpips.features

    def counted(some: Tensor) -> Tensor:
        nonlocal seen
        seen += len(some)
        return features(some)

    monkeypatch.setattr(lpips, "features", counted)
    sample_distances(lpips, truth, samples, samples[:, :2], crps=True)
    assert seen == 3 * (6 + 2 + 1 + 1)  # samples, references, the truth, the mean


def test_more_samples_are_never_farther_and_the_truth_has_distance_zero() -> None:
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
    same = sample_distances(lpips, truth, samples[:, :1].expand(-1, 4, -1, -1, -1))
    assert float(same.diversity().max()) < 1e-9
    assert float(same.to_mean.max()) < 1e-9
    assert sample_distances(lpips, truth, samples[:, :1]).diversity().isnan().all()
    found = sample_distances(lpips, truth, samples)
    torch.testing.assert_close(found.diversity(), found.between.mean(1))


def test_samples_of_other_images_are_rejected() -> None:
    truth, samples = samples_of(2, 3)
    for wrong in (samples[:1], samples[:, 0], samples[..., 1:], samples[:, :0]):
        with pytest.raises(ValueError, match=r"expected \[B, K, C, H, W\]"):
            sample_distances(random_lpips(), truth, wrong)
        with pytest.raises(ValueError, match=r"expected \[B, R, C, H, W\]"):
            sample_distances(random_lpips(), truth, samples, wrong)


def test_faithfulness_weighted_variance_is_the_sum_in_the_paper() -> None:
    to_truth, to_mean = torch.rand(2, 4, 10, generator=generator()).double()
    for sigma in FWV_SIGMAS:
        found = faithfulness_weighted_variance(to_truth, to_mean, sigma)
        for b in range(4):
            expected = sum(float(torch.exp(-to_truth[b, j] / (2 * sigma**2)) * to_mean[b, j]) for j in range(10))
            assert float(found[b]) == pytest.approx(expected, rel=1e-9)


def test_faithfulness_weighted_variance_of_a_known_posterior() -> None:
    """Draw exponential distances to the truth (mean m) and independent distances to the mean (mean d).

    E exp(-x / 2 s^2) = 1 / (1 + m / 2 s^2), so FWV is K d / (1 + m / 2 s^2).
    """
    k, m, sigma = 100, 0.2, 0.3
    uniform = torch.rand(2000, k, generator=generator(), dtype=torch.float64)
    to_truth, to_mean = -m * uniform.log(), 0.5 + torch.rand(2000, k, generator=generator(1), dtype=torch.float64)
    found = faithfulness_weighted_variance(to_truth, to_mean, sigma)
    expected = k * 1.0 / (1 + m / (2 * sigma**2))
    assert float(found.mean()) == pytest.approx(expected, abs=4 * float(found.std()) / 2000**0.5)
    # Limits: for small sigma only samples at the truth count, for large sigma all.
    at_truth = torch.tensor([[0.0, 1.0]])
    assert float(faithfulness_weighted_variance(at_truth, torch.tensor([[3.0, 5.0]]), 0.01)) == pytest.approx(3)
    assert float(faithfulness_weighted_variance(at_truth, torch.tensor([[3.0, 5.0]]), 1e4)) == pytest.approx(8)
    with pytest.raises(ValueError, match="expected a positive"):
        faithfulness_weighted_variance(at_truth, at_truth, 0.0)
    with pytest.raises(ValueError, match=r"expected \[B, K\]"):
        faithfulness_weighted_variance(at_truth, at_truth[:, :1], 1.0)
