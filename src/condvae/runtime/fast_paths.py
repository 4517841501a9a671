"""Where faster ways to compute the same thing attach: `condvae.kernels` adds them, plain code asks for one.

So the files of the model know nothing of kernels, and run without them.
"""

from collections.abc import Callable
from typing import Any, TypeAlias

import torch

Finder: TypeAlias = Callable[[torch.device], Callable[..., Any] | None]
"""The fast way on a device, or None where there is none."""

_FINDERS: dict[str, Finder] = {}


def attach(name: str, find: Finder) -> None:
    """From now on `fast_path(name, device)` asks `find`."""
    _FINDERS[name] = find


def fast_path(name: str, device: torch.device) -> Callable[..., Any] | None:
    """The fast way to do this on the device; None: compute it in plain torch."""
    find = _FINDERS.get(name)
    return find(device) if find else None
