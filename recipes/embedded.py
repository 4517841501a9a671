"""The embedded model faces64, from the images to the file: a VD-VAE on aligned faces, frozen; a partial encoder for
holes of all kinds; both in half precision in one file, with the record of their training.

The shipped file is of this call on one H200 (kernels compiled before):

    python recipes/faces64.py --data lfw64.zip --out faces64

`--data` is a pack of 64 x 64 faces under train/ and test/. Each stage ends on time; either is taken up where it was
left if the call is repeated.
"""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tyro

from condvae import weights
from condvae.train import ConditionOptions, PretrainOptions, condition, options_for, pretrain

LARGEST = 14 * 2**20
"""Bytes that an embedded model may have."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """Train faces64."""

    data: Path
    """64 x 64 RGB faces under train/ and test/, as a zip or a folder."""
    out: Path
    """Folder for the two runs, vae/ and partial/, and faces64.safetensors."""
    vae_minutes: float = 12.3
    """Of the VAE, evaluation and files included."""
    partial_minutes: float = 5.3
    """Of the partial encoder."""
    seed: int = 0
    steps: int | None = None
    """For a trial: at most so many updates in each stage."""
    batch: int = 128
    """Images of an update."""
    held_out: int = 300
    """Training images that are kept aside to evaluate on."""


def main(options: Options) -> None:
    shared: dict[str, Any] = {"data": (options.data,), "seed": options.seed, "resume": True, "steps": options.steps}
    shared |= {"batch": options.batch, "validation": options.held_out, "evaluate_on": options.held_out}
    shared |= {"log_every": 250, "evaluate_every": 5000, "checkpoint_every": 5000, "sheet_every": 0}
    vae = pretrain(
        options_for(PretrainOptions, "faces64", **shared, minutes=options.vae_minutes, out=options.out / "vae")
    )
    model = condition(
        options_for(
            ConditionOptions,
            "faces64",
            **shared,
            minutes=options.partial_minutes,
            artifact=vae,
            out=options.out / "partial",
        )
    )
    file = options.out / "faces64.safetensors"
    weights.save(weights.load(model), file, half=True, record=weights.describe(model).record)
    size = file.stat().st_size
    print(f"wrote {file}, {size / 2**20:.2f} MiB")
    if size > LARGEST:
        raise ValueError(f"{file} has {size:,} bytes, more than the {LARGEST:,} of an embedded model")


if __name__ == "__main__":
    try:
        main(tyro.cli(Options, description=__doc__))
    except (ValueError, OSError) as error:
        print(f"faces64: {error}", file=sys.stderr)
        sys.exit(2)
