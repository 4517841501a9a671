"""The settings of `condvae design scan`."""
# This module does not import torch, because the command line inherits these settings and --help must be quick.

from dataclasses import dataclass
from typing import Literal, TypeAlias

from condvae.runtime.checks import check_choice, check_seed, check_white, check_whole

Estimator: TypeAlias = Literal["eig", "epe"]
ESTIMATORS: tuple[Estimator, ...] = ("eig", "epe")


@dataclass(frozen=True, kw_only=True)
class ScanSettings:
    """Which variable the scans should find out, and how each scan is chosen."""

    task: str | None = None
    """The variable that the scans should find out, by its name in the classifier, such as effusion; or "no finding". It
    can be left out if the classifier has only one variable."""
    steps: int = 5
    """How many scans to make of each image."""
    n: int = 10
    """How many completions to draw in order to choose each scan."""
    estimator: Estimator = "eig"
    """What the chosen scan maximises: the expected information gain (eig), or minus the expected posterior entropy
    (epe), an older estimate of the same gain."""
    side: float = 0.25
    """Side of the scan window, as a fraction of the image's side. The classifier should have been trained on windows of
    this size."""
    points: int = 17
    """How many locations there are along each side of the image. The locations form a square grid."""
    temperature: str = "1"
    pixels: Literal["mean", "sample"] = "mean"
    """The value of each pixel: the mean of its distribution (mean), which looks best, or a random draw from its
    distribution (sample)."""
    seed: int = 0
    """The seed of everything that is drawn at random; the same seed gives the same result."""
    white: int | None = None

    def __post_init__(self) -> None:
        check_whole(self.steps, "the number of scans", least=1)
        check_whole(self.n, "the number of completions", least=1)
        check_seed(self.seed)
        check_white(self.white)
        check_choice(self.estimator, "the estimator", ESTIMATORS)
        check_choice(self.pixels, "pixels", ("mean", "sample"))
        if not 0 < self.side < 1:
            raise ValueError(
                f"the side of a window is {self.side}, expected a fraction of the image's side, between 0 and 1"
            )
