"""Time a call that starts work on a device, including the work that the device finishes after the call returns."""

from collections.abc import Callable

import torch

from condvae.runtime.devices import time_at


def seconds(work: Callable[[], object], device: torch.device) -> float:
    """Return how many seconds one call takes, from an idle device to an idle device."""
    begin = time_at(device)
    work()
    return time_at(device) - begin
