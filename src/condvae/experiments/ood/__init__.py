"""The paper's comparison of scores: who tells strange images from ordinary ones, by how much of them is hidden."""

from typing import TYPE_CHECKING

from condvae.runtime.lazy import finder

if TYPE_CHECKING:
    from condvae.experiments.ood.plan import BASELINES, SCORES, SETS, Settings
    from condvae.experiments.ood.report import redraw
    from condvae.experiments.ood.run import experiment
    from condvae.experiments.resumable_work import Shard

_HOMES = {
    "BASELINES": "condvae.experiments.ood.plan",
    "SCORES": "condvae.experiments.ood.plan",
    "SETS": "condvae.experiments.ood.plan",
    "Settings": "condvae.experiments.ood.plan",
    "Shard": "condvae.experiments.resumable_work",
    "experiment": "condvae.experiments.ood.run",
    "redraw": "condvae.experiments.ood.report",
}

__all__ = ["BASELINES", "SCORES", "SETS", "Settings", "Shard", "experiment", "redraw"]

__getattr__ = finder(__name__, _HOMES)
