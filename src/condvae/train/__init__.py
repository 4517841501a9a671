"""Training: unconditional VAEs (`pretrain`) and what conditions them (`condition`)."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from condvae.train.options import ConditionOptions, PretrainOptions, TrainingOptions
    from condvae.train.presets import CONDITION, PRETRAIN, options_for
    from condvae.train.recovery import Diverged
    from condvae.train.run import condition, pretrain
    from condvae.train.run_folder import describe_run
    from condvae.train.signals import Stopped

_HOMES = {
    "CONDITION": "presets",
    "PRETRAIN": "presets",
    "ConditionOptions": "options",
    "Diverged": "recovery",
    "PretrainOptions": "options",
    "Stopped": "signals",
    "TrainingOptions": "options",
    "condition": "run",
    "describe_run": "run_folder",
    "options_for": "presets",
    "pretrain": "run",
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


def __getattr__(name: str) -> Any:
    """Names are found on first use: the command line reads options and presets without importing torch."""
    if name not in _HOMES:
        raise AttributeError(f"module 'condvae.train' has no attribute {name!r}")
    return getattr(importlib.import_module(f"condvae.train.{_HOMES[name]}"), name)
