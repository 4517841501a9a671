"""The plan of a comparison: its settings, and the meaning of policy names."""
# This file must not import torch: the command line reads its defaults here and has to start fast.

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from condvae.runtime.checks import check_resamples, check_seed, check_whole

if TYPE_CHECKING:
    from condvae.design.policies import Estimator

REVISION = 1
"""Revision of the scanning code. Raise it when results change, so that results of older code are computed again."""

PAPER_TASKS = ("edema", "effusion", "infiltration", "no finding")
TASKS = (*PAPER_TASKS, "atelectasis", "cardiomegaly")
OURS = "eig-ipa"
"""The policy that all others are compared with."""
FULL = "full"
"""The reference policy: g sees the whole image."""
POLICIES = (OURS, "epe-ipa", "eig-nearest", "random", "uncond", "uncond-1000", "non-greedy", FULL)
IPA, NEAREST = "ipa", "nearest"
"""Built-in completers: the model, and the nearest training images."""

_MANY = 100
"""From this many training images on, another random draw would change little, so one try is enough."""

PolicyKind: TypeAlias = Literal["completions", "uncond", "non-greedy", "random", "full"]


class PolicySpec(NamedTuple):
    """The meaning of a policy's name."""

    name: str
    kind: PolicyKind
    estimator: "Estimator" = "eig"
    completer: str | None = None
    n: int = 0
    """Imagined images per observation; 0 if the policy uses none."""

    @property
    def depends_on_task(self) -> bool:
        """Whether the chosen locations depend on the task."""
        return self.kind not in ("random", "full")


@dataclass(frozen=True, kw_only=True)
class DesignSettings:
    """The settings of a comparison, which are the same for all policies."""

    tasks: tuple[str, ...] = TASKS
    """What is diagnosed, each by scans of its own: findings, or "no finding"."""
    policies: tuple[str, ...] = POLICIES
    """Who chooses. eig-ipa, epe-ipa: by completions of the model, by the expected information gain or entropy.
    eig-nearest: by the nearest training images. uncond, uncond-N: by n or N training images whatever is seen.
    non-greedy: the best of some random sequences. random. full: nobody, the whole image is seen."""
    steps: int = 5
    """Scans of each image."""
    n: int = 10
    """Completions of each image."""
    first_n: int = 1000
    """Training images by which the first scan is chosen, the same for all policies, as nothing is known before it."""
    points: int = 17
    """Locations along each side of the grid."""
    side: float = 0.25
    """Side of a window, as a share of the image's; the classifier should have been trained on such windows."""
    images: int | None = None
    """How many test images, evenly over all; all of them if there are fewer."""
    repeats: int = 20
    """How often policies that depend on a few draws (random, non-greedy, uncond with fewer than 100 images) are tried,
    with new draws; their AUROCs are averaged."""
    seed: int = 0
    """Decides everything that is drawn at random; the same seed gives the same result."""
    resamples: int = 1000
    """Bootstrap resamples for confidence intervals."""

    def __post_init__(self) -> None:
        for name, value, least in (
            ("the number of scans", self.steps, 1),
            ("n, the number of imagined images,", self.n, 1),
            ("the number of images for the first scan", self.first_n, 1),
            ("the number of points along a side", self.points, 2),
            ("the number of repeats", self.repeats, 1),
        ):
            check_whole(value, name, least=least)
        check_seed(self.seed)
        check_resamples(self.resamples)
        if self.images is not None:
            check_whole(self.images, "the number of images", least=1)
        if not 0 < self.side <= 1:
            raise ValueError(f"the side of a window is {self.side}, expected a share of the image's side, such as 0.25")
        if self.steps > self.points**2:
            raise ValueError(
                f"{self.steps} scans do not fit {self.points**2} locations: give fewer --steps or more --points"
            )
        if not self.policies:
            raise ValueError(f"no policies were given: choose from {', '.join(POLICIES)}")
        for policy in self.policies:
            self.spec(policy)
        if len(set(self.policies)) < len(self.policies):
            raise ValueError(f"a policy is repeated in {', '.join(self.policies)}: give each policy once")

    def spec(self, policy: str) -> PolicySpec:
        """Parse a policy name: eig-NAME and epe-NAME use the completer NAME, uncond-N uses N training images."""
        head, dash, tail = policy.partition("-")
        if head in ("eig", "epe") and tail:
            return PolicySpec(policy, "completions", "eig" if head == "eig" else "epe", tail, self.n)
        if head == "uncond" and (re.fullmatch("[1-9][0-9]{,5}", tail) or not dash):
            return PolicySpec(policy, "uncond", n=int(tail) if dash else self.n)
        if policy == "non-greedy":
            return PolicySpec(policy, "non-greedy", n=self.n)
        if policy == "random":
            return PolicySpec(policy, "random")
        if policy == FULL:
            return PolicySpec(policy, "full")
        raise ValueError(
            f"unknown policy {policy!r}: choose from {', '.join(POLICIES)}, or eig-NAME for another completer"
        )

    def tries(self, spec: PolicySpec) -> int:
        """Number of tries with new random draws, whose AUROCs are averaged."""
        few = spec.kind == "uncond" and spec.n < _MANY
        return self.repeats if few or spec.kind in ("random", "non-greedy") else 1
