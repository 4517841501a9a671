"""How long something takes on a device, which may still be at it when Python has gone on."""

import time
from collections.abc import Callable

import torch


def seconds(work: Callable[[], object], device: torch.device) -> float:
    """Of one call, from nothing left to do to nothing left to do."""

    def done() -> float:
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        return time.perf_counter()

    begin = done()
    work()
    return done() - begin
