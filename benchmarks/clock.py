"""Timing of work on a device that may still be computing when the call returns."""

import time
from collections.abc import Callable

import torch


def seconds(work: Callable[[], object], device: torch.device) -> float:
    """Return the seconds that one call takes; the device is idle before it and after it."""

    def done() -> float:
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        return time.perf_counter()

    begin = done()
    work()
    return done() - begin
