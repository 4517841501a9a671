"""Completers: models and simple baselines with one common interface, so that their completions can be measured."""

from typing import TYPE_CHECKING

from condvae.runtime.lazy import finder

if TYPE_CHECKING:
    from condvae.completers.baseline_names import BASELINES
    from condvae.completers.by_name import baselines_of
    from condvae.completers.harmonic import HarmonicFill
    from condvae.completers.interface import Completer
    from condvae.completers.nearest import NearestTrainingImages
    from condvae.completers.training_images import RandomTrainingImage, TrainingMean

_HOMES = {
    "BASELINES": "condvae.completers.baseline_names",
    "Completer": "condvae.completers.interface",
    "HarmonicFill": "condvae.completers.harmonic",
    "NearestTrainingImages": "condvae.completers.nearest",
    "RandomTrainingImage": "condvae.completers.training_images",
    "TrainingMean": "condvae.completers.training_images",
    "baselines_of": "condvae.completers.by_name",
}

__all__ = [
    "BASELINES",
    "Completer",
    "HarmonicFill",
    "NearestTrainingImages",
    "RandomTrainingImage",
    "TrainingMean",
    "baselines_of",
]

__getattr__ = finder(__name__, _HOMES)
