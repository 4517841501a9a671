"""Does pretraining pay? Compare conditional training with a frozen artifact and from scratch, against time."""

from typing import TYPE_CHECKING

from condvae.runtime.lazy import finder

if TYPE_CHECKING:
    from condvae.experiments.pretraining.plan import PretrainingSettings
    from condvae.experiments.pretraining.report import redraw
    from condvae.experiments.pretraining.run import experiment
    from condvae.experiments.resumable_work import Shard

_HOMES = {
    "PretrainingSettings": "condvae.experiments.pretraining.plan",
    "Shard": "condvae.experiments.resumable_work",
    "experiment": "condvae.experiments.pretraining.run",
    "redraw": "condvae.experiments.pretraining.report",
}

__all__ = ["PretrainingSettings", "Shard", "experiment", "redraw"]

__getattr__ = finder(__name__, _HOMES)
