"""Create baselines by name from training images."""

from collections.abc import Callable, Sequence
from functools import cache

from condvae.completers.baseline_names import BASELINES
from condvae.completers.harmonic import HarmonicFill
from condvae.completers.interface import Completer
from condvae.completers.nearest import NearestTrainingImages
from condvae.completers.training_images import RandomTrainingImage, TrainingMean
from condvae.data import ImageSet

TITLES = {
    "mean": TrainingMean.name,
    "random": RandomTrainingImage.name,
    "nearest": NearestTrainingImages.name,
    "harmonic": HarmonicFill.name,
}
"""The names of the baselines in tables, by their names on the command line."""


def baselines_of(names: Sequence[str], images: ImageSet) -> dict[str, Completer]:
    """Create the named baselines from training images; the mean image is computed at most once."""
    if unknown := [name for name in names if name not in BASELINES]:
        raise ValueError(f"unknown baseline {unknown[0]!r}: expected some of {', '.join(BASELINES)}")
    if names and not len(images):
        raise ValueError("the data has no training images, which the baselines need: give data with training images")
    mean = cache(lambda: TrainingMean.fit(images))
    makers: dict[str, Callable[[], Completer]] = {
        "mean": mean,
        "random": lambda: RandomTrainingImage(images=images),
        "nearest": lambda: NearestTrainingImages(images=images),
        "harmonic": lambda: HarmonicFill(fallback=mean().image, channels=images.channels),
    }
    return {name: makers[name]() for name in names}
