"""What is to be measured: the work cut into units whose results are files."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

import torch

from condvae.experiments.evaluation.settings import EvaluationSettings as EvaluationSettings
from condvae.experiments.evaluation.settings import Family as Family
from condvae.observe.hole_bins import HOLE_BINS
from condvae.runtime.fingerprints import fingerprint

REVISION = 2
"""Of the measuring itself. Raise it whenever a number comes out otherwise: what older code has measured is then made
anew, and never shown beside it."""

DEEP: tuple[Family, ...] = ("lpips", "pixels", "coverage")
"""What is measured on K completions of each image."""

MeasurementKind: TypeAlias = Literal["truth", "wide", "deep", "elbo", "bounds"]
"""truth: features of the test images. wide: features of one completion of each. deep: K completions of fewer. elbo: the
VAE alone. bounds: the partial encoder on the deep images."""

DIRECTIONS: tuple[Literal["white", "smooth"], ...] = ("white", "smooth")
"""Kinds of random projections, for coverage."""
PROJECTIONS, REFERENCES, IMPORTANCE_SAMPLES = 16, 2, 16
MIXTURE = "mixture"
"""The column that takes the bins equally often."""
COLUMNS = (*map(str, HOLE_BINS), MIXTURE)


@dataclass(frozen=True, kw_only=True)
class Blocks:
    """Images in a unit of work, which bounds what a kill can cost. Results do not depend on it, but for rounding."""

    wide: int = 500
    deep: int = 50

    def of(self, kind: MeasurementKind) -> int:
        return self.deep if kind == "deep" else self.wide


class EvaluationUnit(NamedTuple):
    """Some images in one bin of holes; the result is one file."""

    hole: int | None
    """Number of the bin; None where nothing is hidden."""
    first: int
    stop: int

    def __str__(self) -> str:
        where = "" if self.hole is None else f"hole-{HOLE_BINS[self.hole]}-"
        return f"{where}{self.first:06}-{self.stop:06}"


def units(kind: MeasurementKind, images: int, blocks: Blocks) -> Iterator[EvaluationUnit]:
    """All units of a kind over so many images, bin after bin."""
    holes = range(len(HOLE_BINS)) if kind in ("wide", "deep", "bounds") else (None,)
    step = blocks.of(kind)
    for hole in holes:
        for first in range(0, images, step):
            yield EvaluationUnit(hole, first, min(first + step, images))


def mark_of(common: str, identity: str) -> str:
    """Of numbers: what they depend on but for the subject, and the subject."""
    return fingerprint({"common": common, "subject": identity})


def images_at_once(size: int, device: torch.device, *, on_cuda: int) -> int:
    """How many images of this size a model computes together: on a GPU so many pixels, on a CPU few."""
    return max(1, (on_cuda if device.type == "cuda" else 2**15) // size**2)
