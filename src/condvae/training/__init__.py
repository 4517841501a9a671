"""Training: unconditional VAEs (`pretrain`) and what conditions them (`condition`)."""

from typing import TYPE_CHECKING

from condvae.runtime.lazy import finder

if TYPE_CHECKING:
    from condvae.training.options import ConditionOptions, PretrainOptions, TrainingOptions
    from condvae.training.presets import CONDITION, PRETRAIN, options_for
    from condvae.training.recovery import Diverged
    from condvae.training.run import condition, pretrain
    from condvae.training.run_folder import describe_run
    from condvae.training.signals import Stopped

_HOMES = {
    "CONDITION": "condvae.training.presets",
    "PRETRAIN": "condvae.training.presets",
    "ConditionOptions": "condvae.training.options",
    "Diverged": "condvae.training.recovery",
    "PretrainOptions": "condvae.training.options",
    "Stopped": "condvae.training.signals",
    "TrainingOptions": "condvae.training.options",
    "condition": "condvae.training.run",
    "describe_run": "condvae.training.run_folder",
    "options_for": "condvae.training.presets",
    "pretrain": "condvae.training.run",
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
