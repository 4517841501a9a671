"""Training: unconditional VAEs (`pretrain`) and what conditions them (`condition`)."""

from typing import TYPE_CHECKING

from condvae.lazy import finder

if TYPE_CHECKING:
    from condvae.train.options import ConditionOptions, PretrainOptions, TrainingOptions
    from condvae.train.presets import CONDITION, PRETRAIN, options_for
    from condvae.train.recovery import Diverged
    from condvae.train.run import condition, pretrain
    from condvae.train.run_folder import describe_run
    from condvae.train.signals import Stopped

_HOMES = {
    "CONDITION": "condvae.train.presets",
    "PRETRAIN": "condvae.train.presets",
    "ConditionOptions": "condvae.train.options",
    "Diverged": "condvae.train.recovery",
    "PretrainOptions": "condvae.train.options",
    "Stopped": "condvae.train.signals",
    "TrainingOptions": "condvae.train.options",
    "condition": "condvae.train.run",
    "describe_run": "condvae.train.run_folder",
    "options_for": "condvae.train.presets",
    "pretrain": "condvae.train.run",
}

__all__ = [
    "CONDITION",
    "PRETRAIN",
    "ConditionOptions",
    "Diverged",
    "PretrainOptions",
    "Stopped",
    "TrainingOptions",
    "condition",
    "describe_run",
    "options_for",
    "pretrain",
]

__getattr__ = finder(__name__, _HOMES)
