"""The settings of a comparison of scores, its methods, and the columns of its tables."""
# Do not import torch here: the command line reads its defaults from this file and must start fast.

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from condvae.ood.score_names import SET_MEANINGS
from condvae.runtime.checks import check_resamples, check_seed, check_whole

REVISION = 1
"""Version of the code that computes features. Raise it when features change, so that old results are not reused."""

SCORES = ("gradient", "gradient-4", "parts-4", "channels", "likelihood", "likelihood-4", "ratio", "complexity")
BASELINE_METHODS = ("completed-ipa", "completed-nearest")
"""Baselines: an image is completed first, by the model itself or from the nearest training image, and then scored as a
whole image."""
SETS = tuple(SET_MEANINGS)

WHOLE, MEAN = "whole", "mean"
"""The columns that tables have in addition to the bins of hidden shares. WHOLE: whole images, with latents from
q(z | x). MEAN: the mean over the bins."""

OURS = ("parts", "channels", "gradient")
"""The scores that are based on the temperature gradient. Reports compare every other score with these."""


class DetectionMethod(NamedTuple):
    """A model together with a score. Tables have one row per method."""

    model: str
    score: str

    def __str__(self) -> str:
        return f"{self.model} {self.score}"

    @property
    def title(self) -> str:
        """The score's name without its number: "gradient" for "gradient-4"."""
        return self.score.partition("-")[0]

    @property
    def ours(self) -> bool:
        return self.title in OURS


@dataclass(frozen=True, kw_only=True)
class OODSettings:
    """The settings of a comparison of scores. They apply to all methods."""

    scores: tuple[str, ...] = SCORES
    """The scores to compare; see `SCORE_MEANINGS` in `ood/score_names.py`. gradient-K, parts-K, channels-K and
    likelihood-K are means over K passes, ratio-R infers latents up to R x R, regret-S makes S steps."""
    baselines: tuple[str, ...] = BASELINE_METHODS
    """Baselines that complete each image and then score the whole image. completed-ipa uses the model's own
    completions, and completed-NAME those of another completer, such as nearest."""
    sets: tuple[str, ...] = SETS
    """Sets of strange images that need no other data; see `SET_MEANINGS` in `ood/score_names.py`."""
    images: int = 5000
    """How many test images to use, spread evenly over the test set; all of them if there are fewer."""
    fit_images: int = 5000
    """How many training images to fit the density of a score to. They are spread evenly over the training set."""
    regret_images: int = 500
    """How many of the test images to use for the score regret, which is slow."""
    seed: int = 0
    """The seed of everything that is drawn at random; the same seed gives the same result."""
    resamples: int = 300
    """How many bootstrap resamples to draw for confidence intervals."""

    def __post_init__(self) -> None:
        for name, value, least in (
            ("the number of images", self.images, 2),
            ("the number of training images to fit scores to", self.fit_images, 2),
            ("the number of images for the regret score", self.regret_images, 1),
        ):
            check_whole(value, name, least=least)
        check_seed(self.seed)
        check_resamples(self.resamples)
        if not (self.scores or self.baselines):
            raise ValueError(
                f"no scores were given: expected at least one of {', '.join((*SCORES, 'regret', *BASELINE_METHODS))}"
            )
        _check_once(self.sets, "set")


def _check_once(names: Sequence[str], what: str) -> None:
    if len(set(names)) < len(names):
        raise ValueError(f"a {what} was given twice (the {what}s are {', '.join(names)}): give each {what} once")


def pairs_of(methods: Sequence[DetectionMethod]) -> list[tuple[DetectionMethod, DetectionMethod]]:
    """Return the pairs of methods whose difference is reported.

    Two scores of the same model form a pair if the first is based on the temperature gradient (gradient, parts or
    channels) and the second is not, or if the first is parts or channels and the second is gradient. Two models with
    the same score form a pair if one of them is the first model.
    """
    first = methods[0].model if methods else ""
    return [
        (one, other)
        for one in methods
        for other in methods
        if (one.model == other.model and one.ours and (not other.ours or one.title != other.title == "gradient"))
        or (one.model == first != other.model and one.score == other.score)
    ]
