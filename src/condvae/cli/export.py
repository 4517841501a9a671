"""condvae export."""

from dataclasses import dataclass
from pathlib import Path

from condvae.cli import shared


@dataclass(frozen=True, kw_only=True)
class Export:
    """Write a model to a file of its own, with its record; --half-precision makes one to be shipped."""

    model: shared.ModelArgument
    out: shared.Out
    """The .safetensors file to write."""
    half_precision: shared.HalfPrecision = False

    def run(self) -> None:
        from condvae import weights

        check_suffix(self.out)
        file = weights.locate(self.model)
        weights.save(weights.load(file), self.out, half=self.half_precision, record=weights.describe(file).record)
        print(f"wrote {self.out}, {mebibytes(self.out)}")


def check_suffix(out: Path) -> None:
    """Raise a ValueError unless this can be the name of a model file."""
    if out.suffix != ".safetensors":
        raise ValueError(f"{out} should end in .safetensors")
    if out.is_dir():
        raise ValueError(f"{out} is a folder: give the name of a file")


def mebibytes(path: Path) -> str:
    """The size of a file, for people."""
    return f"{path.stat().st_size / 2**20:.1f} MiB"
