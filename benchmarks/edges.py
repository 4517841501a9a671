"""Time training steps of a translation from edges: with edges made once, before training, and made in every step.

python benchmarks/edges.py --data shoes64.zip --out edges.json
"""

import json
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parents[1]))
from benchmarks.clock import seconds
from condvae.conditional import ConditionalVAE, PartialConfig
from condvae.data import ImageSet, open_data
from condvae.observe import Edges
from condvae.runtime.ranks import World, join
from condvae.runtime.scripts import run_script
from condvae.runtime.versions import device_name, versions
from condvae.training import TrainOptions, options_for
from condvae.training.batches import batches_from
from condvae.training.capture import Capture, why_not_fused
from condvae.training.pictures import with_pictures
from condvae.training.presets import PRETRAIN_PRESETS
from condvae.training.step import TrainingPrecision, TrainingStep
from condvae.training.task import ConditionalTraining
from condvae.vdvae import VDVAE, preset

FORMAT = "condvae edges benchmark"


@dataclass(frozen=True, kw_only=True)
class Options:
    """Time training steps of a translation from edges."""

    data: Path
    """Data set of the network's image size."""
    out: Path | None = None
    """Also write the numbers to this JSON file."""
    preset: str = "tiny64"
    """The training preset, whose network and batch are used."""
    steps: int = 200
    """How many steps to time."""
    warm_up: int = 20
    """How many steps to take before."""
    batch: int | None = None
    """How many images each update uses. If not given, as in the preset."""
    device: str = "auto"


def main(options: Options) -> None:
    given: dict[str, Any] = {} if options.batch is None else {"batch": options.batch}
    training = options_for(TrainOptions, options.preset, data=(options.data,), out=Path(), **given)
    config = preset(network_of(options))
    with join(options.device) as world:
        images = open_data(options.data, size=config.image_size, channels=config.channels).train
        begin = time.perf_counter()
        prepared = with_pictures(images, Edges(), world.device)
        preparing = time.perf_counter() - begin
        if prepared is None:
            raise ValueError("the edges of all images need too much memory: give fewer images")
        found = {
            "once": images_per_second(prepared, training, world, options, pictures_given=True),
            "in every step": images_per_second(images, training, world, options, pictures_given=False),
        }
        result = {
            "format": FORMAT, "images_per_second": found, "seconds_before_training": preparing,
            "images": len(images), "batch": training.batch, "preset": options.preset, "steps": options.steps,
            "versions": versions(), "device": device_name(world.device),
        }  # fmt: skip
    for name, rate in found.items():
        print(f"edges made {name}: {rate:,.0f} images/s")
    ratio = found["once"] / found["in every step"]
    print(f"{ratio:.1f} times as fast; making the edges of {len(images):,} images took {preparing:.2f} s")
    if options.out is not None:
        options.out.write_text(json.dumps(result, indent=1) + "\n")


def network_of(options: Options) -> str:
    return str(PRETRAIN_PRESETS[options.preset]["network"])


def images_per_second(
    images: ImageSet, training: TrainOptions, world: World, options: Options, *, pictures_given: bool
) -> float:
    torch.manual_seed(0)
    process = Edges()
    vae = VDVAE(preset(network_of(options)))
    model = ConditionalVAE(vae, PartialConfig(channels=process.channels(3), form=training.form), process=process)
    task = ConditionalTraining(model.train(), process)
    task.pictures_given = pictures_given
    model.to(world.device, memory_format=torch.channels_last)  # type: ignore[call-overload]
    precision: TrainingPrecision = "bf16" if world.device.type == "cuda" else "fp32"
    fused = why_not_fused(world.device, precision) is None
    step = TrainingStep(task, training.rule, world, precision=precision, flip=True, fused=fused)
    take = Capture(step, print)
    batches = batches_from(images, training, world, step=0, rollbacks=0)
    lr = torch.full((), 1e-5, device=world.device)

    def take_steps(n: int) -> None:
        for _ in range(n):
            take(next(batches), lr, shards=1)

    take_steps(options.warm_up)
    return options.steps * training.batch / seconds(lambda: take_steps(options.steps), world.device)


if __name__ == "__main__":
    run_script(main, Options, __doc__)
