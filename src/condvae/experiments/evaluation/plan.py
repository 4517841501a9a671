"""What is to be measured: the settings, and the work cut into units whose results are files."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

import torch

from condvae.metrics import HOLE_BINS
from condvae.runtime.checks import check_whole
from condvae.runtime.fingerprints import fingerprint

REVISION = 2
"""Of the measuring itself. Raise it whenever a number comes out otherwise: what older code has measured is then made
anew, and never shown beside it."""

Family: TypeAlias = Literal["inception", "lpips", "pixels", "coverage", "bounds"]
FAMILIES: tuple[Family, ...] = ("inception", "lpips", "pixels", "coverage", "bounds")
"""inception: FID, KID, P-IDS, U-IDS. lpips: LPIPS-GT, diversity, FWV. pixels: best MSE, PSNR and SSIM of the mean.
coverage: calibration. bounds: bits per dimension and forward KL, of models alone."""
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
class EvaluationSettings:
    """How much is measured; what a method is measured by is the same for all of them."""

    images: int = 2000
    """Test images that are completed once, evenly over all; all of them if there are fewer."""
    deep_images: int | None = None
    """Of these, so many are completed k times; 500 or `images`, if that is less, where not given."""
    k: int = 100
    seed: int = 0
    """Decides holes, completions, reference images and directions."""
    bits_images: int | None = None
    """Test images for the bits per dimension of a VAE; as many as `images` if not given."""
    metrics: tuple[Family, ...] = FAMILIES

    def __post_init__(self) -> None:
        check_whole(self.images, "the number of images", least=2)
        check_whole(self.deep, "the number of images that are completed k times", least=1)
        check_whole(self.k, "k, the number of completions of an image,", least=1)
        check_whole(self.seed, "the seed")
        check_whole(self.bits, "the number of images for bits per dimension", least=1)
        if self.deep > self.images:
            raise ValueError(
                f"{self.deep} images are to be completed {self.k} times, but {self.images} once: "
                "give at most as many --deep-images as --images"
            )
        if strangers := [name for name in self.metrics if name not in FAMILIES]:
            raise ValueError(f"unknown metrics {strangers[0]!r}: expected some of {', '.join(FAMILIES)}, or all")
        if ("inception" in self.metrics and self.images < 4) or ("coverage" in self.metrics and self.deep < 2):
            raise ValueError(
                f"{self.images} images and {self.deep} with {self.k} completions were asked for, expected at least 4 "
                "for FID, and 2 for coverage"
            )
        if not self.metrics:
            raise ValueError(f"no metrics were asked for: give all, or some of {', '.join(FAMILIES)}")

    @property
    def deep(self) -> int:
        return min(500, self.images) if self.deep_images is None else self.deep_images

    @property
    def bits(self) -> int:
        return self.images if self.bits_images is None else self.bits_images

    @property
    def needs_lpips(self) -> bool:
        return "lpips" in self.metrics or "coverage" in self.metrics


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
