"""The settings of the experiment on pretraining, and the names of what it measures."""
# Imports no torch, so that the command starts fast.

from dataclasses import dataclass
from typing import NamedTuple

from condvae.runtime.checks import check_seed, check_whole, option_name
from condvae.training.presets import PRETRAIN_PRESETS, TRAIN_PRESETS

REVISION = 2
"""Version of the measurement code. Increase it whenever a change of the code changes results."""

SCRATCH = "scratch"
"""The name of the arm that trains all weights from random ones."""
COMPLETION = "completion"
"""The name of the main condition: y is the known pixels of an image with a freeform hole, as in the preset."""


class CurveMetric(NamedTuple):
    """A number that is measured at every snapshot of the main condition."""

    title: str
    digits: int
    """How many digits after the point tables show."""


METRICS = {
    "bits_per_dim": CurveMetric("-ELBO, bits/dim", 4),
    "fid": CurveMetric("FID", 2),
    "p_ids": CurveMetric("P-IDS, %", 2),
    "lpips_gt": CurveMetric("LPIPS-GT", 4),
}


TARGETS = {"hidden_nats": "hidden pixels", "whole_nats": "whole image"}
"""What the bound of held-out images can be of. It is measured after the last step of every training, with both."""


@dataclass(frozen=True, kw_only=True)
class PretrainingSettings:
    """What is trained and measured. All arms have the same network, batch, holes and learning rate."""

    preset: str = "cifar10-small"
    """The preset of `condvae pretrain` and `condvae train` whose network and options all arms use, except that the
    learning rate stays constant after the warm-up."""
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
    """How many training images are held out from training, as for the embedded model cifar10."""
    images: int = 5_000
    """How many test images are completed once, for FID and P-IDS."""
    deep_images: int = 100
    """How many of them are completed n times, for LPIPS-GT."""
    n: int = 100
    """How many completions LPIPS-GT chooses the best of."""
    bound_images: int = 2_000
    """How many of the test images the bound is computed on."""
    seed: int = 0
    """The seed of the holes and of the completions."""

    def __post_init__(self) -> None:
        if self.preset not in both_presets():
            raise ValueError(f"unknown preset {self.preset!r}, expected one of {', '.join(both_presets())}")
        for name, least in (
            ("seeds", 1), ("pace_steps", 4), ("validation", 1), ("images", 5), ("deep_images", 5), ("n", 1),
            ("bound_images", 5),
        ):  # fmt: skip
            check_whole(getattr(self, name), option_name(name), least=least)
        check_seed(self.seed)
        for name in ("steps", "scratch_steps", "condition_steps", "scratch_condition_steps"):
            steps = getattr(self, name)
            if not steps or list(steps) != sorted(set(steps)):
                raise ValueError(f"{option_name(name)} is {steps}, expected numbers of steps in rising order")
            for step in steps:
                check_whole(step, option_name(name), least=1)
        if len(set(self.conditions)) < len(self.conditions):
            raise ValueError(f"--conditions is {', '.join(self.conditions)}: give each condition once")
        for name in ("deep_images", "bound_images"):
            if getattr(self, name) > self.images:
                raise ValueError(
                    f"{option_name(name)} is {getattr(self, name)}, but --images is only {self.images}: give fewer"
                )

    @property
    def network(self) -> str:
        """The name of the network of all arms."""
        return str(PRETRAIN_PRESETS[self.preset]["network"])


def both_presets() -> list[str]:
    """List the presets that exist for pretraining and for training."""
    return [name for name in TRAIN_PRESETS if name in PRETRAIN_PRESETS]
