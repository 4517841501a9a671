"""The paper's comparison of policies: which policy's scans let the classifier predict best."""

from typing import TYPE_CHECKING

from condvae.runtime.lazy import finder

if TYPE_CHECKING:
    from condvae.experiments.design.plan import PAPER_TASKS, POLICIES, TASKS, DesignSettings
    from condvae.experiments.design.report import redraw
    from condvae.experiments.design.run import experiment
    from condvae.experiments.resumable_work import Shard

_HOMES = {
    "PAPER_TASKS": "condvae.experiments.design.plan",
    "POLICIES": "condvae.experiments.design.plan",
    "TASKS": "condvae.experiments.design.plan",
    "DesignSettings": "condvae.experiments.design.plan",
    "Shard": "condvae.experiments.resumable_work",
    "experiment": "condvae.experiments.design.run",
    "redraw": "condvae.experiments.design.report",
}

__all__ = ["PAPER_TASKS", "POLICIES", "TASKS", "DesignSettings", "Shard", "experiment", "redraw"]

__getattr__ = finder(__name__, _HOMES)
