"""How ordinary an observation is to a model: scores by name. Higher is more ordinary, in whatever unit."""

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


class Score(Protocol):
    """Features of observations, and whether they are the score or a density fitted to those of training images is."""

    @property
    def name(self) -> str: ...

    @property
    def fitted(self) -> bool:
        """True: the score is the log-density of the features. False: it is the one feature."""

    @property
    def kind(self) -> EncoderKind | None:
        """Which inference it wants; None: any."""

    def features(self, inference: Inference, observation: Observation, seeds: Sequence[int]) -> Tensor:
        """[B, F]: of each observation, on the model's device, with the randomness of its seed."""


@dataclass(frozen=True, kw_only=True)
class _Walked:
    """A score by walks down the decoder."""

    title: ClassVar[str]
    fitted: ClassVar[bool] = True
    kind: ClassVar[EncoderKind | None] = None
    walks: int = 1
    """Of which the features are means."""

    def __post_init__(self) -> None:
        check_whole(self.walks, "the number of walks", least=1)

    @property
    def name(self) -> str:
        return self.title if self.walks == 1 else f"{self.title}-{self.walks}"


@dataclass(frozen=True, kw_only=True)
class Walk(_Walked):
    """What a walk tells of groups: of it the scores below are made, so that they can be had together."""

    title: ClassVar[str] = "walk"

    def features(self, inference: Inference, observation: Observation, seeds: Sequence[int]) -> Tensor:
        """[B, 2 L + 1]: shift and spread of all groups, and the bound on log p(y) in nats."""
        gradient, nats = gradient_and_bound(inference, observation, noise=seeds, walks=self.walks)
        return torch.cat((gradient.shift, gradient.spread, nats[:, None]), dim=1)


@dataclass(frozen=True, kw_only=True)
class _OfWalk(_Walked, ABC):
    """A score that some columns of a `Walk` give."""

    @property
    def source(self) -> Walk:
        """What can be measured in its place, for other scores too."""
        return Walk(walks=self.walks)

    @abstractmethod
    def of_source(self, values: DensityValues) -> DensityValues:
        """[N, F] features from those of the source, [N, 2 L + 1]."""


@dataclass(frozen=True, kw_only=True)
class Gradient(_OfWalk):
    """The temperature gradient, one feature per latent group: the paper's score."""

    title: ClassVar[str] = "gradient"

    def features(self, inference: Inference, observation: Observation, seeds: Sequence[int]) -> Tensor:
        return temperature_gradient(inference, observation, noise=seeds, walks=self.walks).total

    def of_source(self, values: DensityValues) -> DensityValues:
        groups = values.shape[1] // 2
        return values[:, :groups] + values[:, groups:-1]


@dataclass(frozen=True, kw_only=True)
class GradientParts(_OfWalk):
    """The two terms of the temperature gradient apart, 2 L features: where one is large and the other small, their sum
    may look ordinary.
    """

    title: ClassVar[str] = "parts"

    def features(self, inference: Inference, observation: Observation, seeds: Sequence[int]) -> Tensor:
        gradient = temperature_gradient(inference, observation, noise=seeds, walks=self.walks)
        return torch.cat((gradient.shift, gradient.spread), dim=1)

    def of_source(self, values: DensityValues) -> DensityValues:
        return values[:, :-1]


@dataclass(frozen=True, kw_only=True)
class GradientByChannel(_Walked):
    """The temperature gradient with a temperature for each channel of a latent group, L C features: channels tell
    different things of an image, and what is too much in one and too little in another is lost in their sum.
    """

    title: ClassVar[str] = "channels"

    def features(self, inference: Inference, observation: Observation, seeds: Sequence[int]) -> Tensor:
        return temperature_gradient(inference, observation, noise=seeds, walks=self.walks).by_channel.flatten(1)


@dataclass(frozen=True, kw_only=True)
class LikelihoodBound(_OfWalk):
    """The bound on log p(y), or on log p(x), in nats."""

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
"""Each from what follows its name and a dash, "" if nothing does."""


def score_of(name: str, *, completers: Mapping[str, Completer] | None = None) -> Score:
    """The score of a name: "gradient", or with four walks "gradient-4".

    completers: by their names, those that complete for scores such as "completed-nearest".
    """
    kind, _, rest = name.partition("-")
    if kind == "completed":
        from condvae.ood.completed import completed_of  # late: it is made of other scores

        return completed_of(rest, completers or {})
    if kind not in SCORES:
        raise ValueError(f"unknown score {name!r}, expected one of {', '.join(SCORES)}, completed")
    return SCORES[kind](rest)


def _alone(score: Score, text: str) -> Score:
    if text:
        raise ValueError(f"the score {score.name}-{text} cannot be read, expected {score.name} alone")
    return score


def _count(text: str, name: str, *, usual: int) -> int:
    if not text:
        return usual
    if not (text.isdecimal() and int(text)):
        raise ValueError(f"the score {name}-{text} cannot be read, expected {name} or {name}-4, with a number from 1")
    return int(text)
