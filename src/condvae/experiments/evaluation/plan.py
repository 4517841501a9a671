"""The settings of an evaluation, and how its work is split."""
# Imports no torch, since the command line inherits these settings and must start fast.

from dataclasses import dataclass
from typing import Literal, TypeAlias

from condvae.runtime.checks import check_seed, check_whole

REVISION = 2
"""Version of the measurement code. Increase it whenever a number changes: results of older code are then measured again
and never shown next to new ones."""

Family: TypeAlias = Literal["inception", "lpips", "pixels", "coverage", "bounds"]
FAMILIES: tuple[Family, ...] = ("inception", "lpips", "pixels", "coverage", "bounds")
"""inception: FID, KID, P-IDS, U-IDS. lpips: LPIPS-GT, diversity, FWV. pixels: best MSE, PSNR and SSIM of the mean.
coverage: calibration. bounds: bits per dimension and forward KL, for models only."""
DEEP: tuple[Family, ...] = ("lpips", "pixels", "coverage")
"""Groups of metrics that need n completions of each image."""

MeasurementKind: TypeAlias = Literal["truth", "wide", "deep", "elbo", "bounds"]
"""truth: features of the test images. wide: features of one completion of each image. deep: n completions of each of
fewer images. elbo: the bound of the VAE alone. bounds: bounds given y on the deep images."""

DIRECTIONS: tuple[Literal["white", "smooth"], ...] = ("white", "smooth")
"""Kinds of random projections for coverage."""
PROJECTIONS, REFERENCES, IMPORTANCE_SAMPLES = 16, 2, 16
MIXTURE = "mixture"
"""The column in which each bin of the hidden share counts equally."""


@dataclass(frozen=True, kw_only=True)
class EvaluationSettings:
    """The settings of an evaluation; they are the same for all methods."""

    images: int = 2000
    """How many test images, evenly over all; all of them if there are fewer."""
    deep_images: int | None = None
    """How many of these test images get n completions each; 500, or all of them if there are fewer, by default."""
    n: int = 100
    """Completions of each image."""
    seed: int = 0
    """Decides everything that is drawn at random; the same seed gives the same result."""
    bits_images: int | None = None
    """Test images for the VAE's bits per dimension; as many as are completed by default."""
    metrics: tuple[Family, ...] = FAMILIES
    """Groups of metrics: inception is FID, KID, P-IDS and U-IDS; lpips is LPIPS-GT, diversity and FWV; pixels is the
    best MSE, PSNR and SSIM; coverage is calibration; bounds is bits per dimension and forward KL, of models alone."""

    def __post_init__(self) -> None:
        check_whole(self.images, "the number of images", least=2)
        check_whole(self.deep, "the number of images that are completed n times", least=1)
        check_whole(self.n, "the number of completions of an image", least=1)
        check_seed(self.seed)
        check_whole(self.bits, "the number of images for bits per dimension", least=1)
        if self.deep > self.images:
            raise ValueError(
                f"--deep-images is {self.deep} but --images is {self.images}: "
                "give at most as many --deep-images as --images"
            )
        if unknown := [name for name in self.metrics if name not in FAMILIES]:
            raise ValueError(f"unknown metrics {unknown[0]!r}: expected some of {', '.join(FAMILIES)}, or all")
        if ("inception" in self.metrics and self.images < 4) or ("coverage" in self.metrics and self.deep < 2):
            raise ValueError(
                f"--images is {self.images} and --deep-images is {self.deep}: the inception metrics need at least 4 "
                "images, and coverage needs at least 2 deep images"
            )
        if not self.metrics:
            raise ValueError(f"no metrics were requested: give all, or some of {', '.join(FAMILIES)}")

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
class UnitSizes:
    """Images per unit of work: at most this much work is lost by a kill. Results depend on it only by rounding."""

    wide: int = 500
    deep: int = 50

    def of(self, kind: MeasurementKind) -> int:
        return self.deep if kind == "deep" else self.wide
