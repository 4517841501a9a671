"""Time a call that starts work on a device, including the work that the device finishes after the call returns."""

import time
from collections.abc import Callable

import torch


def seconds(work: Callable[[], object], device: torch.device) -> float:
    """Return how many seconds one call takes, from an idle device to an idle device."""

    def done() -> float:
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        return time.perf_counter()

    begin = done()
    work()
    return done() - begin
