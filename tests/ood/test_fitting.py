"""Fits: the density of training features, the held-out images, and the meaning of percentiles."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np
import pytest
import torch
from helpers.models import small_vae
from helpers.ood_models import observing, plain_data
from numpy.typing import NDArray
from torch import Tensor

from condvae.observe import Freeform, Observation
from condvae.ood.density import GaussianDensity
from condvae.ood.features import known_share, measure
from condvae.ood.fitting import Fit, fit_score, training_features
from condvae.ood.inference import EncoderKind, Inference
from condvae.ood.scores import Gradient, GradientParts, LikelihoodBound


def fit_of(scores: NDArray[np.float64], shares: NDArray[np.float64]) -> Fit:
    return Fit(score="likelihood", kind="partial", density=None, held_scores=scores, held_shares=shares, record={})


def test_a_fit_is_the_density_of_training_features() -> None:
    inference, data = Inference.of(observing()), plain_data()
    fit = fit_score(GradientParts(), inference, data, images=55, held_out=30, seed=2)
    features = training_features(GradientParts(), inference, data, images=55, seed=2)
    expected = GaussianDensity.fit(features)
    assert fit.density is not None and features.shape == (55, 2 * inference.groups)
    np.testing.assert_array_equal(fit.density.covariance, expected.covariance)
    np.testing.assert_array_equal(fit.score_values(features), expected.log_density(features))
    assert fit.score == "parts" and fit.kind == "partial"
    assert fit.record["images"] == 55 and fit.record["held_out"] == 30 and fit.record["held_out_images"] == 20
    assert fit.record["model"] == inference.identity and fit.record["process"] == "freeform"
    assert fit.held_scores.shape == fit.held_shares.shape == (30,)


def test_training_features_do_not_depend_on_how_they_are_split() -> None:
    inference, data = Inference.of(observing()), plain_data(train=130)
    every = training_features(Gradient(), inference, data, images=120)
    pieces = [
        training_features(Gradient(), inference, data, images=120, first=first, stop=stop)
        for first, stop in ((0, 7), (7, 99), (99, 111), (111, None))
    ]
    np.testing.assert_array_equal(every, np.concatenate(pieces))


def test_fits_differ_only_by_seed() -> None:
    inference, data = Inference.of(observing()), plain_data()
    first, again, other = (
        fit_score(Gradient(), inference, data, images=20, held_out=10, seed=seed) for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(first.held_scores, again.held_scores)
    np.testing.assert_array_equal(first.held_shares, again.held_shares)
    assert not np.array_equal(first.held_shares, other.held_shares)


def test_holes_are_those_of_training() -> None:
    inference = Inference.of(observing(process=Freeform(low=0.4, high=0.6)))
    fit = fit_score(Gradient(), inference, plain_data(), images=20, held_out=60)
    assert fit.held_shares.min() >= 0.4 and fit.held_shares.max() <= 0.6 and len(np.unique(fit.held_shares)) > 5
    # Images that are used again are behind another hole.
    assert not np.array_equal(fit.held_shares[:20], fit.held_shares[20:40])


@dataclass(frozen=True, kw_only=True)
class Drawn:
    """A score that returns what was drawn: an observation's known share, or the seed of its latents."""

    name: Literal["share", "seed"]
    fitted: ClassVar[bool] = False
    kind: ClassVar[EncoderKind | None] = None

    def features(self, inference: Inference, observation: Observation, seeds: Sequence[int]) -> Tensor:
        if self.name == "share":
            return torch.from_numpy(known_share(observation))[:, None]
        return torch.tensor([[seed >> 16] for seed in seeds], dtype=torch.float64)


@pytest.mark.parametrize("name", ["share", "seed"])
def test_held_out_images_are_drawn_independently_of_fitted_ones(name: Literal["share", "seed"]) -> None:
    inference, data = Inference.of(observing()), plain_data()
    data = replace(data, validation=data.train)  # the same images, so that only the draws differ
    fitted = training_features(Drawn(name=name), inference, data, images=60)[:, 0]
    held = fit_score(Drawn(name=name), inference, data, images=60, held_out=60).held_scores
    assert len(np.unique(held)) > 20 and np.mean(held == fitted) < 0.2


def test_whole_images_are_not_repeated() -> None:
    fit = fit_score(Gradient(), Inference.of(small_vae()), plain_data(), images=30, held_out=500)
    assert fit.kind == "whole" and len(fit.held_scores) == fit.record["held_out_images"] == 20
    assert (fit.held_shares == 1).all() and fit.record["process"] is None


def test_scores_without_a_density() -> None:
    inference, data = Inference.of(observing()), plain_data()
    fit = fit_score(LikelihoodBound(), inference, data, images=30, held_out=10)
    assert fit.density is None and fit.record["images"] == 0
    features = measure(LikelihoodBound(), inference, data.test.take(np.arange(4)).images, seed=0)
    np.testing.assert_array_equal(fit.score_values(features), features[:, 0])
    with pytest.raises(ValueError, match=r"\[4, 2\]"):
        fit.score_values(np.zeros((4, 2)))


def test_training_images_replace_missing_validation_images() -> None:
    said: list[str] = []
    inference, data = Inference.of(observing()), plain_data(validation=0)
    fit = fit_score(Gradient(), inference, data, images=40, held_out=50, say=said.append)
    assert fit.record["held_out_images"] == 20 and "not fitted" in fit.record["held_out_from"]
    assert len(said) == 1 and "no validation images" in said[0]
    with pytest.raises(ValueError, match="the fit uses all 60 training images"):
        fit_score(Gradient(), inference, data, images=60, held_out=50)


@pytest.mark.parametrize(
    ("change", "said"), [({"images": 1}, "images to fit is 1"), ({"held_out": 0}, "held-out"), ({"seed": -1}, "seed")]
)
def test_invalid_numbers_are_refused(change: dict[str, int], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        fit_score(Gradient(), Inference.of(observing()), plain_data(), **change)  # type: ignore[arg-type]


def test_percentiles_of_ordinary_images_are_uniform() -> None:
    # About 10 % of new ordinary images get a percentile of 10 or less, for small and for large known shares.
    dice = np.random.default_rng(0)

    def draw(count: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        shares = dice.uniform(0, 1, count)
        return dice.normal(size=count) * (1 + shares) - 20 * shares, shares  # scores depend on the known share

    fit = fit_of(*draw(20_000))
    scores, shares = draw(4000)
    percentiles = fit.percentile(scores, shares)
    for some in (shares < 0.3, shares > 0.7):
        for level in (5, 20, 50, 80):
            assert np.mean(percentiles[some] <= level) == pytest.approx(level / 100, abs=0.045)
    assert percentiles.min() > 0 and percentiles.max() <= 100


def test_percentiles_compare_the_nearest_known_shares() -> None:
    scores, shares = np.arange(3000.0), np.repeat([0.2, 0.5, 0.8], 1000)
    fit = fit_of(scores, shares)
    # In the first thousand, 10 scores are not higher; in the others, none.
    np.testing.assert_allclose(fit.percentile([9.0, 9.0, -1.0], [0.1, 0.55, 0.2]), np.array([11, 1, 1]) / 10.01)
    assert fit.percentile([1e9], [0.3]) == pytest.approx(100)
    # Half-way between them, both thousands are equally near and are both used.
    assert fit.percentile([999.0], [0.35]) == pytest.approx(100 * 1001 / 2001)


@pytest.mark.parametrize(("count", "compared"), [(50, 50), (300, 200), (2000, 400), (10_000, 1000)])
def test_a_fifth_is_compared_between_200_and_1000(count: int, compared: int) -> None:
    # All shares differ, and nearer ones have lower scores.
    fit = fit_of(np.arange(float(count)), np.arange(count) / count)
    assert fit.percentile([-1.0], [0.0]) == pytest.approx(100 / (1 + compared), rel=1e-12)
    assert fit.percentile([compared - 1.5], [0.0]) == pytest.approx(100 * compared / (1 + compared), rel=1e-12)


def test_a_score_that_is_not_finite_is_never_ordinary() -> None:
    held = np.arange(300.0)
    fit = Fit(score="likelihood", kind="whole", density=None, held_scores=held, held_shares=np.ones(300), record={})
    scores = np.array([1e9, np.nan, np.inf, -np.inf])
    assert fit.percentile(scores, np.ones(4)).tolist() == [100, *[100 / 301] * 3]


def test_few_held_out_scores_never_call_anything_strange() -> None:
    fit = fit_of(np.arange(50.0), np.ones(50))
    assert fit.percentile([-1e9], [1.0]) > 1
    assert fit_of(np.arange(200.0), np.ones(200)).percentile([-np.inf], [1.0]) < 1
    assert fit.percentile([np.nan], [1.0]) == pytest.approx(100 / 51)
    with pytest.raises(ValueError, match="known shares"):
        fit.percentile([1.0, 2.0], [1.0])
