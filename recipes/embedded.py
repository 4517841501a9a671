"""Train an embedded model: pretrain a VD-VAE, freeze it, train a partial encoder, and write both into one
packed file with the record of their training.

The models in the package were made by these commands on one H200, with kernels that were already compiled:

    python recipes/embedded.py faces64 --data faces64-a.zip faces64-b.zip faces64-c.zip --out faces64
    python recipes/embedded.py cifar10 --data cifar10 --out cifar10        (after `condvae fetch cifar10`)
    python recipes/embedded.py xray --data nih128.zip --out xray
    python recipes/embedded.py shoes64 --data shoes64.zip bags64.zip --out shoes64

Each of the two trainings ends when its minutes are used up. If the command is interrupted, repeat it to resume.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from condvae import weights
from condvae.runtime.scripts import run_script
from condvae.training import PretrainOptions, TrainOptions, options_for, pretrain, train
from condvae.weights.precision import WeightBits


@dataclass(frozen=True, kw_only=True)
class Model:
    """The settings of one embedded model that its presets do not contain."""

    preset: str
    vae_minutes: float
    partial_minutes: float
    held_out: int
    """How many images are held out for evaluations."""
    every: int
    """How many steps lie between two evaluations, and between two checkpoints."""
    largest: int
    """Maximum size of the model file, in bytes."""
    bits: WeightBits = 16
    """How many bits of the model file each weight takes."""
    size: int | None = None
    """Images are resized to this side, in pixels. None: they are not resized."""


MODELS = {
    "faces64": Model(
        preset="faces64", vae_minutes=15.5, partial_minutes=6.5, held_out=300, every=5_000, largest=14 * 2**20, bits=8
    ),
    "cifar10": Model(
        preset="cifar10-small", vae_minutes=9, partial_minutes=3.5, held_out=1000, every=10_000, largest=5 * 2**20
    ),
    "xray": Model(
        preset="xray64", vae_minutes=5, partial_minutes=2.6, held_out=300, every=2_000, largest=4 * 2**20, size=64
    ),
    "shoes64": Model(
        preset="shoes64", vae_minutes=8.5, partial_minutes=5, held_out=300, every=2_000, largest=6 * 2**20
    ),
}


@dataclass(frozen=True, kw_only=True)
class Options:
    """Train an embedded model."""

    name: Annotated[Literal["faces64", "cifar10", "xray", "shoes64"], tyro.conf.Positional]
    data: tuple[Path, ...]
    """Data sets with training and test images, which are joined. Images must have the model's size, except for xray."""
    out: Path
    """Folder for the two run folders, vae/ and partial/, and for the model file NAME.safetensors."""
    vae_minutes: float | None = None
    """Minutes for training the VAE, including evaluations and writing files. By default, as for the model in the
    package."""
    partial_minutes: float | None = None
    """Minutes for training the partial encoder. By default, as for the model in the package."""
    seed: int = 0
    steps: int | None = None
    """Maximum number of steps in each training, for a quick trial."""
    batch: int = 128
    """How many images each update uses."""
    held_out: int | None = None
    """How many images to hold out for evaluations. By default, as many as for the model in the package."""
    snapshot_at: tuple[int, ...] = ()
    """Also write the model after these numbers of steps of the partial encoder, for `recipes/training_curve.py`."""


def main(options: Options) -> None:
    model = MODELS[options.name]
    held_out = options.held_out or model.held_out
    shared: dict[str, Any] = {"data": options.data, "seed": options.seed, "resume": True, "steps": options.steps}
    shared |= {"size": model.size, "batch": options.batch, "validation": held_out, "evaluate_on": held_out}
    shared |= {"evaluate_every": model.every, "checkpoint_every": model.every}
    shared |= {"log_every": model.every // 20, "sheet_every": 0}
    minutes = options.vae_minutes or model.vae_minutes
    vae = pretrain(options_for(PretrainOptions, model.preset, **shared, minutes=minutes, out=options.out / "vae"))
    minutes = options.partial_minutes or model.partial_minutes
    shared |= {"minutes": minutes, "snapshot_at": options.snapshot_at}
    trained = train(options_for(TrainOptions, model.preset, **shared, artifact=vae, out=options.out / "partial"))
    file = options.out / f"{options.name}.safetensors"
    weights.save(weights.load(trained), file, bits=model.bits, packed=True, record=weights.describe(trained).record)
    size = file.stat().st_size
    print(f"wrote {file}, {size / 2**20:.2f} MiB")
    if size > model.largest:
        raise ValueError(f"{file} has {size:,} bytes, but {options.name} may have at most {model.largest:,}")


if __name__ == "__main__":
    run_script(main, Options, __doc__)
