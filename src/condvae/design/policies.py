"""Ways to choose where to scan next, behind one interface: they see an observation, never the image behind it.

| policy | the paper's | images that are imagined |
|---|---|---|
| `Greedy` with completions, "eig" | EIG-IPA, EIG-CoModGAN | given what is known (eq:new-eig) |
| `Greedy` with completions, "epe" | EPE | given what is known (eq:old-eig) |
| `Greedy` with training images, shared | uncond | any |
| `NonGreedy` | non-greedy uncond | any, for all scans of a sequence together |
| `Random` | random | none |
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol, TypeAlias

import torch
from torch import Tensor

from condvae.design.candidates import Candidates
from condvae.design.classifier import Classifier, variable_of
from condvae.design.information import expected_posterior_entropy, information_gains
from condvae.design.lookahead import look_ahead
from condvae.design.sources import ImageSource
from condvae.observe import Observation
from condvae.observe.observation import observe_pixels
from condvae.runtime.checks import check_choice, check_whole
from condvae.runtime.seeds import Seeds

Estimator: TypeAlias = Literal["eig", "epe"]
ESTIMATORS: tuple[Estimator, ...] = ("eig", "epe")

_NUMBERS_AT_ONCE = 2**24
"""Probabilities from which gains are computed together, in float64 and about six copies: it bounds the memory."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Choice:
    """Where to scan next, and why."""

    index: Tensor
    """[B] int64 into the candidates."""
    scores: Tensor | None = None
    """[B, L]: what was maximised."""
    gains: Tensor | None = None
    """[B, N, L] nats: what each imagined image would tell at each candidate (eq:ig)."""
    images: Tensor | None = None
    """[B, N, C, H, W] uint8: the imagined images; a view where they are the same for all."""


class Policy(Protocol):
    """Chooses one candidate for each observation."""

    @property
    def name(self) -> str:
        """What a table calls it."""

    def choose(self, observation: Observation, step: int, *, seed: int, places: Sequence[int]) -> Choice:
        """The scan after `step` others. It depends on the observation, the step, the seed and the place alone."""


class FirstLooks:
    """What g would say after a first scan, while nothing is known: the same for all places, tasks and estimators.

    Policies that are given the same object share the work.
    """

    def __init__(self) -> None:
        self._seen: dict[tuple[object, ...], tuple[Tensor, Tensor, object]] = {}

    def __call__(
        self, greedy: "Greedy", source: ImageSource, n: int, nothing: Observation, seed: int
    ) -> tuple[Tensor, Tensor]:
        """Images [1, N, C, H, W] and log g [1, N, L, V, K]."""
        made_of = (greedy.classifier, greedy.candidates, source)
        key = (*map(id, made_of), n, seed, nothing.y.device)
        if key not in self._seen:
            images = source.imagine(nothing, n, Seeds(seed, "first images")(0), [0])
            log_p = look_ahead(greedy.classifier, images, _known(nothing), greedy.candidates, at_once=greedy.at_once)
            self._seen[key] = images, log_p, made_of  # what is kept keeps its id to itself
        images, log_p, _ = self._seen[key]
        return images, log_p


@dataclass(frozen=True, kw_only=True, eq=False)
class Greedy:
    """The scan that tells most about v by itself, as g judges of imagined images."""

    name: str
    classifier: Classifier
    candidates: Candidates
    variable: int
    """v, among the classifier's."""
    source: ImageSource
    n: int = 10
    """Images imagined for each observation."""
    estimator: Estimator = "eig"
    first: ImageSource | None = None
    """Asked once for all observations before anything is known; if None, the source is, for each."""
    first_n: int | None = None
    """Images imagined then; n if None."""
    shared: bool = False
    """One draw of images for all places and steps, whatever is observed: one sequence of scans for everybody."""
    at_once: int | None = None
    """Evaluations in one call of the classifier."""
    looks: FirstLooks = field(default_factory=FirstLooks)
    _plans: dict[object, "_Plan"] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        variable_of(self.classifier, self.variable)
        check_whole(self.n, "the number of imagined images", least=1)
        if self.first_n is not None:
            check_whole(self.first_n, "the number of images for the first scan", least=1)
        check_choice(self.estimator, "the estimator", ESTIMATORS)
        if self.shared and self.first is not None:
            raise ValueError(f"{self.name} shares its images between all scans, so the first can have no others")

    def choose(self, observation: Observation, step: int, *, seed: int, places: Sequence[int]) -> Choice:
        known = _known(observation)
        if self.shared:
            return self._planned(observation, step, seed)
        if self.first is not None and step == 0 and not known.any():
            n = self.first_n or self.n
            images, log_p = self.looks(self, self.first, n, nothing_known(observation), seed)
            log_p = log_p[..., self.variable, :]
        else:
            images = self.source.imagine(observation, self.n, Seeds(seed, "imagined images")(step), places)
            log_p = self._foresee(images, known)
        return self._best(images, log_p, known, step, seed, places)

    def _foresee(self, images: Tensor, known: Tensor) -> Tensor:
        return look_ahead(self.classifier, images, known, self.candidates, variable=self.variable, at_once=self.at_once)

    def _best(
        self, images: Tensor, log_p: Tensor, known: Tensor, step: int, seed: int, places: Sequence[int]
    ) -> Choice:
        """Judge [B, N, L, K], or [1, N, L, K] if it is the same for all."""
        gains, scores = self._judged(log_p.transpose(0, 1))
        scores = scores.expand(len(known), -1)
        new = self.candidates.new(known.to(scores.device))
        return Choice(
            index=_highest(scores, new, step=step, seed=seed, places=places),
            scores=scores,
            gains=gains.transpose(0, 1).expand(len(known), -1, -1),
            images=images.expand(len(known), -1, -1, -1, -1),
        )

    def _judged(self, log_p: Tensor) -> tuple[Tensor, Tensor]:
        """Gains [N, B, L] and scores [B, L] for log g [N, B, L, K], some locations at a time."""
        n, batch, _, outcomes = log_p.shape
        gains, scores = [], []
        for part in log_p.split(max(1, _NUMBERS_AT_ONCE // (n * batch * outcomes)), dim=2):
            gains.append(information_gains(part))
            scores.append(gains[-1].mean(dim=0) if self.estimator == "eig" else -expected_posterior_entropy(part))
        if len(gains) == 1:
            return gains[0], scores[0]
        return torch.cat(gains, dim=2), torch.cat(scores, dim=1)

    def _planned(self, observation: Observation, step: int, seed: int) -> Choice:
        """The choice of everybody, computed when it is first asked for."""
        key = (seed, observation.y.device)
        if key not in self._plans:
            nothing = nothing_known(observation)
            images = self.source.imagine(nothing, self.n, Seeds(seed, "imagined images")(0), [0])
            self._plans[key] = _Plan(images=images, known=[_known(nothing).to(images.device)])
        plan = self._plans[key]
        while len(plan.choices) <= step:
            known = plan.known[-1]
            found = self._best(plan.images, self._foresee(plan.images, known), known, len(plan.choices), seed, [0])
            plan.choices.append(found)
            plan.known.append(known | self.candidates.windows.to(known.device)[found.index])
        _check_planned(self.name, _known(observation), plan.known[step])
        found, b = plan.choices[step], len(observation)
        assert found.scores is not None and found.gains is not None and found.images is not None
        return Choice(
            index=found.index.expand(b),
            scores=found.scores.expand(b, -1),
            gains=found.gains.expand(b, -1, -1),
            images=found.images.expand(b, -1, -1, -1, -1),
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class _Plan:
    """The scans of everybody so far."""

    images: Tensor
    """[1, N, C, H, W] uint8."""
    known: list[Tensor]
    """[1, 1, H, W] before each step, and after the last."""
    choices: list[Choice] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True, eq=False)
class Random:
    """Any candidate that would show something new, each as likely."""

    candidates: Candidates
    name: str = "random"

    def choose(self, observation: Observation, step: int, *, seed: int, places: Sequence[int]) -> Choice:
        new = self.candidates.new(_known(observation))
        return Choice(
            index=_highest(torch.zeros_like(new, dtype=torch.float64), new, step=step, seed=seed, places=places)
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class NonGreedy:
    """The best of some random sequences of scans for all images: that which leaves g least in doubt at its end.

    U^non-greedy, less the entropy before any scan, which is the same for all sequences.
    """

    classifier: Classifier
    candidates: Candidates
    variable: int
    source: ImageSource
    n: int = 10
    sequences: int = 289
    """As many as a greedy policy compares at every step."""
    steps: int = 5
    """Scans of a sequence."""
    name: str = "non-greedy uncond"
    at_once: int | None = None
    _plans: dict[object, Tensor] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        variable_of(self.classifier, self.variable)
        check_whole(self.n, "the number of imagined images", least=1)
        check_whole(self.sequences, "the number of sequences", least=1)
        check_whole(self.steps, "the number of scans", least=1)
        if self.steps > len(self.candidates):
            raise ValueError(f"{self.steps} different scans are to be planned, but there are {len(self.candidates)}")

    def choose(self, observation: Observation, step: int, *, seed: int, places: Sequence[int]) -> Choice:
        if step >= self.steps:
            raise ValueError(
                f"{self.name} has planned {self.steps} scans and was asked for scan {step + 1}: plan more steps"
            )
        plan, known = self.plan(observation, seed), _known(observation)
        before = self.candidates.windows.to(known.device)[plan[:step]].any(dim=0, keepdim=True)
        _check_planned(self.name, known, before)
        return Choice(index=plan[step].expand(len(known)))

    def plan(self, observation: Observation, seed: int) -> Tensor:
        """[steps] int64: the sequence for this seed; of the observation, its size and device alone matter."""
        key = (seed, observation.y.device)
        if key not in self._plans:
            nothing = nothing_known(observation)
            images = self.source.imagine(nothing, self.n, Seeds(seed, "imagined images")(0), [0])
            dice = Seeds(seed, "sequences of scans").generator(0)
            drawn = [torch.randperm(len(self.candidates), generator=dice)[: self.steps] for _ in range(self.sequences)]
            sequences = torch.stack(drawn).to(images.device)
            shown = self.candidates.windows.to(images.device)[sequences].any(dim=1)
            log_p = look_ahead(
                self.classifier,
                images,
                _known(nothing),
                Candidates(windows=shown),
                variable=self.variable,
                at_once=self.at_once,
            )
            doubt = expected_posterior_entropy(log_p[0])
            self._plans[key] = sequences[doubt.argmin()]
        return self._plans[key]


def check_seed(seed: object) -> None:
    """Raise a ValueError unless it is a whole number from 0, of any length."""
    if not isinstance(seed, int) or isinstance(seed, bool) or seed < 0:
        raise ValueError(f"the seed is {seed!r}, expected a whole number from 0")


def nothing_known(like: Observation) -> Observation:
    """An observation of one image of the same size, of which nothing is known."""
    assert like.pixels is not None
    pixels = torch.zeros_like(like.pixels[:1])
    return observe_pixels(pixels, torch.zeros_like(pixels[:, :1], dtype=torch.bool), lambda images: images)


def _known(observation: Observation) -> Tensor:
    if observation.known is None or observation.pixels is None:
        raise ValueError("the observation does not say which pixels are known: observe known pixels to scan others")
    return observation.known


def _highest(scores: Tensor, new: Tensor, *, step: int, seed: int, places: Sequence[int]) -> Tensor:
    """[B] int64: the highest score among candidates that show something new; one of several at random."""
    if len(places) != len(scores):
        raise ValueError(f"{len(places)} places were given for {len(scores)} observations, expected one for each")
    left = new.any(dim=1)
    if not left.all():
        place = places[int((~left).nonzero()[0])]
        which = f" (observation {place})" if len(places) > 1 else ""
        raise ValueError(f"nothing is left to scan{which}: every candidate shows only pixels that are known already")
    scores = scores.where(new, -torch.inf)
    seeds = Seeds(Seeds(seed, "scans")(step), "places")
    draws = [torch.rand(scores.shape[1], generator=seeds.generator(place), dtype=torch.float64) for place in places]
    best = scores == scores.amax(dim=1, keepdim=True)
    return torch.stack(draws).to(scores.device).where(best, -1.0).argmax(dim=1)


def _check_planned(name: str, known: Tensor, expected: Tensor) -> None:
    """Raise a ValueError unless everybody has seen what the plan has shown."""
    if not torch.equal(known, expected.to(known.device).expand_as(known)):
        raise ValueError(
            f"{name} plans the same scans for all images from the first on, but other pixels are known of one: begin "
            "with nothing known and follow it, or take a policy that looks at what is known"
        )
