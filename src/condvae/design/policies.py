"""Policies, which choose the next location to scan. They see only an observation, never the whole image.

Most policies evaluate the classifier on possible images, which are completions or training images:

| policy | name in the paper | possible images | criterion |
|---|---|---|---|
| `Greedy`, estimator "eig" | EIG-IPA, EIG-CoModGAN | completions | EIG (the paper's eq:new-eig) |
| `Greedy`, estimator "epe" | EPE | completions | EPE (the paper's eq:old-eig) |
| `Greedy`, shared=True | uncond | training images, the same for all observations | EIG |
| `NonGreedy` | non-greedy uncond | training images, the same for all observations | EPE after several scans |
| `Random` | random | none | none |
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import torch
from torch import Tensor

from condvae.design.candidates import Candidates
from condvae.design.classifier import Classifier, variable_of
from condvae.design.information import expected_posterior_entropy, information_gains
from condvae.design.lookahead import look_ahead
from condvae.design.scan_settings import ESTIMATORS, Estimator
from condvae.design.sources import ImageSource
from condvae.observe import Observation
from condvae.observe.observation import observe_pixels
from condvae.runtime.checks import check_choice, check_whole
from condvae.runtime.seeds import Seeds

_NUMBERS_AT_ONCE = 2**24
"""The most probabilities whose information gains are computed together. This limits memory, because the computation
needs about six float64 numbers per probability."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Choice:
    """The next location for each observation, and the estimates behind that choice."""

    index: Tensor
    """[B] int64: for each observation, the index of the chosen location among the candidates."""
    scores: Tensor | None = None
    """[B, L]: the quantity that was maximised, for each observation and location."""
    gains: Tensor | None = None
    """[B, N, L] nats: the information gain of a scan at each location if possible image n (a completion or a
    training image) were the true image (the paper's eq:ig)."""
    images: Tensor | None = None
    """[B, N, C, H, W] uint8: the possible images (completions or training images) of each observation. If all
    observations share them, this is an expanded view."""


class Policy(Protocol):
    """Chooses one location for each observation."""

    @property
    def name(self) -> str:
        """Name of the policy in tables."""

    def choose(self, observation: Observation, step: int, *, seed: int, places: Sequence[int]) -> Choice:
        """Choose the location of scan number `step`, counted from 0, for each observation.

        places: one number per observation, which identifies the observation in random draws. The choice for an
        observation depends only on that observation, its place, the step and the seed.
        """


class FirstScanCache:
    """A cache of the classifier's predictions after each possible first scan.

    No pixel is known before the first scan, so these predictions are the same for all images, tasks and estimators.
    Policies that share a cache compute them only once.
    """

    def __init__(self) -> None:
        self._seen: dict[tuple[object, ...], tuple[Tensor, Tensor, object]] = {}

    def __call__(
        self, greedy: "Greedy", source: ImageSource, n: int, nothing: Observation, seed: int
    ) -> tuple[Tensor, Tensor]:
        """Return possible images [1, N, C, H, W], and predictions log g [1, N, L, V, K] after each possible scan l."""
        made_of = (greedy.classifier, greedy.candidates, source)
        key = (*map(id, made_of), n, seed, nothing.y.device)
        if key not in self._seen:
            images = source.imagine(nothing, n, Seeds(seed, "first images")(0), [0])
            log_p = look_ahead(greedy.classifier, images, _known(nothing), greedy.candidates, at_once=greedy.at_once)
            self._seen[key] = images, log_p, made_of  # keep the objects alive, so that their ids stay unique
        images, log_p, _ = self._seen[key]
        return images, log_p


@dataclass(frozen=True, kw_only=True, eq=False)
class Greedy:
    """Chooses the single scan that is expected to reduce the uncertainty of the classifier g about the variable v most.

    The expectation is a mean over possible images, which are completions or training images.
    """

    name: str
    classifier: Classifier
    candidates: Candidates
    variable: int
    """Index of v among the classifier's variables."""
    source: ImageSource
    """Draws the possible images, which are completions or training images."""
    n: int = 10
    """Number of possible images (completions or training images) per observation."""
    estimator: Estimator = "eig"
    first: ImageSource | None = None
    """Draws the possible images for the first scan, once for all observations. If None, `source` draws images for the
    first scan too, for each observation."""
    first_n: int | None = None
    """Number of images that `first` draws; n if None."""
    shared: bool = False
    """Draw possible images only once, for all observations and steps. Every observed image then gets the same scans."""
    at_once: int | None = None
    """Number of inputs in one call of the classifier. If None, it depends on the device."""
    first_scans: FirstScanCache = field(default_factory=FirstScanCache)
    """Cache of the classifier's predictions after each possible first scan."""
    _plans: dict[object, "_Plan"] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        variable_of(self.classifier, self.variable)
        check_whole(self.n, "the number n of completions or training images", least=1)
        if self.first_n is not None:
            check_whole(self.first_n, "the number of images for the first scan", least=1)
        check_choice(self.estimator, "the estimator", ESTIMATORS)
        if self.shared and self.first is not None:
            raise ValueError(f"{self.name} uses the same images for all scans: leave out `first`, or set shared=False")

    def choose(self, observation: Observation, step: int, *, seed: int, places: Sequence[int]) -> Choice:
        known = _known(observation)
        if self.shared:
            return self._shared_choice(observation, step, seed)
        if self.first is not None and step == 0 and not known.any():
            n = self.first_n or self.n
            images, log_p = self.first_scans(self, self.first, n, nothing_known(observation), seed)
            log_p = log_p[..., self.variable, :]
        else:
            images = self.source.imagine(observation, self.n, Seeds(seed, "imagined images")(step), places)
            log_p = self._predict(images, known)
        return self._best(images, log_p, known, step, seed, places)

    def _predict(self, images: Tensor, known: Tensor) -> Tensor:
        """Predict log g [B, N, L, K] of the variable for each possible image n, after each possible scan l."""
        return look_ahead(self.classifier, images, known, self.candidates, variable=self.variable, at_once=self.at_once)

    def _best(
        self, images: Tensor, log_p: Tensor, known: Tensor, step: int, seed: int, places: Sequence[int]
    ) -> Choice:
        """Choose the best location of each observation.

        log_p: the predictions log g [B, N, L, K], or [1, N, L, K] if all observations share them.
        """
        gains, scores = self._scores(log_p.transpose(0, 1))
        scores = scores.expand(len(known), -1)
        new = self.candidates.new(known.to(scores.device))
        return Choice(
            index=_highest(scores, new, step=step, seed=seed, places=places),
            scores=scores,
            gains=gains.transpose(0, 1).expand(len(known), -1, -1),
            images=images.expand(len(known), -1, -1, -1, -1),
        )

    def _scores(self, log_p: Tensor) -> tuple[Tensor, Tensor]:
        """Compute information gains [N, B, L] and scores [B, L] from log g [N, B, L, K], a few locations at a time."""
        n, batch, _, outcomes = log_p.shape
        gains, scores = [], []
        for part in log_p.split(max(1, _NUMBERS_AT_ONCE // (n * batch * outcomes)), dim=2):
            gains.append(information_gains(part))
            scores.append(gains[-1].mean(dim=0) if self.estimator == "eig" else -expected_posterior_entropy(part))
        if len(gains) == 1:
            return gains[0], scores[0]
        return torch.cat(gains, dim=2), torch.cat(scores, dim=1)

    def _shared_choice(self, observation: Observation, step: int, seed: int) -> Choice:
        """Return the choice for scan number `step`, which all observations share; compute it on first use."""
        key = (seed, observation.y.device)
        if key not in self._plans:
            nothing = nothing_known(observation)
            images = self.source.imagine(nothing, self.n, Seeds(seed, "imagined images")(0), [0])
            self._plans[key] = _Plan(images=images, known=[_known(nothing).to(images.device)])
        plan = self._plans[key]
        while len(plan.choices) <= step:
            known = plan.known[-1]
            found = self._best(plan.images, self._predict(plan.images, known), known, len(plan.choices), seed, [0])
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
    """The scans planned so far, which are the same for all images."""

    images: Tensor
    """[1, N, C, H, W] uint8: the possible images that are used for all scans."""
    known: list[Tensor]
    """The pixels [1, 1, H, W] that are known before each planned scan, and after the last one."""
    choices: list[Choice] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True, eq=False)
class Random:
    """Chooses uniformly among the locations whose window contains a hidden pixel."""

    candidates: Candidates
    name: str = "random"

    def choose(self, observation: Observation, step: int, *, seed: int, places: Sequence[int]) -> Choice:
        new = self.candidates.new(_known(observation))
        return Choice(
            index=_highest(torch.zeros_like(new, dtype=torch.float64), new, step=step, seed=seed, places=places)
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class NonGreedy:
    """Scans all images with the same sequence: of several random sequences, the one with the lowest EPE at its end.

    This maximises the paper's objective U^non-greedy over these sequences: the entropy before any scan, which is the
    same for all sequences, minus the EPE.
    """

    classifier: Classifier
    candidates: Candidates
    variable: int
    source: ImageSource
    n: int = 10
    sequences: int = 289
    """Number of random sequences to compare. By default it is the number of locations of a 17 x 17 grid, which a greedy
    policy compares at each step."""
    steps: int = 5
    """Number of scans in a sequence."""
    name: str = "non-greedy uncond"
    at_once: int | None = None
    _plans: dict[object, Tensor] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        variable_of(self.classifier, self.variable)
        check_whole(self.n, "the number n of completions or training images", least=1)
        check_whole(self.sequences, "the number of sequences", least=1)
        check_whole(self.steps, "the number of scans", least=1)
        if self.steps > len(self.candidates):
            raise ValueError(
                f"a sequence has {self.steps} different scans, but there are only {len(self.candidates)} candidates: "
                "give fewer steps"
            )

    def choose(self, observation: Observation, step: int, *, seed: int, places: Sequence[int]) -> Choice:
        if step >= self.steps:
            raise ValueError(
                f"{self.name} has planned only {self.steps} scans, but scan {step + 1} was requested: "
                "give the policy more steps"
            )
        plan, known = self.plan(observation, seed), _known(observation)
        before = self.candidates.windows.to(known.device)[plan[:step]].any(dim=0, keepdim=True)
        _check_planned(self.name, known, before)
        return Choice(index=plan[step].expand(len(known)))

    def plan(self, observation: Observation, seed: int) -> Tensor:
        """Return the planned sequence for a seed: indices of candidates, [steps] int64.

        Of the observation, only its size and device are used.
        """
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
            left = expected_posterior_entropy(log_p[0])
            self._plans[key] = sequences[left.argmin()]
        return self._plans[key]


def check_seed(seed: object) -> None:
    """Raise a ValueError unless the seed is a whole number, 0 or more. Unlike other seeds, it may exceed 64 bits."""
    if not isinstance(seed, int) or isinstance(seed, bool) or seed < 0:
        raise ValueError(f"the seed is {seed!r}, expected a whole number, 0 or more")


def nothing_known(like: Observation) -> Observation:
    """Make an observation of one image without known pixels, of the same size as `like`."""
    assert like.pixels is not None
    pixels = torch.zeros_like(like.pixels[:1])
    return observe_pixels(pixels, torch.zeros_like(pixels[:, :1], dtype=torch.bool), lambda images: images)


def _known(observation: Observation) -> Tensor:
    if observation.known is None or observation.pixels is None:
        raise ValueError("the observation does not state which pixels are known: make it with model.observe(x, known)")
    return observation.known


def _highest(scores: Tensor, new: Tensor, *, step: int, seed: int, places: Sequence[int]) -> Tensor:
    """Return the index [B] of each observation's highest score among candidates with a hidden pixel.

    Ties are broken at random. new: [B, L] bool, whether each candidate has a hidden pixel.
    """
    if len(places) != len(scores):
        raise ValueError(
            f"there are {len(places)} places, the numbers that identify observations in random draws, for "
            f"{len(scores)} observations: give one place per observation"
        )
    left = new.any(dim=1)
    if not left.all():
        place = places[int((~left).nonzero()[0])]
        which = f" (observation {place})" if len(places) > 1 else ""
        raise ValueError(f"nothing is left to scan{which}: all pixels of every candidate are known already")
    scores = scores.where(new, -torch.inf)
    seeds = Seeds(Seeds(seed, "scans")(step), "places")
    draws = [torch.rand(scores.shape[1], generator=seeds.generator(place), dtype=torch.float64) for place in places]
    best = scores == scores.amax(dim=1, keepdim=True)
    return torch.stack(draws).to(scores.device).where(best, -1.0).argmax(dim=1)


def _check_planned(name: str, known: Tensor, expected: Tensor) -> None:
    """Raise a ValueError unless the known pixels of every image are those that the planned scans so far have shown."""
    if not torch.equal(known, expected.to(known.device).expand_as(known)):
        raise ValueError(
            f"{name} plans the same scans for all images, but the known pixels of an image do not match the plan: "
            "start with no known pixels and take every planned scan, or use a policy that adapts to the known pixels"
        )
