"""Other ways to complete images, behind one interface, to measure a model against."""

from condvae.baselines.completer import Completer
from condvae.baselines.harmonic import HarmonicFill
from condvae.baselines.nearest import NearestTrainingImages
from condvae.baselines.training_images import RandomTrainingImage, TrainingMean

__all__ = ["Completer", "HarmonicFill", "NearestTrainingImages", "RandomTrainingImage", "TrainingMean"]
