"""CRPS against closed forms, brute force, and the properties of a fair and proper score."""

import math
from statistics import NormalDist

import pytest
import torch
from helpers.lpips_networks import random_lpips
from helpers.models import generator, images
from torch import Tensor

from condvae.metrics import crps, feature_crps, pixel_crps, sample_distances
from condvae.metrics.metric_names import Trunk


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=generator(seed), dtype=torch.float64)


def levels(*shape: int, seed: int = 0) -> Tensor:
    return torch.randint(256, shape, generator=generator(seed), dtype=torch.uint8)


def brute_force(truth: Tensor, samples: Tensor) -> Tensor:
    """The definition, with all K^2 pairs."""
    k = samples.shape[1]
    pairs = (samples[:, :, None] - samples[:, None]).abs().sum(dim=(1, 2))
    return (samples - truth[:, None]).abs().mean(dim=1) - (pairs / (2 * k * (k - 1)) if k > 1 else 0)


def of_normal(mean: float, std: float, truth: float) -> float:
    """The CRPS of a normal distribution (Gneiting and Raftery 2007, eq. 21)."""
    z, unit = (truth - mean) / std, NormalDist()
    return std * (z * (2 * unit.cdf(z) - 1) + 2 * unit.pdf(z) - 1 / math.sqrt(math.pi))


@pytest.mark.parametrize(
    ("truth", "samples", "expected"),
    [
        (1.0, [3.0], 2.0),  # one sample: the absolute error
        (1.0, [3.0, 3.0, 3.0], 2.0),  # equal samples: the absolute error
        (0.0, [-1.0, 1.0], 1 - 1.0),
        (0.0, [0.0, 4.0], 2 - 2.0),
        (5.0, [0.0, 4.0], 3 - 2.0),
        (2.0, [1.0, 2.0, 6.0], 5 / 3 - 5 / 3),
        (9.0, [6.0, 1.0, 2.0], 6 - 5 / 3),
        (0.0, [0.0, 0.0, 0.0], 0.0),
    ],
)
def test_small_sets_by_hand(truth: float, samples: list[float], expected: float) -> None:
    assert float(crps(torch.tensor([truth]), torch.tensor([samples]))) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("k", [1, 2, 3, 8, 33])
def test_sorting_equals_all_pairs(k: int) -> None:
    truth, samples = normal(5, 3, 2), normal(5, k, 3, 2, seed=1)
    samples[0, : k // 2] = samples[0, 0]  # ties
    found = crps(truth, samples)
    assert found.dtype == torch.float64 and found.shape == truth.shape
    torch.testing.assert_close(found, brute_force(truth, samples), rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(crps(truth.float(), samples.float()).double(), found, rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(crps(truth, samples[:, torch.randperm(k, generator=generator())]), found)


@pytest.mark.parametrize(("mean", "std", "truth"), [(0.0, 1.0, 0.0), (0.3, 2.0, -1.5), (-4.0, 0.5, 1.0)])
def test_many_normal_samples_have_the_crps_of_the_normal_distribution(mean: float, std: float, truth: float) -> None:
    samples = mean + std * normal(1, 200_000)
    found = float(crps(torch.tensor([truth]).double(), samples))
    assert found == pytest.approx(of_normal(mean, std, truth), abs=4 * std / math.sqrt(200_000))


def test_the_mean_does_not_depend_on_the_number_of_samples() -> None:
    truth = torch.full((40_000,), 0.7).double()
    expected = of_normal(0.0, 1.0, 0.7)
    for k in (2, 3, 20):
        scores = crps(truth, normal(40_000, k, seed=k))
        assert float(scores.mean()) == pytest.approx(expected, abs=4 * float(scores.std()) / 200)
        biased = scores.mean() + 1 / math.sqrt(math.pi) / k  # the version that divides by K^2
        assert float(biased) > expected + 4 * float(scores.std()) / 200


def test_the_true_distribution_has_the_lowest_score() -> None:
    truth, noise = normal(40_000), normal(40_000, 5, seed=1)
    right = crps(truth, noise)
    for mean, std in ((0.0, 0.6), (0.0, 1.6), (0.5, 1.0), (0.0, 0.0)):
        worse = crps(truth, mean + std * noise) - right
        assert float(worse.mean()) > 4 * float(worse.std()) / 200


@pytest.mark.parametrize("channels", [1, 3])
def test_crps_of_pixels_is_the_mean_over_hidden_pixels_and_channels(
    channels: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    truth, samples = levels(4, channels, 6, 5), levels(4, 7, channels, 6, 5, seed=1)
    hidden = torch.rand(4, 1, 6, 5, generator=generator(2)) < 0.4
    hidden[2] = False
    hidden[3] = True
    found = pixel_crps(truth, samples, hidden)
    scores = brute_force(truth.double() / 255, samples.double() / 255)
    for i in (0, 1, 3):
        assert float(found[i]) == pytest.approx(float(scores[i][hidden[i].expand(channels, -1, -1)].mean()), rel=1e-6)
    assert float(found[2]) == 0  # no hidden pixel
    pasted = torch.where(hidden[:, None], samples, truth[:, None])
    torch.testing.assert_close(pixel_crps(truth, pasted, hidden), found)  # known pixels do not count
    for most in (1, 100, 7 * 30 * channels):
        monkeypatch.setattr("condvae.metrics.ranked_probability._NUMBERS_AT_ONCE", {"cpu": most})
        torch.testing.assert_close(pixel_crps(truth, samples, hidden), found, rtol=1e-6, atol=0)


def test_crps_of_one_or_of_equal_completions_is_the_mean_absolute_error() -> None:
    truth, samples, hidden = levels(2, 3, 4, 4), levels(2, 1, 3, 4, 4, seed=1), torch.ones(2, 1, 4, 4).bool()
    expected = (truth.double() - samples[:, 0].double()).abs().mean(dim=(1, 2, 3)) / 255
    for k in (1, 2, 9):
        same = samples.expand(-1, k, -1, -1, -1)
        torch.testing.assert_close(pixel_crps(truth, same, hidden), expected, rtol=1e-6, atol=0)
    assert pixel_crps(truth, truth[:, None].expand(-1, 5, -1, -1, -1), hidden).tolist() == [0, 0]
    black, white = torch.zeros(1, 1, 4, 4).byte(), torch.full((1, 1, 1, 4, 4), 255).byte()
    assert float(pixel_crps(black, white, hidden[:1])) == pytest.approx(1)  # the unit is the range of pixel values


@pytest.mark.parametrize(
    ("trunk", "channels", "height", "width"), [("alex", 3, 32, 32), ("alex", 1, 64, 35), ("vgg", 3, 16, 33)]
)
def test_crps_of_one_completion_in_lpips_features_equals_its_definition(
    trunk: Trunk, channels: int, height: int, width: int
) -> None:
    """The mean over positions, and the sum over channels and layers, of sqrt(lin) |difference of unit vectors|."""
    lpips = random_lpips(trunk=trunk)
    a, b = (images(2, size=64, seed=seed)[:, :channels, :height, :width] for seed in (0, 1))
    found = sample_distances(lpips, a, b[:, None], crps=True).crps
    assert found is not None
    expected = torch.zeros(2, dtype=torch.float64)
    parts, start = [], 0
    weights = lpips.position_weights(height, width)
    features = [lpips.features(x) for x in (a, b)]
    assert len(weights) == features[0].shape[1]
    for head in lpips.lin:  # undo the scaling of squared differences, layer by layer
        positions = round(float(weights[start]) ** -2)
        stop = start + len(head) * positions
        maps = [x[:, start:stop].unflatten(1, (len(head), positions)).double() * positions**0.5 for x in features]
        units = maps[0] / head.double()[:, None].sqrt()
        torch.testing.assert_close(units.square().sum(dim=1), torch.ones(2, positions).double(), rtol=1e-4, atol=1e-4)
        expected += (maps[0] - maps[1]).abs().sum(dim=1).mean(dim=1)
        parts.append(positions)
        start = stop
    assert start == len(weights) and parts == sorted(parts, reverse=True)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=0)


@pytest.mark.parametrize("k", [2, 5, 8])
@pytest.mark.parametrize(("at_once", "held"), [(2, 10**9), (4, 0), (1000, 10**9)])
def test_crps_of_lpips_features_does_not_depend_on_chunks(
    k: int, at_once: int, held: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    lpips = random_lpips()
    truth, samples = images(3, size=32), images(3 * k, size=32, seed=1).unflatten(0, (3, k))
    features = torch.stack([lpips.features(one) for one in samples])
    scores = brute_force(lpips.features(truth).double(), features.double())
    expected = (scores * lpips.position_weights(32, 32)).sum(dim=1)
    monkeypatch.setattr("condvae.metrics.lpips._PIXELS_AT_ONCE", {"cpu": at_once * 32 * 32})
    monkeypatch.setattr("condvae.metrics.samples._HELD_AT_MOST", held)
    found = sample_distances(lpips, truth, samples, samples[:, :1], crps=True)
    assert found.crps is not None
    torch.testing.assert_close(found.crps, expected, rtol=1e-5, atol=0)
    plain = sample_distances(lpips, truth, samples, samples[:, :1])
    assert plain.crps is None and torch.equal(plain.to_truth, found.to_truth)
    perfect = sample_distances(lpips, truth, truth[:, None].expand(-1, k, -1, -1, -1), crps=True).crps
    assert perfect is not None and float(perfect.abs().max()) < 1e-5 * float(expected.min())


def test_invalid_sets_are_rejected() -> None:
    truth, samples, hidden = levels(2, 3, 4, 4), levels(2, 5, 3, 4, 4), torch.ones(2, 1, 4, 4).bool()
    for wrong in (samples[:1], samples[:, 0], samples[:, :0], samples[..., 1:]):
        with pytest.raises(ValueError, match=r"expected \[B, K, C, H, W\]"):
            pixel_crps(truth, wrong, hidden)
        with pytest.raises(ValueError, match=r"expected \[B, K, \.\.\.\]"):
            crps(truth, wrong)
    with pytest.raises(ValueError, match="expected grey levels"):
        pixel_crps(truth.float(), samples, hidden)
    with pytest.raises(ValueError, match=r"expected bool \[B, 1, H, W\]"):
        pixel_crps(truth, samples, hidden[:, 0])
    with pytest.raises(ValueError, match=r"expected \[B, D\] and \[B, K, D\]"):
        feature_crps(normal(2, 3), normal(2, 5, 4), torch.ones(3))
    with pytest.raises(ValueError, match="3 weights"):
        feature_crps(normal(2, 3), normal(2, 5, 3), torch.ones(4))
