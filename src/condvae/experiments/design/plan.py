"""The settings of a comparison of policies, and the meaning of policy names."""
# This file must not import torch: the command line reads its defaults here and has to start fast.

import re
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

from condvae.design.scan_settings import Estimator
from condvae.runtime.checks import check_resamples, check_seed, check_whole

REVISION = 1
"""Revision of the scanning code. Increase it when results change, so that older results are computed again."""

PAPER_TASKS = ("edema", "effusion", "infiltration", "no finding")
TASKS = (*PAPER_TASKS, "atelectasis", "cardiomegaly")
OURS = "eig-ipa"
"""The paper's policy, which all other policies are compared with."""
FULL = "full"
"""The reference without scans: the classifier sees the whole image."""
POLICY_MEANINGS = {
    OURS: "the highest expected information gain, EIG, computed with the model's completions",
    "epe-ipa": "the lowest expected posterior entropy, EPE, computed with the model's completions",
    "eig-nearest": "the highest EIG, computed with the nearest training images as completions",
    "random": "random locations",
    "uncond": "the highest EIG, computed with -n random training images, so that all images get the same scans",
    "uncond-1000": "as uncond, but with 1,000 training images; other numbers work too",
    "non-greedy": "the best of many random sequences of scans, the same sequence for all images",
    FULL: "no scans: the classifier is given the whole image",
}
"""How each policy of the default comparison chooses its scans."""
POLICIES = tuple(POLICY_MEANINGS)
IPA, NEAREST = "ipa", "nearest"
"""Names of the built-in completers: the model, and the nearest training images."""

MANY_IMAGES = 100
"""With at least this number of training images, another random draw of them would change a policy's results little."""


PolicyKind: TypeAlias = Literal["completions", "uncond", "non-greedy", "random", "full"]


class PolicySpec(NamedTuple):
    """How a policy chooses scans, as derived from its name."""

    name: str
    kind: PolicyKind
    estimator: Estimator = "eig"
    completer: str | None = None
    n: int = 0
    """Number of completions or training images per observation; 0 if the policy uses neither."""

    @property
    def depends_on_task(self) -> bool:
        """Whether the chosen locations depend on the task."""
        return self.kind not in ("random", "full")


@dataclass(frozen=True, kw_only=True)
class DesignSettings:
    """The settings of a comparison of policies. All policies use the same settings."""

    tasks: tuple[str, ...] = TASKS
    """The tasks: findings that the classifier predicts, or "no finding". Scans are chosen separately for each task."""
    policies: tuple[str, ...] = POLICIES
    """The policies to compare; see `POLICY_MEANINGS`. uncond-N uses N training images, and eig-NAME and epe-NAME use
    the completer NAME."""
    steps: int = 5
    """How many scans to make of each image."""
    n: int = 10
    """How many completions to use in order to choose each scan. The policies uncond and non-greedy use this many
    training images instead."""
    first_n: int = 1000
    """How many training images the policies eig-NAME and epe-NAME use to choose the first scan. They use training
    images instead of completions there, because no pixel is known yet; so the first scan is the same for all images."""
    points: int = 17
    """How many locations there are along each side of the image. The locations form a square grid."""
    side: float = 0.25
    """Side of the scan window, as a fraction of the image's side. The classifier should have been trained on windows of
    this size."""
    images: int | None = None
    """How many test images to use, spread evenly over the test set. If not given, all of them."""
    repeats: int = 20
    """How often to repeat policies whose scans depend on a few random draws (random, non-greedy, and uncond with fewer
    than `MANY_IMAGES` images). The AUROCs of the repetitions are averaged."""
    seed: int = 0
    """The seed of everything that is drawn at random; the same seed gives the same result."""
    resamples: int = 1000
    """How many bootstrap resamples to draw for confidence intervals."""

    def __post_init__(self) -> None:
        for name, value, least in (
            ("the number of scans", self.steps, 1),
            ("-n, the number of images for each choice,", self.n, 1),
            ("the number of images for the first scan", self.first_n, 1),
            ("the number of locations along a side", self.points, 2),
            ("the number of repeats", self.repeats, 1),
        ):
            check_whole(value, name, least=least)
        check_seed(self.seed)
        check_resamples(self.resamples)
        if self.images is not None:
            check_whole(self.images, "the number of images", least=1)
        if not 0 < self.side <= 1:
            raise ValueError(
                f"the side of a window is {self.side}, expected a fraction of the image's side, such as 0.25"
            )
        if self.steps > self.points**2:
            raise ValueError(
                f"--steps is {self.steps}, but the grid has only {self.points**2} locations: give fewer --steps or "
                "more --points"
            )
        if not self.policies:
            raise ValueError(f"no policies were given: choose some of {', '.join(POLICIES)}")
        for policy in self.policies:
            self.spec(policy)
        if len(set(self.policies)) < len(self.policies):
            raise ValueError(f"a policy is repeated in {', '.join(self.policies)}: give each policy once")

    def spec(self, policy: str) -> PolicySpec:
        """Return how a policy of this name chooses scans.

        eig-NAME and epe-NAME use the completer called NAME; uncond-N uses N training images.
        """
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
            f"unknown policy {policy!r}: choose from {', '.join(POLICIES)}, or eig-NAME for a completer called NAME"
        )

    def tries(self, spec: PolicySpec) -> int:
        """Return how many times a policy is run, each time with new random draws."""
        few = spec.kind == "uncond" and spec.n < MANY_IMAGES
        return self.repeats if few or spec.kind in ("random", "non-greedy") else 1
