"""The paper's comparison of policies: who chooses the scans that tell most."""

from typing import TYPE_CHECKING

from condvae.lazy import finder

if TYPE_CHECKING:
    from condvae.design.experiment.plan import PAPER_TASKS, POLICIES, TASKS, Settings
    from condvae.design.experiment.report import redraw
    from condvae.design.experiment.run import experiment
    from condvae.workshare import Shard

_HOMES = {
    "PAPER_TASKS": "condvae.design.experiment.plan",
    "POLICIES": "condvae.design.experiment.plan",
    "TASKS": "condvae.design.experiment.plan",
    "Settings": "condvae.design.experiment.plan",
    "Shard": "condvae.workshare",
    "experiment": "condvae.design.experiment.run",
    "redraw": "condvae.design.experiment.report",
}

__all__ = ["PAPER_TASKS", "POLICIES", "TASKS", "Settings", "Shard", "experiment", "redraw"]

__getattr__ = finder(__name__, _HOMES)
