"""The settings of the experiment on pretraining, and the names of what it measures."""
# Imports no torch, so that the command starts fast.

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from condvae.runtime.checks import check_seed, check_whole, option_name
from condvae.training.presets import PRETRAIN_PRESETS, TRAIN_PRESETS

REVISION = 2
"""Version of the measurement code. Increase it whenever a change of the code changes results."""

SCRATCH = "scratch"
"""The name of the arm that trains all weights from random ones."""
COMPLETION = "completion"
"""The name of the condition in which y is the known pixels of an image with a freeform hole, as in the preset. All
other conditions are translations: observation processes as text, such as "edges"."""


class CurveMetric(NamedTuple):
    """A number that is measured at every snapshot of the main condition."""

    title: str
    digits: int
    """How many digits after the point tables show."""


METRICS = {
    "bits_per_dim": CurveMetric("-ELBO, bits/dim", 4),
    "fid": CurveMetric("FID", 2),
    "kid": CurveMetric("KID x 1,000", 2),
    "p_ids": CurveMetric("P-IDS, %", 2),
    "lpips_gt": CurveMetric("LPIPS-GT", 4),
    "diversity": CurveMetric("LPIPS diversity", 4),
}
"""All metrics of curves. Lower is better, except for P-IDS and diversity."""
_FOR_COMPLETION = ("bits_per_dim", "fid", "p_ids", "lpips_gt")
# Sets of pairs are small. FID is biased for few images, and KID is not. P-IDS is left out: with fewer images than
# features, the linear classifier behind it separates any two sets.
_FOR_TRANSLATION = ("bits_per_dim", "fid", "kid", "lpips_gt", "diversity")

TARGETS = {"hidden_nats": "hidden pixels", "whole_nats": "whole image"}
"""What the bound of held-out images can be of. It is measured after the last step of every training, with both."""


def metrics_for(condition: str) -> dict[str, CurveMetric]:
    """Return the metrics that are measured at every snapshot of a main condition."""
    return {name: METRICS[name] for name in (_FOR_COMPLETION if condition == COMPLETION else _FOR_TRANSLATION)}


def targets_for(condition: str) -> dict[str, str]:
    """Return the targets that differ under a main condition. All pixels are hidden in a translation."""
    return {name: title for name, title in TARGETS.items() if condition == COMPLETION or name == "whole_nats"}


def condition_of(result: Mapping[str, Any]) -> str:
    """Return the main condition of a result. Results without this setting are from completion."""
    return str(result["settings"].get("condition", COMPLETION))


_ALL_IF_0 = ("images", "bound_images")
"""Settings in which 0 means all images."""


@dataclass(frozen=True, kw_only=True)
class PretrainingSettings:
    """What is trained and measured. All arms have the same network, batch, observations and learning rate."""

    preset: str = "cifar10-small"
    """The preset of `condvae pretrain` and `condvae train` whose network and options all arms use, except that the
    learning rate stays constant after the warm-up."""
    condition: str = COMPLETION
    """The main condition, for which all metrics are measured: completion of freeform holes, or a translation, which is
    an observation process as text, such as edges. Details that a process leaves out at random in training are shown
    when it is measured."""
    seeds: int = 3
    """How many times each arm is trained, with the seeds 0, 1, ..."""
    steps: tuple[int, ...] = (1_250, 1_900, 3_000, 4_700, 7_300, 11_300)
    """After how many steps the arms with an artifact are measured. The last number ends the training."""
    scratch_steps: tuple[int, ...] = (620, 970, 1_500, 2_300, 3_600, 5_600, 11_300)
    """The same for the arm without pretraining, whose steps take longer."""
    conditions: tuple[str, ...] = ("grey", "low-resolution,factor=4", "label,classes=10")
    """Other observation processes, for which the first artifact is compared with training from scratch. Only the bound
    is measured for them, after one training of each."""
    condition_steps: tuple[int, ...] = (3_200, 6_400, 12_800)
    """After how many steps the models for the other conditions are measured, with an artifact."""
    scratch_condition_steps: tuple[int, ...] = (1_200, 2_400, 4_800)
    """The same without pretraining."""
    pace_steps: int = 900
    """How many steps a short training makes, before all others, to measure the time of a step. There is one for each
    condition, from scratch and with an artifact."""
    batch: int | None = None
    """How many images each update uses. If not given, as in the preset."""
    lr: float = 2e-3
    """The learning rate after the warm-up."""
    validation: int = 1_000
    """How many training images are held out from training."""
    images: int = 5_000
    """How many test images are completed or translated once, for FID and KID or P-IDS. 0 for all of the data set."""
    deep_images: int = 100
    """How many of them are answered n times, for LPIPS-GT and diversity."""
    n: int = 100
    """How many answers LPIPS-GT chooses the best of."""
    bound_images: int = 2_000
    """How many of the test images the bound is computed on. 0 for all of --images."""
    seed: int = 0
    """The seed of the holes and of the answers."""

    def __post_init__(self) -> None:
        if self.preset not in both_presets():
            raise ValueError(f"unknown preset {self.preset!r}, expected one of {', '.join(both_presets())}")
        for name, least in (
            ("seeds", 1), ("pace_steps", 4), ("validation", 1), ("images", 5), ("deep_images", 5),
            ("bound_images", 5), ("n", 1 if self.condition == COMPLETION else 2),
        ):  # fmt: skip
            if name not in _ALL_IF_0 or getattr(self, name) != 0:
                check_whole(getattr(self, name), option_name(name), least=least)
        check_seed(self.seed)
        for name in ("steps", "scratch_steps", "condition_steps", "scratch_condition_steps"):
            steps = getattr(self, name)
            if not steps or list(steps) != sorted(set(steps)):
                raise ValueError(f"{option_name(name)} is {steps}, expected numbers of steps in rising order")
            for step in steps:
                check_whole(step, option_name(name), least=1)
        if len({self.condition, *self.conditions}) < 1 + len(self.conditions):
            several = ", ".join(self.conditions)
            raise ValueError(f"--condition is {self.condition}, --conditions is {several}: give each condition once")
        for name in ("deep_images", "bound_images"):
            if self.images and getattr(self, name) > self.images:
                raise ValueError(
                    f"{option_name(name)} is {getattr(self, name)}, but --images is only {self.images}: give fewer"
                )

    def for_test_set(self, images: int) -> "PretrainingSettings":
        """Return the settings with numbers of images in place of 0. images: how many test images there are."""
        used = self.images or images
        return replace(self, images=used, bound_images=self.bound_images or used)

    @property
    def network(self) -> str:
        """The name of the network of all arms."""
        return str(PRETRAIN_PRESETS[self.preset]["network"])


def both_presets() -> list[str]:
    """List the presets that exist for pretraining and for training."""
    return [name for name in TRAIN_PRESETS if name in PRETRAIN_PRESETS]
