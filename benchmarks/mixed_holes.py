"""Compare two ways to draw mixed holes in training steps: one kernel launch for all parts of the mixture, or one draw
for each part.

python benchmarks/mixed_holes.py --methods ipa ce anp pic --out mixed.json

Images and weights are random: the speed does not depend on them. rfr is timed without the losses on VGG features.
"""

import dataclasses
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[1]))
from benchmarks.clock import seconds
from condvae import kernels, observe
from condvae.completers.feature_reasoning import FeatureReasoningConfig
from condvae.completers.learned_baselines import make_completer, make_loss, named_config
from condvae.completers.learned_names import LEARNED_PRESETS
from condvae.conditional import ConditionalVAE, PartialConfig
from condvae.data import LevelBatch
from condvae.observe import KnownPixels
from condvae.runtime import fast_paths
from condvae.runtime.checks import check_choice
from condvae.runtime.ranks import World, join
from condvae.runtime.scripts import run_script
from condvae.runtime.versions import device_name, versions
from condvae.training.baseline_task import BaselineTraining
from condvae.training.capture import Capture, why_not_fused
from condvae.training.optimiser import Rule
from condvae.training.presets import TRAIN_PRESETS
from condvae.training.step import MicroBatch, TrainingPrecision, TrainingStep
from condvae.training.task import ConditionalTraining, TrainingTask
from condvae.vdvae import VDVAE, preset

FORMAT = "condvae benchmark of mixed holes"
IPA, NETWORK = "ipa", "cifar10-small"
FAST_PATH = "mixtures of holes"
_SIZE = 32


@dataclass(frozen=True, kw_only=True)
class Options:
    """Time training steps with mixed holes."""

    methods: tuple[str, ...] = (IPA, "ce", "anp", "pic", "rfr")
    """ipa, with the network cifar10-small, and names of learned baselines."""
    steps: int = 60
    """How many steps to time."""
    warm_up: int = 5
    """How many steps to take before."""
    batch: int | None = None
    """How many images each update uses. If not given, as in the preset of each method."""
    out: Path | None = None
    """Also write the numbers to this JSON file."""
    device: str = "auto"


def main(options: Options) -> None:
    for method in options.methods:
        check_choice(method, "--methods", (IPA, *LEARNED_PRESETS))
    found: dict[str, dict[str, float]] = {}
    with join(options.device) as world:
        for method in options.methods:
            with part_by_part():
                separate = images_per_second(method, world, options)
            together = images_per_second(method, world, options)
            found[method] = {"one launch": together, "part by part": separate}
            print(
                f"{method}: {together:,.0f} images/s with one launch, {separate:,.0f} part by part: "
                f"{together / separate:.2f} times as fast"
            )
        result = {
            "format": FORMAT, "images_per_second": found, "steps": options.steps, "versions": versions(),
            "device": device_name(world.device),
        }  # fmt: skip
    if options.out is not None:
        options.out.write_text(json.dumps(result, indent=1) + "\n")


@contextmanager
def part_by_part() -> Iterator[None]:
    """Context in which every part of a mixture draws by itself."""
    fast_paths.attach(FAST_PATH, lambda _: None)
    try:
        yield
    finally:
        fast_paths.attach(FAST_PATH, kernels.find_mixtures)


def task_of(method: str) -> TrainingTask:
    torch.manual_seed(0)
    process = observe.parse(TRAIN_PRESETS[NETWORK]["observe"])
    assert isinstance(process, KnownPixels)
    if method == IPA:
        partial = PartialConfig(channels=4, form=TRAIN_PRESETS[NETWORK]["form"])
        return ConditionalTraining(ConditionalVAE(VDVAE(preset(NETWORK)), partial, process=process).train(), process)
    config = named_config(method, image_size=_SIZE, channels=3)
    if isinstance(config, FeatureReasoningConfig):
        config = dataclasses.replace(config, perceptual_weight=0.0, style_weight=0.0)
    return BaselineTraining(make_loss(make_completer(config)), process)


def images_per_second(method: str, world: World, options: Options) -> float:
    task, device = task_of(method), world.device
    task.move_to(device)
    training = TRAIN_PRESETS[NETWORK if method == IPA else method]
    batch = options.batch or training["batch"]
    precision: TrainingPrecision = "bf16" if device.type == "cuda" else "fp32"
    fused = method == IPA and why_not_fused(device, precision) is None
    step = TrainingStep(task, Rule(clip=1e4, skip_above=1e5), world, precision=precision, flip=True, fused=fused)
    take = Capture(step, lambda _: None)
    images = torch.randint(256, (batch, 3, _SIZE, _SIZE), dtype=torch.uint8, device=device)
    generators = [torch.Generator(device) for _ in range(2)]
    lr = torch.full((), 1e-5, device=device)

    def take_steps(n: int) -> None:
        for number in range(n):
            seeded = [generator.manual_seed(2 * number + i) for i, generator in enumerate(generators)]
            take([MicroBatch(LevelBatch(images, None, None), *seeded)], lr, shards=1)

    take_steps(options.warm_up)
    return options.steps * batch / seconds(lambda: take_steps(options.steps), device)


if __name__ == "__main__":
    run_script(main, Options, __doc__)
