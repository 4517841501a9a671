"""Compare scores as in the paper: measure how well each separates strange from ordinary images, by hidden share."""

from typing import TYPE_CHECKING

from condvae.runtime.lazy import finder

if TYPE_CHECKING:
    from condvae.experiments.ood.plan import BASELINE_METHODS, SCORES, SETS, OODSettings
    from condvae.experiments.ood.report import redraw
    from condvae.experiments.ood.run import experiment
    from condvae.experiments.resumable_work import Shard

_HOMES = {
    "BASELINE_METHODS": "condvae.experiments.ood.plan",
    "SCORES": "condvae.experiments.ood.plan",
    "SETS": "condvae.experiments.ood.plan",
    "OODSettings": "condvae.experiments.ood.plan",
    "Shard": "condvae.experiments.resumable_work",
    "experiment": "condvae.experiments.ood.run",
    "redraw": "condvae.experiments.ood.report",
}

__all__ = ["BASELINE_METHODS", "SCORES", "SETS", "OODSettings", "Shard", "experiment", "redraw"]

__getattr__ = finder(__name__, _HOMES)
