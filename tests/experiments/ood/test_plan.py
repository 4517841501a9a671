import pytest

from condvae.experiments.ood import SCORES, SETS, OODSettings
from condvae.experiments.ood.plan import DetectionMethod, pairs_of
from condvae.ood.scores import score_of
from condvae.ood.strange_sets import GENERATED_SETS


def test_defaults_are_the_papers_numbers_and_all_built_in_sets() -> None:
    assert SETS == tuple(GENERATED_SETS) == OODSettings().sets
    assert (OODSettings().images, OODSettings().fit_images) == (5000, 5000)
    assert all(score_of(name) for name in SCORES)


def test_gradient_scores_are_compared_with_others_and_models_with_each_other() -> None:
    methods = [DetectionMethod(model, score) for model in ("a", "b") for score in ("gradient", "parts-4", "likelihood")]
    pairs = [f"{one} - {other}" for one, other in pairs_of(methods)]
    within = ["{0} gradient - {0} likelihood", "{0} parts-4 - {0} gradient", "{0} parts-4 - {0} likelihood"]
    across = [f"a {score} - b {score}" for score in ("gradient", "parts-4", "likelihood")]
    assert sorted(pairs) == sorted([text.format(model) for model in "ab" for text in within] + across)
    assert pairs_of([]) == []
    # Variants of the gradient are compared with the gradient, not with each other.
    variants = [DetectionMethod("a", score) for score in ("gradient-4", "parts", "channels", "complexity")]
    assert [f"{one.score} - {other.score}" for one, other in pairs_of(variants)] == [
        *("gradient-4 - complexity", "parts - gradient-4", "parts - complexity"),
        *("channels - gradient-4", "channels - complexity"),
    ]


def test_refusals() -> None:
    with pytest.raises(ValueError, match="the number of images is 1"):
        OODSettings(images=1)
    with pytest.raises(ValueError, match="the number of training images to fit scores to is 0"):
        OODSettings(fit_images=0)
    with pytest.raises(ValueError, match="the seed is -1"):
        OODSettings(seed=-1)
    with pytest.raises(ValueError, match=r"1,000,000 bootstrap resamples are too many .*: give at most 100,000"):
        OODSettings(resamples=10**6)
    with pytest.raises(ValueError, match="no scores were given: expected at least one of gradient"):
        OODSettings(scores=(), baselines=())
    with pytest.raises(ValueError, match="a set was given twice"):
        OODSettings(sets=("noise", "noise"))
