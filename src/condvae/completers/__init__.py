"""Completers: models and simple baselines that complete images behind one interface, for measurements."""

from condvae.completers.by_name import BASELINES, baselines_of
from condvae.completers.harmonic import HarmonicFill
from condvae.completers.interface import Completer
from condvae.completers.nearest import NearestTrainingImages
from condvae.completers.training_images import RandomTrainingImage, TrainingMean

__all__ = [
    "BASELINES",
    "Completer",
    "HarmonicFill",
    "NearestTrainingImages",
    "RandomTrainingImage",
    "TrainingMean",
    "baselines_of",
]
