"""Completers: models, simple baselines and learned baselines with one common interface, so that all can be measured."""

from typing import TYPE_CHECKING

from condvae.runtime.lazy import finder

if TYPE_CHECKING:
    from condvae.completers import learned_baselines as learned_baselines
    from condvae.completers.baseline_names import BASELINES
    from condvae.completers.by_name import baselines_of
    from condvae.completers.harmonic import HarmonicFill
    from condvae.completers.interface import Completer
    from condvae.completers.learned_completer import BaselineConfig, CompleterLoss, LearnedCompleter
    from condvae.completers.learned_names import LEARNED_PRESETS
    from condvae.completers.nearest import NearestTrainingImages
    from condvae.completers.training_images import RandomTrainingImage, TrainingMean

_HOMES = {
    "BASELINES": "condvae.completers.baseline_names",
    "LEARNED_PRESETS": "condvae.completers.learned_names",
    "BaselineConfig": "condvae.completers.learned_completer",
    "Completer": "condvae.completers.interface",
    "CompleterLoss": "condvae.completers.learned_completer",
    "HarmonicFill": "condvae.completers.harmonic",
    "LearnedCompleter": "condvae.completers.learned_completer",
    "NearestTrainingImages": "condvae.completers.nearest",
    "RandomTrainingImage": "condvae.completers.training_images",
    "TrainingMean": "condvae.completers.training_images",
    "baselines_of": "condvae.completers.by_name",
}

__all__ = [
    "BASELINES",
    "LEARNED_PRESETS",
    "BaselineConfig",
    "Completer",
    "CompleterLoss",
    "HarmonicFill",
    "LearnedCompleter",
    "NearestTrainingImages",
    "RandomTrainingImage",
    "TrainingMean",
    "baselines_of",
]

__getattr__ = finder(__name__, _HOMES)
