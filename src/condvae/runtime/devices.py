"""Devices of torch: from names, such as "auto" or "cuda:1", when their work is done, and the meta device, for networks
without weights.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from condvae.runtime.messages import counted


def resolve_device(text: str = "auto") -> torch.device:
    """Return the torch device for the name auto, cpu, cuda or cuda:N; auto is a GPU if there is one, else the CPU.

    Raise ValueError if the device cannot be used.
    """
    if text == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(text)
    except RuntimeError:
        device = torch.device("meta")
    if device.type not in ("cpu", "cuda"):
        raise ValueError(f"device {text!r} cannot be used, expected auto, cpu, cuda or cuda:N")
    if device.type == "cuda" and not torch.cuda.is_available():
        raise ValueError(f"device {text} was requested, but torch finds no GPU on this machine: use cpu")
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        n = torch.cuda.device_count()
        gpus = counted(n, "GPU")
        raise ValueError(f"device {text} was requested, but this machine has {gpus}: give cuda:N with an N below {n}")
    return device


def time_at(device: torch.device) -> float:
    """Return the time in seconds, on a clock of its own, at which the device has finished its work."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()


@contextmanager
def without_weights() -> Iterator[None]:
    """Context in which networks are built on the meta device, where tensors have shapes but no values.

    Weights are not initialised: on this device it would have no effect, but slow down the loading of small models.
    """
    with torch.device("meta"), _NoInitialisation():
        yield


class _NoInitialisation(TorchFunctionMode):
    """Makes functions of torch.nn.init return their tensor as it is."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        given = dict(kwargs or {})
        if getattr(func, "__module__", None) == "torch.nn.init":
            return args[0] if args else given["tensor"]
        return func(*args, **given)
