"""The scores, by name. A score measures how ordinary an observation is to a model: higher is always more ordinary."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

import torch
from torch import Tensor

from condvae.completers.interface import Completer
from condvae.observe import Observation
from condvae.ood.complexity import Complexity
from condvae.ood.density import DensityValues
from condvae.ood.gradient import gradient_and_bound, temperature_gradient
from condvae.ood.inference import EncoderKind, Inference
from condvae.ood.ratio import Ratio
from condvae.ood.regret import Regret
from condvae.runtime.checks import check_whole
from condvae.runtime.messages import short, shown

_MOST_COUNT = 10_000
"""Limit on the number in the name of a score. The name can come from a file of fits."""


class Score(Protocol):
    """A kind of score, which computes features of observations.

    The score of an observation is the log-density of its features, or, without a density, its single feature.
    """

    @property
    def name(self) -> str:
        """The name of the score, such as "gradient-4"."""

    @property
    def fitted(self) -> bool:
        """Whether a density must be fitted to the features. If not, there is a single feature, which is the score."""

    @property
    def kind(self) -> EncoderKind | None:
        """The encoder that the score needs, as the kind of an `Inference`; None if it takes both."""

    def features(self, inference: Inference, observation: Observation, seeds: Sequence[int]) -> Tensor:
        """Return F features of each of B observations, [B, F], on the model's device. seeds: one per observation."""


@dataclass(frozen=True, kw_only=True)
class _PassScore:
    """A score whose features are averaged over a number of passes through the decoder."""

    title: ClassVar[str]
    fitted: ClassVar[bool] = True
    kind: ClassVar[EncoderKind | None] = None
    walks: int = 1
    """The number of passes through the decoder over which the features are averaged."""

    def __post_init__(self) -> None:
        check_whole(self.walks, "the number of passes through the decoder", least=1)

    @property
    def name(self) -> str:
        return self.title if self.walks == 1 else f"{self.title}-{self.walks}"


@dataclass(frozen=True, kw_only=True)
class PassFeatures(_PassScore):
    """All features that a decoder pass gives. It is measured once, and several scores are computed from it."""

    title: ClassVar[str] = "walk"  # part of the folder names of stored results

    def features(self, inference: Inference, observation: Observation, seeds: Sequence[int]) -> Tensor:
        """Return, for each of B observations, [B, 2 L + 1]: L shifts, L spreads, and the bound on log p(y) in nats."""
        gradient, nats = gradient_and_bound(inference, observation, noise=seeds, walks=self.walks)
        return torch.cat((gradient.shift, gradient.spread, nats[:, None]), dim=1)


@dataclass(frozen=True, kw_only=True)
class _DerivedScore(_PassScore, ABC):
    """A score whose features can be computed from those of `PassFeatures`."""

    @property
    def source(self) -> PassFeatures:
        """The features from which this score is computed. Scores with the same source share one measurement."""
        return PassFeatures(walks=self.walks)

    @abstractmethod
    def of_source(self, values: DensityValues) -> DensityValues:
        """Compute this score's features of N images, [N, F], from their `PassFeatures`, [N, 2 L + 1]."""


@dataclass(frozen=True, kw_only=True)
class Gradient(_DerivedScore):
    """The paper's score. Its features are the temperature gradient, one number per latent group."""

    title: ClassVar[str] = "gradient"

    def features(self, inference: Inference, observation: Observation, seeds: Sequence[int]) -> Tensor:
        return temperature_gradient(inference, observation, noise=seeds, walks=self.walks).total

    def of_source(self, values: DensityValues) -> DensityValues:
        groups = values.shape[1] // 2
        return values[:, :groups] + values[:, groups:-1]


@dataclass(frozen=True, kw_only=True)
class GradientParts(_DerivedScore):
    """A score with the two terms of the temperature gradient as separate features: 2 L features for L latent groups.

    If one term is unusually large and the other unusually small, their sum may look ordinary.
    """

    title: ClassVar[str] = "parts"

    def features(self, inference: Inference, observation: Observation, seeds: Sequence[int]) -> Tensor:
        gradient = temperature_gradient(inference, observation, noise=seeds, walks=self.walks)
        return torch.cat((gradient.shift, gradient.spread), dim=1)

    def of_source(self, values: DensityValues) -> DensityValues:
        return values[:, :-1]


@dataclass(frozen=True, kw_only=True)
class GradientByChannel(_PassScore):
    """A score from the gradient with one temperature per channel of each latent group: L C features for C channels.

    Channels describe different aspects of an image, whose deviations may cancel in a sum over channels.
    """

    title: ClassVar[str] = "channels"

    def features(self, inference: Inference, observation: Observation, seeds: Sequence[int]) -> Tensor:
        return temperature_gradient(inference, observation, noise=seeds, walks=self.walks).by_channel.flatten(1)


@dataclass(frozen=True, kw_only=True)
class LikelihoodBound(_DerivedScore):
    """The score that is the bound in nats on log p(y), or on log p(x) for whole images. It needs no density."""

    title: ClassVar[str] = "likelihood"
    fitted: ClassVar[bool] = False

    def features(self, inference: Inference, observation: Observation, seeds: Sequence[int]) -> Tensor:
        return self.source.features(inference, observation, seeds)[:, -1:]

    def of_source(self, values: DensityValues) -> DensityValues:
        return values[:, -1:]


SCORES: dict[str, Callable[[str], Score]] = {
    "gradient": lambda number: Gradient(walks=_count(number, "gradient", usual=1)),
    "parts": lambda number: GradientParts(walks=_count(number, "parts", usual=1)),
    "channels": lambda number: GradientByChannel(walks=_count(number, "channels", usual=1)),
    "likelihood": lambda number: LikelihoodBound(walks=_count(number, "likelihood", usual=1)),
    "regret": lambda number: Regret(steps=_count(number, "regret", usual=Regret.steps)),
    "ratio": lambda number: Ratio(resolution=_count(number, "ratio", usual=Ratio.resolution)),
    "complexity": lambda number: _alone(Complexity(), number),
}
"""{name of a score: function that makes it}. The function takes the text after "name-", such as "4", or "" if none."""


def score_of(name: str, *, completers: Mapping[str, Completer] | None = None) -> Score:
    """Return the score with a name, such as "gradient", or "gradient-4" for an average over four passes.

    "regret-S" makes S optimisation steps on offsets of the latents, unlike Xiao et al. 2020, who optimise the weights
    of the encoder. completers: {name: completer}, for scores such as "completed-nearest".
    """
    kind, _, rest = name.partition("-")
    if kind == "completed":
        from condvae.ood.completion_score import parse_completed  # imported here, since that module imports this one

        return parse_completed(rest, completers or {})
    if kind not in SCORES:
        raise ValueError(f"unknown score {shown(name)}, expected one of {', '.join(SCORES)}, completed-NAME")
    return SCORES[kind](rest)


def _alone(score: Score, text: str) -> Score:
    if text:
        raise ValueError(f"unknown score {score.name}-{text}: {score.name} takes no number: write {score.name}")
    return score


def _count(text: str, name: str, *, usual: int) -> int:
    if not text:
        return usual
    if not (text.isdecimal() and len(text) < 10 and 0 < int(text) <= _MOST_COUNT):
        raise ValueError(
            f"unknown score {name}-{short(text)}, expected {name}, or {name}-N with a whole number N above 0, at "
            f"most {_MOST_COUNT:,}"
        )
    return int(text)
