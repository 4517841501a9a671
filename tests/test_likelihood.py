import math
from dataclasses import replace
from typing import Any, cast

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.distributions import Normal, kl_divergence

from condvae.likelihood import GaussianPixels, LogisticMixture
from condvae.runtime.pixels import to_levels


def mixture_parameters(likelihood: LogisticMixture, seed: int, pixels: int = 1, spread: float = 1.0) -> Tensor:
    """Random parameters [pixels, P, 1, 1] float64. Log-scales are around -3, so that some bins are very unlikely."""
    generator = torch.Generator().manual_seed(seed)
    k, channels = likelihood.components, likelihood.channels
    raw = torch.randn(pixels, likelihood.parameters_per_pixel, generator=generator, dtype=torch.float64) * spread
    per_channel = raw[:, k:].view(pixels, channels, -1, k)
    per_channel[:, :, 0] *= 0.5
    per_channel[:, :, 1] -= 3
    return raw[:, :, None, None]


def grey_probabilities(likelihood: LogisticMixture, parameters: Tensor) -> Tensor:
    """[levels]: the probability of every value of one grey pixel, in float64."""
    values = likelihood.level_values(torch.float64).view(-1, 1, 1, 1)
    return likelihood.log_prob(parameters.expand(len(values), -1, -1, -1), values).exp().flatten()


@settings(max_examples=40)
@given(st.integers(0, 10_000), st.sampled_from([5, 8]), st.integers(1, 6))
def test_exact_grey_probabilities_sum_to_one(seed: int, bits: int, components: int) -> None:
    likelihood = LogisticMixture(channels=1, components=components, bits=bits, bins="exact")
    total = grey_probabilities(likelihood, mixture_parameters(likelihood, seed, spread=2.0)).sum()
    assert abs(float(total) - 1) < 1e-9


@settings(max_examples=40)
@given(st.integers(0, 10_000))
def test_public_8_bit_probabilities_sum_to_almost_one(seed: int) -> None:
    likelihood = LogisticMixture(channels=1, components=3)
    total = grey_probabilities(likelihood, mixture_parameters(likelihood, seed)).sum()
    assert abs(float(total) - 1) < 2e-3


def test_public_5_bit_bins_overlap_by_the_ratio_of_their_width_and_spacing() -> None:
    likelihood = LogisticMixture(channels=1, components=1, bits=5)
    # One component in the middle of the range, much wider than a bin and much narrower than the range.
    parameters = torch.tensor([0.0, 0.0, math.log(0.08)], dtype=torch.float64).view(1, 3, 1, 1)
    total = float(grey_probabilities(likelihood, parameters).sum())
    assert total == pytest.approx((2 / 31) / (8 / 127.5), abs=1e-3)
    # A narrow component between two levels counts for both; one above the highest bin, which is closed, for none.
    narrow = torch.tensor([0.0, 100 / 127.5 - 1, -7.0], dtype=torch.float64).view(1, 3, 1, 1)
    assert float(grey_probabilities(likelihood, narrow).sum()) > 1.4
    beyond = torch.tensor([0.0, 1.1, -4.0], dtype=torch.float64).view(1, 3, 1, 1)
    assert float(grey_probabilities(likelihood, beyond).sum()) < 0.01
    exact = replace(likelihood, bins="exact")
    for case in (parameters, narrow, beyond):
        assert float(grey_probabilities(exact, case).sum()) == pytest.approx(1, abs=1e-9)


def test_exact_probabilities_of_all_colours_sum_to_one() -> None:
    likelihood = LogisticMixture(components=2, bits=5, bins="exact")
    values = likelihood.level_values(torch.float64)
    colours = torch.cartesian_prod(values, values, values)[:, :, None, None]
    parameters = mixture_parameters(likelihood, seed=1).expand(len(colours), -1, -1, -1)
    assert float(likelihood.log_prob(parameters, colours).exp().sum()) == pytest.approx(1, abs=1e-9)


def naive_log_prob(likelihood: LogisticMixture, parameters: Tensor, x: Tensor) -> Tensor:
    """The likelihood of the public code for one RGB pixel, written with plain numbers in float64."""
    k = likelihood.components
    raw, value = parameters.flatten().tolist(), x.flatten().tolist()
    half = likelihood.half_bin
    weights = torch.tensor(raw[:k], dtype=torch.float64).log_softmax(0).tolist()

    def sigmoid(t: float) -> float:
        return float(torch.tensor(t, dtype=torch.float64).sigmoid())

    def softplus(t: float) -> float:
        return max(t, 0) + math.log1p(math.exp(-abs(t)))

    terms = []
    for i in range(k):
        mean = [raw[k + 3 * k * c + i] for c in range(3)]
        log_scale = [max(raw[k + 3 * k * c + k + i], -7.0) for c in range(3)]
        slope = [math.tanh(raw[k + 3 * k * c + 2 * k + i]) for c in range(3)]
        mean[1] += slope[0] * value[0]
        mean[2] += slope[1] * value[0] + slope[2] * value[1]
        total = weights[i]
        for c in range(3):
            scale = math.exp(log_scale[c])
            upper, lower = ((value[c] + sign * half - mean[c]) / scale for sign in (1, -1))
            mass = sigmoid(upper) - sigmoid(lower)
            middle = (value[c] - mean[c]) / scale
            if value[c] < -0.999:
                total -= softplus(-upper)
            elif value[c] > 0.999:
                total -= softplus(lower)
            elif mass > 1e-5:
                total += math.log(mass)
            else:
                total += middle - log_scale[c] - 2 * softplus(middle) - math.log(0.5 / half)
        terms.append(total)
    return torch.tensor(terms, dtype=torch.float64).logsumexp(0)


@settings(max_examples=60)
@given(st.integers(0, 10_000), st.sampled_from([5, 8]), st.lists(st.integers(0, 255), min_size=3, max_size=3))
def test_rgb_log_probability_matches_the_public_code(seed: int, bits: int, levels: list[int]) -> None:
    likelihood = LogisticMixture(components=3, bits=bits)
    parameters = mixture_parameters(likelihood, seed)
    x = likelihood.quantise(torch.tensor(levels, dtype=torch.float64).view(1, 3, 1, 1) / 127.5 - 1)
    torch.testing.assert_close(
        likelihood.log_prob(parameters, x).squeeze(), naive_log_prob(likelihood, parameters, x), rtol=1e-8, atol=1e-8
    )


def chi_square(counts: Tensor, probabilities: Tensor) -> float:
    """Pearson's statistic divided by its degrees of freedom; cells with an expectation below 10 are merged."""
    expected = probabilities * counts.sum()
    rare = expected < 10
    cells = torch.cat((counts[~rare], counts[rare].sum()[None]))
    expected = torch.cat((expected[~rare], expected[rare].sum()[None].clamp_min(1e-9)))
    return float(((cells - expected).square() / expected.clamp_min(10)).sum() / max(1, len(cells) - 1))


@pytest.mark.parametrize("bits", [5, 8])
def test_grey_samples_have_the_probabilities_of_log_prob(bits: int) -> None:
    likelihood = LogisticMixture(channels=1, components=4, bits=bits, bins="exact")
    parameters = mixture_parameters(likelihood, seed=3)
    n = 400_000
    x = likelihood.sample(parameters.float().expand(1, -1, 1, n), torch.Generator().manual_seed(0)).flatten()
    index = ((x + 1) / 2 * (likelihood.levels - 1)).round().long()
    torch.testing.assert_close(likelihood.level_values()[index], x)  # samples are on the levels
    counts = torch.bincount(index, minlength=likelihood.levels).double()
    assert chi_square(counts, grey_probabilities(likelihood, parameters)) < 1.5


def test_colour_samples_have_the_joint_probabilities_of_log_prob() -> None:
    likelihood = LogisticMixture(components=2, bits=5, bins="exact")
    parameters = mixture_parameters(likelihood, seed=5)
    values = likelihood.level_values(torch.float64)
    colours = torch.cartesian_prod(values, values, values)[:, :, None, None]
    joint = likelihood.log_prob(parameters.expand(len(colours), -1, -1, -1), colours).exp().view(32, 32, 32)
    n = 400_000
    x = likelihood.sample(parameters.float().expand(1, -1, 1, n), torch.Generator().manual_seed(1))[0, :, 0]
    red, green, blue = ((x + 1) / 2 * 31).round().long()
    for first, second, probabilities in (
        (red, green, joint.sum(2)),
        (red, blue, joint.sum(1)),
        (green, blue, joint.sum(0)),
    ):
        counts = torch.bincount(first * 32 + second, minlength=1024).double()
        assert chi_square(counts, probabilities.flatten()) < 1.5


def test_the_mean_of_a_grey_pixel_matches_its_probabilities() -> None:
    likelihood = LogisticMixture(channels=1, components=4, bins="exact")
    for seed in range(20):
        parameters = mixture_parameters(likelihood, seed)
        expected = (grey_probabilities(likelihood, parameters) * likelihood.level_values()).sum()
        assert float(likelihood.mean(parameters)) == pytest.approx(float(expected), abs=2e-3)


@pytest.mark.parametrize("bits", [5, 8])
def test_the_mean_of_a_colour_pixel_matches_its_samples(bits: int) -> None:
    """Components as wide as the range are tested too; much of the red and green that blue depends on is clipped."""
    likelihood = LogisticMixture(components=2, bits=bits)
    for seed in range(5):
        parameters = mixture_parameters(likelihood, seed).float()
        parameters[:, 2:].view(1, 3, 3, 2)[:, :, 1] += 1.5
        samples = likelihood.sample(parameters.expand(1, -1, 1, 100_000), torch.Generator().manual_seed(2))
        torch.testing.assert_close(likelihood.mean(parameters).flatten(), samples.mean((0, 2, 3)), atol=0.02, rtol=0)


@pytest.mark.parametrize("bins", ["public", "exact"])
@pytest.mark.parametrize("bits", [5, 8])
def test_samples_and_means_are_in_the_middle_of_their_level(bins: str, bits: int) -> None:
    """A very narrow component always draws the same level. The sample and the mean are quantised to that level again,
    and are in the middle of the grey levels that are quantised to it.
    """
    likelihood = LogisticMixture(channels=1, components=1, bits=bits, bins=cast("Any", bins))
    for level, value in enumerate(likelihood.level_values().tolist()):
        parameters = torch.tensor([0.0, value, -7.0]).view(1, 3, 1, 1)
        for image in (likelihood.sample(parameters, [0]), likelihood.mean(parameters)):
            assert float(likelihood.quantise(image)) == pytest.approx(value, abs=1e-6)
            grey = float(to_levels(image))
            middle = level * 2 ** (8 - bits) + (2 ** (8 - bits) - 1) / 2
            assert abs(grey - middle) <= (0.5 if bins == "public" or bits == 8 else 4)


def test_quantisation_rounds_down_to_the_levels() -> None:
    x = torch.arange(256) / 127.5 - 1
    for likelihood in (LogisticMixture(), LogisticMixture(bins="exact")):
        torch.testing.assert_close(likelihood.quantise(x), x)
    floored = LogisticMixture(bits=5)
    assert torch.equal(((floored.quantise(x) + 1) * 127.5).round().long(), torch.arange(256) // 8 * 8)
    for five_bit in (floored, LogisticMixture(bits=5, bins="exact")):
        torch.testing.assert_close(five_bit.quantise(x).unique(), five_bit.level_values())
        torch.testing.assert_close(five_bit.quantise(five_bit.quantise(x)), five_bit.quantise(x))


def test_extreme_parameters_give_finite_values_and_gradients() -> None:
    likelihood = LogisticMixture(components=2)
    for size in (1e2, 1e4):
        parameters = torch.full((1, 20, 1, 1), size).mul(torch.tensor([1.0, -1.0]).repeat(10).view(1, 20, 1, 1))
        parameters.requires_grad_()
        for value in (-1.0, 0.0, 1.0):
            log_prob = likelihood.log_prob(parameters, torch.full((1, 3, 1, 1), value)).sum()
            assert torch.isfinite(log_prob)
            (gradient,) = torch.autograd.grad(log_prob, parameters)
            assert torch.isfinite(gradient).all()


def test_means_of_extreme_components_are_correct() -> None:
    likelihood = LogisticMixture(channels=1, components=1)
    for mean, log_scale, expected in (
        (0.0, 12.0, 0.0),
        (0.0, 100.0, 0.0),
        (-1e6, -7.0, -1.0),
        (1e6, -7.0, 1.0),
        (0.25, -7.0, 0.25),
    ):
        parameters = torch.tensor([0.0, mean, log_scale]).view(1, 3, 1, 1)
        assert float(likelihood.mean(parameters)) == pytest.approx(expected, abs=1e-3)


def test_a_wrong_number_of_parameters_is_an_error() -> None:
    with pytest.raises(ValueError, match="26 parameters per pixel were given, but this likelihood needs 20"):
        LogisticMixture(components=2).log_prob(torch.zeros(1, 26, 1, 1), torch.zeros(1, 3, 1, 1))


def test_gaussian_pixels_measure_the_divergence_above_the_floor() -> None:
    likelihood = GaussianPixels(channels=1, noise_floor=0.05)
    parameters = torch.tensor([0.3, 1.0]).view(1, 2, 1, 1)
    x = torch.tensor(0.4).view(1, 1, 1, 1)
    std = math.exp(math.log(0.05) + math.log1p(math.exp(1.0 - math.log(0.05))))
    expected = -kl_divergence(Normal(0.4, 0.05), Normal(0.3, std))
    assert float(likelihood.log_prob(parameters, x)) == pytest.approx(float(expected), rel=1e-5)
    # The maximum is the image itself as the mean, with a std at the noise floor.
    best = likelihood.log_prob(torch.tensor([0.4, -100.0]).view(1, 2, 1, 1), x)
    assert float(best) == pytest.approx(0, abs=1e-5)


@settings(max_examples=30)
@given(st.floats(-3, 3), st.floats(-8, 12))
def test_gaussian_masses_of_the_256_levels_sum_to_one(mean: float, raw: float) -> None:
    likelihood = GaussianPixels(channels=1, noise_floor=0.004)
    levels = torch.arange(256.0, dtype=torch.float64).view(-1, 1, 1, 1) / 127.5 - 1
    parameters = torch.tensor([mean, raw], dtype=torch.float64).view(1, 2, 1, 1).expand(256, -1, -1, -1)
    log_mass = likelihood.log_mass(parameters, levels)
    assert torch.isfinite(log_mass).all()
    assert abs(float(log_mass.exp().sum()) - 1) < 1e-9


def test_gaussian_masses_match_scipy_far_into_the_tails() -> None:
    stats = pytest.importorskip("scipy.stats")
    likelihood = GaussianPixels(channels=3, noise_floor=0.01)
    generator = torch.Generator().manual_seed(0)
    levels = torch.randint(256, (400, 3, 1, 1), generator=generator)
    levels[:20], levels[20:40] = 0, 255
    parameters = torch.randn(400, 6, 1, 1, generator=generator, dtype=torch.float64)
    parameters[:, 3:] -= 2
    got = likelihood.log_mass(parameters, levels.double() / 127.5 - 1)
    mean = parameters[:, :3].numpy()
    std = math.log(0.01) + torch.nn.functional.softplus(parameters[:, 3:] - math.log(0.01))
    edges = [((levels.double() + side) / 127.5 - 1).numpy() for side in (-0.5, 0.5)]
    lower, upper = ((edge - mean) / std.exp().numpy() for edge in edges)
    lower[levels.numpy() == 0], upper[levels.numpy() == 255] = -math.inf, math.inf
    # The normalising constant of a truncated normal distribution is the mass between its ends.
    middle = np.clip(0.0, lower, upper)
    expected = stats.norm.logpdf(middle) - stats.truncnorm.logpdf(middle, lower, upper)
    assert float(got.min()) < -1000
    torch.testing.assert_close(got, torch.from_numpy(expected).sum(dim=1), rtol=1e-8, atol=1e-8)


def test_gaussian_masses_are_exact_beyond_single_precision() -> None:
    likelihood = GaussianPixels(channels=1, noise_floor=0.01)
    wide = torch.tensor([0.0, 15.0]).view(1, 2, 1, 1)  # a bin has 1e-9 of its mass
    log_mass = float(likelihood.log_mass(wide, torch.full((1, 1, 1, 1), 1 / 255)))
    assert log_mass == pytest.approx(math.log(2 / 255) - 15 - 0.5 * math.log(2 * math.pi), rel=1e-5)


def test_gaussian_samples_have_its_mean_and_std() -> None:
    likelihood = GaussianPixels(channels=3)
    parameters = torch.tensor([0.1, -0.2, 0.3, -2.0, -2.0, -2.0]).view(1, 6, 1, 1)
    x = likelihood.sample(parameters.expand(1, -1, 1, 100_000), torch.Generator().manual_seed(0))
    torch.testing.assert_close(x.mean((0, 2, 3)), likelihood.mean(parameters).flatten(), atol=5e-3, rtol=0)
    std = math.exp(math.log(0.03) + math.log1p(math.exp(-2.0 - math.log(0.03))))
    torch.testing.assert_close(x.std((0, 2, 3)), torch.full((3,), std), atol=5e-3, rtol=0)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: LogisticMixture(channels=2), "channels is 2, expected 1 or 3"),
        (lambda: LogisticMixture(bits=7), "expected 5 or 8"),
        (lambda: LogisticMixture(bins=cast("Any", "wide")), "expected 'public' or 'exact'"),
        (lambda: LogisticMixture(components=0), "whole number, at least 1"),
        (lambda: GaussianPixels(noise_floor=0.0), "between 0 and 1"),
    ],
)
def test_impossible_likelihoods_are_errors(make: object, message: str) -> None:
    assert callable(make)
    with pytest.raises(ValueError, match=message):
        make()
