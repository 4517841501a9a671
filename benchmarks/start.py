"""Measure the time from the start of a process to its first training steps, and print it as JSON for `speed.py`."""

import time

BEGAN = time.time()

import json  # noqa: E402
import sys  # noqa: E402
from dataclasses import dataclass  # noqa: E402
from pathlib import Path  # noqa: E402

import torch  # noqa: E402

sys.path.insert(0, str(Path(__file__).parents[1]))
from benchmarks.works import ON_CPU, ON_GPU, OurTraining, Variant  # noqa: E402
from condvae.runtime.scripts import run_script  # noqa: E402


@dataclass(frozen=True, kw_only=True)
class Options:
    """Time the start of training."""

    device: str = "cuda"
    began: float = BEGAN
    """Time at which the process was started, in seconds since the epoch."""


def main(options: Options) -> None:
    device = torch.device(options.device)
    if device.type == "cuda":
        device = torch.device("cuda", device.index or 0)
        torch.cuda.set_device(device)
    work = next(work for work in (ON_GPU if device.type == "cuda" else ON_CPU) if work.kind == "start")
    seconds = {}

    def mark(name: str) -> None:
        if device.type == "cuda":
            torch.cuda.synchronize()
        seconds[name] = round(time.time() - options.began, 3)

    mark("imported")
    training = OurTraining(work, device, Variant())
    mark("built")
    training()
    mark("first step")
    training()  # on a GPU, the step is recorded as a graph and then replayed
    mark("first replayed step")
    training()
    mark("one more step")
    print(json.dumps({"seconds": seconds, "remarks": training.remarks()}))


if __name__ == "__main__":
    run_script(main, Options)
