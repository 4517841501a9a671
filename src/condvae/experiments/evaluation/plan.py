"""The settings of an evaluation, and how its work is split."""
# Imports no torch, since the command line inherits these settings and must start fast.

from dataclasses import dataclass
from typing import Literal, TypeAlias

from condvae.runtime.checks import check_seed, check_whole

REVISION = 4
"""Version of the measurement code. Increase it whenever a change of the code changes results or what is stored of them:
these are then measured again, and old results are never shown next to new ones."""

Family: TypeAlias = Literal["inception", "lpips", "pixels", "coverage", "bounds"]
FAMILY_METRICS: dict[Family, str] = {
    "inception": "FID, CFID, KID, P-IDS and U-IDS",
    "lpips": "LPIPS-GT, LPIPS diversity, FWV and the CRPS of LPIPS features",
    "pixels": "CRPS of hidden pixels, MSE of the best completion, PSNR and SSIM of the mean completion",
    "coverage": "calibration",
    "bounds": "bits per dimension and forward KL, only for models",
}
"""The metrics that belong to each group of metrics."""
FAMILIES = tuple(FAMILY_METRICS)
DEEP_IMAGES = 500
"""The default number of deep images: test images that get n completions each."""
DEEP: tuple[Family, ...] = ("lpips", "pixels", "coverage")
"""Groups of metrics that need n completions of each image."""

MeasurementKind: TypeAlias = Literal["truth", "observed", "wide", "deep", "elbo", "bounds"]
"""The kinds of measurement. truth: Inception features of the test images. observed: Inception features of the test
images with grey holes. wide: Inception features of one completion of each image. deep: metrics of n completions of each
deep image. elbo: the bound of the VAE alone. bounds: the bounds of a conditional model, given y, on the deep images."""

DIRECTIONS: tuple[Literal["white", "smooth"], ...] = ("white", "smooth")
"""The kinds of random projections on which coverage is measured."""
PROJECTIONS, REFERENCES, IMPORTANCE_SAMPLES = 16, 2, 16
GREY = 128
"""The grey level of hidden pixels in the images whose Inception features represent observations, for CFID."""
MIXTURE = "mixture"
"""The name of the column for the mixture, in which each bin of the hidden share counts equally."""


@dataclass(frozen=True, kw_only=True)
class EvaluationSettings:
    """What is measured, and on how many images. The settings are the same for all methods."""

    images: int = 2000
    """How many test images to use, spread evenly over the test set; all of them if there are fewer."""
    deep_images: int | None = None
    """How many of the test images get n completions each. None: `DEEP_IMAGES`, or `images` if that is smaller."""
    n: int = 100
    """How many completions to draw of each deep image."""
    seed: int = 0
    """The seed of everything that is drawn at random; the same seed gives the same result."""
    bits_images: int | None = None
    """How many test images to use for the VAE's bits per dimension. If not given, as many as --images."""
    metrics: tuple[Family, ...] = FAMILIES
    """Groups of metrics to compute; see `FAMILY_METRICS`."""

    def __post_init__(self) -> None:
        check_whole(self.images, "the number of images", least=2)
        check_whole(self.deep, "the number of images with n completions each", least=1)
        check_whole(self.n, "the number of completions of an image", least=1)
        check_seed(self.seed)
        check_whole(self.bits, "the number of images for bits per dimension", least=1)
        if self.deep > self.images:
            raise ValueError(
                f"--deep-images is {self.deep} but --images is {self.images}: "
                "give at most as many --deep-images as --images"
            )
        if unknown := [name for name in self.metrics if name not in FAMILIES]:
            raise ValueError(f"unknown group of metrics {unknown[0]!r}: expected some of {', '.join(FAMILIES)}, or all")
        if ("inception" in self.metrics and self.images < 4) or ("coverage" in self.metrics and self.deep < 2):
            raise ValueError(
                f"--images is {self.images} and --deep-images is {self.deep}: the inception metrics need at least 4 "
                "--images, and coverage needs at least 2 --deep-images"
            )
        object.__setattr__(self, "metrics", tuple(dict.fromkeys(self.metrics)))
        if not self.metrics:
            raise ValueError(f"no metrics were given: give --metrics all, or one or more of {', '.join(FAMILIES)}")

    @property
    def deep(self) -> int:
        return min(DEEP_IMAGES, self.images) if self.deep_images is None else self.deep_images

    @property
    def bits(self) -> int:
        return self.images if self.bits_images is None else self.bits_images

    @property
    def needs_lpips(self) -> bool:
        return "lpips" in self.metrics or "coverage" in self.metrics


@dataclass(frozen=True, kw_only=True)
class UnitSizes:
    """The number of images in a unit of work.

    A killed process loses at most one unit. The sizes change results only by rounding.
    """

    wide: int = 500
    deep: int = 50

    def of(self, kind: MeasurementKind) -> int:
        return self.deep if kind == "deep" else self.wide
