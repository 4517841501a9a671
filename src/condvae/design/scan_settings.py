"""Settings of `condvae design scan`."""
# This file must not import torch: the command line inherits these options and has to start fast.

from dataclasses import dataclass
from typing import Literal

from condvae.runtime.checks import check_choice, check_seed, check_whole


@dataclass(frozen=True, kw_only=True)
class ScanSettings:
    """The task of the scans, and how their locations are chosen."""

    task: str | None = None
    """What is asked: a variable of the classifier's such as effusion, or "no finding"; may be left out where there is
    one alone."""
    steps: int = 5
    """Scans of each image."""
    n: int = 10
    """Completions of each image."""
    estimator: Literal["eig", "epe"] = "eig"
    """What is maximised: the expected information gain, or minus the expected entropy that is left."""
    side: float = 0.25
    """Side of a window, as a share of the image's; the classifier should have been trained on such windows."""
    points: int = 17
    """Locations along each side of the grid."""
    temperature: str = "1"
    pixels: Literal["mean", "sample"] = "mean"
    """Pixels as the mean of their distribution, which looks best, or drawn from it."""
    seed: int = 0
    """Decides everything that is drawn at random; the same seed gives the same result."""

    def __post_init__(self) -> None:
        check_whole(self.steps, "the number of scans", least=1)
        check_whole(self.n, "the number of completions", least=1)
        check_seed(self.seed)
        check_choice(self.estimator, "the estimator", ("eig", "epe"))
        check_choice(self.pixels, "pixels", ("mean", "sample"))
        if not 0 < self.side < 1:
            raise ValueError(f"the side of a window is {self.side}, expected a share of the image between 0 and 1")
