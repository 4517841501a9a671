"""The verb `condvae export`."""

import os
from dataclasses import dataclass
from pathlib import Path

from condvae.cli import shared
from condvae.cli.help_text import explained


@explained()
@dataclass(frozen=True, kw_only=True)
class Export:
    """Write a model and its training record to a new file, for example with 16 or 8 bits per weight."""

    model: shared.ModelArgument
    out: shared.Out
    """The .safetensors file to write. An existing file is never replaced."""
    weight_bits: shared.BitsPerWeight = 32
    quiet: shared.Quiet = False

    def run(self) -> None:
        from condvae import weights

        check_model_file(self.out)
        file = weights.locate(self.model)
        weights.save(weights.load(file), self.out, bits=self.weight_bits, record=weights.describe(file).record)
        shared.say(f"wrote {self.out}, {mebibytes(self.out)}")


def check_model_file(out: Path) -> None:
    """Raise a ValueError if `out` does not end in .safetensors, or exists: a model may have cost days of training."""
    from condvae.runtime.folders import check_writable

    if out.suffix != ".safetensors":
        raise ValueError(f"{out} does not end in .safetensors: give --out a name that does")
    if out.is_dir():
        raise ValueError(f"{out} is a folder: give --out the name of a file")
    if os.path.lexists(out):
        raise ValueError(f"{out} already exists: give --out another name, or remove it first")
    check_writable(out.parent)


def mebibytes(path: Path) -> str:
    """Return the size of a file, such as "11.6 MiB"."""
    return f"{path.stat().st_size / 2**20:.1f} MiB"
