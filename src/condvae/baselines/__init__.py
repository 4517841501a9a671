"""Other ways to complete images, behind one interface, to measure a model against."""

from condvae.baselines.by_name import BASELINES, baselines_of
from condvae.baselines.completer import Completer
from condvae.baselines.harmonic import HarmonicFill
from condvae.baselines.nearest import NearestTrainingImages
from condvae.baselines.training_images import RandomTrainingImage, TrainingMean

__all__ = [
    "BASELINES",
    "Completer",
    "HarmonicFill",
    "NearestTrainingImages",
    "RandomTrainingImage",
    "TrainingMean",
    "baselines_of",
]
