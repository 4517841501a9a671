"""The paper's comparison of scores: who tells strange images from ordinary ones, by how much of them is hidden."""

from typing import TYPE_CHECKING

from condvae.lazy import finder

if TYPE_CHECKING:
    from condvae.ood.experiment.plan import BASELINES, SCORES, SETS, Settings
    from condvae.ood.experiment.report import redraw
    from condvae.ood.experiment.run import experiment
    from condvae.workshare import Shard

_HOMES = {
    "BASELINES": "condvae.ood.experiment.plan",
    "SCORES": "condvae.ood.experiment.plan",
    "SETS": "condvae.ood.experiment.plan",
    "Settings": "condvae.ood.experiment.plan",
    "Shard": "condvae.workshare",
    "experiment": "condvae.ood.experiment.run",
    "redraw": "condvae.ood.experiment.report",
}

__all__ = ["BASELINES", "SCORES", "SETS", "Settings", "Shard", "experiment", "redraw"]

__getattr__ = finder(__name__, _HOMES)
