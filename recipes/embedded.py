"""The embedded models, from the images to the file: a VD-VAE, frozen; a partial encoder for holes; both in half
precision in one packed file, with the record of their training.

The shipped files are of these calls on one H200 (kernels compiled before):

    python recipes/embedded.py faces64 --data lfw64.zip --out faces64
    python recipes/embedded.py cifar10 --data cifar10 --out cifar10        (after `condvae fetch cifar10`)
    python recipes/embedded.py xray --data nih128.zip --out xray

Each stage ends on time; either is taken up where it was left if the call is repeated.
"""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from condvae import weights
from condvae.training import PretrainOptions, TrainOptions, options_for, pretrain, train


@dataclass(frozen=True, kw_only=True)
class Model:
    """What is decided for a model beside its presets."""

    preset: str
    vae_minutes: float
    partial_minutes: float
    held_out: int
    """Training images that are kept aside to evaluate on."""
    every: int
    """Updates between evaluations, and between checkpoints."""
    largest: int
    """Bytes that its file may have."""
    size: int | None = None
    """Images are resized to this; as they are if not given."""


MODELS = {
    "faces64": Model(
        preset="faces64", vae_minutes=12.3, partial_minutes=5.3, held_out=300, every=5_000, largest=14 * 2**20
    ),
    "cifar10": Model(
        preset="cifar10-small", vae_minutes=9, partial_minutes=3.5, held_out=1000, every=10_000, largest=5 * 2**20
    ),
    "xray": Model(
        preset="xray64", vae_minutes=5, partial_minutes=2.6, held_out=300, every=2_000, largest=4 * 2**20, size=64
    ),
}


@dataclass(frozen=True, kw_only=True)
class Options:
    """Train an embedded model."""

    name: Annotated[Literal["faces64", "cifar10", "xray"], tyro.conf.Positional]
    data: Path
    """Images with training and test images, of the model's size where it does not resize them."""
    out: Path
    """Folder for the two runs, vae/ and partial/, and NAME.safetensors."""
    vae_minutes: float | None = None
    """Of the VAE, evaluation and files included; as shipped if not given."""
    partial_minutes: float | None = None
    """Of the partial encoder; as shipped if not given."""
    seed: int = 0
    steps: int | None = None
    """For a trial: at most so many updates in each stage."""
    batch: int = 128
    """Images of an update."""
    held_out: int | None = None
    """Training images that are kept aside to evaluate on; as shipped if not given."""
    snapshots: int | None = None
    """Keep a model of the partial encoder every so many updates, to measure what time buys."""


def main(options: Options) -> None:
    model = MODELS[options.name]
    held_out = options.held_out or model.held_out
    shared: dict[str, Any] = {"data": (options.data,), "seed": options.seed, "resume": True, "steps": options.steps}
    shared |= {"size": model.size, "batch": options.batch, "validation": held_out, "evaluate_on": held_out}
    shared |= {"evaluate_every": model.every, "checkpoint_every": model.every}
    shared |= {"log_every": model.every // 20, "sheet_every": 0}
    minutes = options.vae_minutes or model.vae_minutes
    vae = pretrain(options_for(PretrainOptions, model.preset, **shared, minutes=minutes, out=options.out / "vae"))
    minutes = options.partial_minutes or model.partial_minutes
    if options.snapshots:
        shared |= {"checkpoint_every": options.snapshots, "keep": 10**6}
    folder = options.out / "partial"
    trained = train(options_for(TrainOptions, model.preset, **shared, minutes=minutes, artifact=vae, out=folder))
    file = options.out / f"{options.name}.safetensors"
    weights.save(weights.load(trained), file, half=True, packed=True, record=weights.describe(trained).record)
    size = file.stat().st_size
    print(f"wrote {file}, {size / 2**20:.2f} MiB")
    if size > model.largest:
        raise ValueError(f"{file} has {size:,} bytes, more than the {model.largest:,} of an embedded model")


if __name__ == "__main__":
    try:
        main(tyro.cli(Options, description=__doc__))
    except (ValueError, OSError) as error:
        print(f"embedded: {error}", file=sys.stderr)
        sys.exit(2)
