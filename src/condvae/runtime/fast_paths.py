"""A registry of fast implementations: `condvae.kernels` registers them, and plain torch code looks them up.

This way, the model's files do not depend on kernels and run without them.
"""

from collections.abc import Callable
from typing import Any, TypeAlias

import torch

Finder: TypeAlias = Callable[[torch.device], Callable[..., Any] | None]
"""A function that returns the fast implementation for a device, or None if the device has none."""

_FINDERS: dict[str, Finder] = {}


def attach(name: str, find: Finder) -> None:
    """Register `find` as the function that `fast_path(name, device)` calls."""
    _FINDERS[name] = find


def fast_path(name: str, device: torch.device) -> Callable[..., Any] | None:
    """Return the fast implementation with this name for the device, or None if plain torch must be used."""
    find = _FINDERS.get(name)
    return find(device) if find else None
