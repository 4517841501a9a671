"""Count how often the bound of a batch is wrong while other processes use the same GPU.

    nvidia-cuda-mps-control -d
    condvae pretrain --preset tiny64 --data bags64.zip --steps 100000 --out load &      (three of them)
    python benchmarks/shared_gpu.py --data tiny64-b.zip

Networks with random weights are evaluated with fused kernels and with plain torch operations. A bound is wrong if it is
not finite.
"""

import json
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from condvae.data import ImageSet, open_data
from condvae.runtime.ranks import World, join
from condvae.runtime.scripts import run_script
from condvae.training.capture import why_not_fused
from condvae.training.optimiser import Rule
from condvae.training.step import TrainingStep
from condvae.training.task import Pretraining
from condvae.vdvae import VDVAE, preset


@dataclass(frozen=True, kw_only=True)
class Options:
    """Count how often the bound of a batch is wrong."""

    data: Path
    """Data set of the network's image size, with test images."""
    network: str = "tiny64"
    """A name from `condvae.vdvae.PRESETS`."""
    batches: int = 6
    """How many batches of test images each network evaluates."""
    batch: int = 50
    """How many images a batch has."""
    seconds: float = 10.0
    """For how long networks are made and evaluated."""
    device: str = "auto"


def main(options: Options) -> None:
    config = preset(options.network)
    with join(options.device) as world:
        images = open_data(options.data, size=config.image_size, channels=config.channels).test
        fused = why_not_fused(world.device, "bf16") is None
        counts = {name: [0, 0] for name in (("fused", "plain") if fused else ("plain",))}
        end = time.perf_counter() + options.seconds
        while not all(total for total, _ in counts.values()) or time.perf_counter() < end:
            for name, count in counts.items():
                found = wrong(images, world, options, fused=name == "fused")
                count[0] += len(found)
                count[1] += sum(found)
    for name, (total, bad) in counts.items():
        print(f"{name}: {bad} of {total} batches wrong")
    print(json.dumps(counts))


def wrong(images: ImageSet, world: World, options: Options, *, fused: bool) -> list[bool]:
    """Evaluate a new network on the batches; return for each whether one of its bounds is not finite."""
    torch.manual_seed(0)
    task = Pretraining(VDVAE(preset(options.network)))
    task.model.to(world.device, memory_format=torch.channels_last)  # type: ignore[call-overload]
    rule = Rule(clip=200.0, skip_above=1e6, ema=0.9)
    step = TrainingStep(task, rule, world, precision="bf16", flip=False, fused=fused)
    found = []
    for number in range(min(options.batches, max(1, len(images) // options.batch))):
        rows = np.arange(len(images))[number * options.batch :][: options.batch]
        noise = torch.Generator(world.device).manual_seed(number)
        with torch.no_grad():
            bound = step.reports(images.take(rows).to(world.device).batch(), noise)["whole"]
        found.append(not bool(torch.isfinite(bound.nats).all()))
    return found


if __name__ == "__main__":
    run_script(main, Options, __doc__)
