"""Training of unconditional VAEs (`pretrain`), and of partial encoders for them or whole conditional VAEs (`train`)."""

from typing import TYPE_CHECKING

from condvae.runtime.lazy import finder

if TYPE_CHECKING:
    from condvae.training.entry_points import pretrain, train
    from condvae.training.options import PretrainOptions, TrainingOptions, TrainOptions
    from condvae.training.presets import PRETRAIN_PRESETS, TRAIN_PRESETS, options_for
    from condvae.training.recovery import Diverged
    from condvae.training.run_folder import describe_run
    from condvae.training.signals import Stopped

_HOMES = {
    "TRAIN_PRESETS": "condvae.training.presets",
    "PRETRAIN_PRESETS": "condvae.training.presets",
    "TrainOptions": "condvae.training.options",
    "Diverged": "condvae.training.recovery",
    "PretrainOptions": "condvae.training.options",
    "Stopped": "condvae.training.signals",
    "TrainingOptions": "condvae.training.options",
    "train": "condvae.training.entry_points",
    "describe_run": "condvae.training.run_folder",
    "options_for": "condvae.training.presets",
    "pretrain": "condvae.training.entry_points",
}

__all__ = [
    "PRETRAIN_PRESETS",
    "TRAIN_PRESETS",
    "Diverged",
    "PretrainOptions",
    "Stopped",
    "TrainOptions",
    "TrainingOptions",
    "describe_run",
    "options_for",
    "pretrain",
    "train",
]

__getattr__ = finder(__name__, _HOMES)
