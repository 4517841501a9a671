from typing import Any

import pytest

from condvae.experiments.ood import SCORES, OODSettings
from condvae.experiments.ood.plan import DetectionMethod, pairs_of
from condvae.ood.scores import score_of


def test_every_score_by_default_is_one() -> None:
    assert all(score_of(name) for name in SCORES)


def test_ours_is_compared_with_others_and_models_with_each_other() -> None:
    methods = [DetectionMethod(model, score) for model in ("a", "b") for score in ("gradient", "parts-4", "likelihood")]
    pairs = [f"{one} - {other}" for one, other in pairs_of(methods)]
    within = ["{0} gradient - {0} likelihood", "{0} parts-4 - {0} gradient", "{0} parts-4 - {0} likelihood"]
    across = [f"a {score} - b {score}" for score in ("gradient", "parts-4", "likelihood")]
    assert sorted(pairs) == sorted([text.format(model) for model in "ab" for text in within] + across)
    assert pairs_of([]) == []
    # Variants of ours are held against the gradient, not against each other.
    variants = [DetectionMethod("a", score) for score in ("gradient-4", "parts", "channels", "complexity")]
    assert [f"{one.score} - {other.score}" for one, other in pairs_of(variants)] == [
        *("gradient-4 - complexity", "parts - gradient-4", "parts - complexity"),
        *("channels - gradient-4", "channels - complexity"),
    ]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"images": 1}, "images is 1"),
        ({"fit_images": 0}, "fit is 0"),
        ({"seed": -1}, "seed is -1"),
        ({"resamples": 10**6}, "1,000,000 resamples"),
        ({"scores": (), "baselines": ()}, "no scores"),
        ({"sets": ("noise", "noise")}, "set was given twice"),
    ],
)
def test_refusals(change: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        OODSettings(**change)
