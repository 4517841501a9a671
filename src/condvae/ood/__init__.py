"""Out-of-distribution detection: measure how strange an image, whole or partly hidden, is to a model."""

from typing import TYPE_CHECKING

from condvae.runtime.lazy import finder

if TYPE_CHECKING:
    from condvae.ood.completion_score import Completed
    from condvae.ood.density import GaussianDensity
    from condvae.ood.features import known_share, measure, measure_observation
    from condvae.ood.fit_file import fit_path, fits_beside, load_fits, save_fits
    from condvae.ood.fitting import Fit, fit_score, training_features
    from condvae.ood.gradient import TemperatureGradient, temperature_gradient
    from condvae.ood.inference import Inference
    from condvae.ood.picture_scorer import Strangeness, strangeness
    from condvae.ood.score_names import DEFAULT_SCORE
    from condvae.ood.scores import Score, score_of
    from condvae.ood.strange_sets import Foreign, OODSet, open_foreign, own

_HOMES = {
    "Completed": "condvae.ood.completion_score",
    "DEFAULT_SCORE": "condvae.ood.score_names",
    "Fit": "condvae.ood.fitting",
    "Foreign": "condvae.ood.strange_sets",
    "GaussianDensity": "condvae.ood.density",
    "Inference": "condvae.ood.inference",
    "OODSet": "condvae.ood.strange_sets",
    "Score": "condvae.ood.scores",
    "Strangeness": "condvae.ood.picture_scorer",
    "TemperatureGradient": "condvae.ood.gradient",
    "fit_path": "condvae.ood.fit_file",
    "fit_score": "condvae.ood.fitting",
    "fits_beside": "condvae.ood.fit_file",
    "known_share": "condvae.ood.features",
    "load_fits": "condvae.ood.fit_file",
    "measure": "condvae.ood.features",
    "measure_observation": "condvae.ood.features",
    "open_foreign": "condvae.ood.strange_sets",
    "own": "condvae.ood.strange_sets",
    "save_fits": "condvae.ood.fit_file",
    "score_of": "condvae.ood.scores",
    "strangeness": "condvae.ood.picture_scorer",
    "temperature_gradient": "condvae.ood.gradient",
    "training_features": "condvae.ood.fitting",
}

__all__ = [
    "DEFAULT_SCORE",
    "Completed",
    "Fit",
    "Foreign",
    "GaussianDensity",
    "Inference",
    "OODSet",
    "Score",
    "Strangeness",
    "TemperatureGradient",
    "fit_path",
    "fit_score",
    "fits_beside",
    "known_share",
    "load_fits",
    "measure",
    "measure_observation",
    "open_foreign",
    "own",
    "save_fits",
    "score_of",
    "strangeness",
    "temperature_gradient",
    "training_features",
]

__getattr__ = finder(__name__, _HOMES)
