"""Measure how many freeform holes per second condvae and a reference draw, in the same run.

The reference draws one hole at a time with NumPy's random numbers and PIL, as public code does. Tests use it too; it is
in tests/helpers/plain_freeform.py. Usage: python benchmarks/masks.py [--device cuda]
"""

import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from helpers.plain_freeform import candidate

from condvae.observe import Freeform
from condvae.runtime.scripts import run_script

RANGES = ((0.0, 1.0), (0.0, 0.2), (0.2, 0.4), (0.4, 0.6), (0.6, 0.8), (0.8, 1.0))


@dataclass(frozen=True, kw_only=True)
class Options:
    """Measure how many freeform holes are drawn per second."""

    sizes: tuple[int, ...] = (32, 64, 256)
    """Image sizes, in pixels per side."""
    batch: int = 128
    """Number of holes that condvae draws in one call."""
    seconds: float = 2.0
    """Duration of each measurement, in seconds."""
    device: str = "cpu"
    threads: int = 2
    """Number of CPU threads of torch."""


def main(options: Options) -> None:
    torch.set_num_threads(options.threads)
    generator = torch.Generator(options.device).manual_seed(0)
    rng = np.random.default_rng(0)
    rows = []
    print("size  hidden share   ours/s  reference/s  ratio")
    for size in options.sizes:
        for low, high in RANGES:
            process = Freeform(low=low, high=high)
            ours = options.batch * rate(partial(draw, process, options.batch, size, generator), options.seconds)
            reference = rate(partial(one, rng, size, low, high), options.seconds)
            rows.append({"size": size, "low": low, "high": high, "ours": ours, "reference": reference})
            print(
                f"{size:4}  {low:.1f} to {high:.1f}  {ours:9,.0f}  {reference:11,.0f}  {ours / reference:5.1f}",
                flush=True,
            )
    print(json.dumps({"device": options.device, "threads": options.threads, "batch": options.batch, "rows": rows}))


def draw(process: Freeform, batch: int, size: int, generator: torch.Generator) -> None:
    process.draw(batch, size, generator)
    if generator.device.type == "cuda":
        torch.cuda.synchronize()


def one(rng: np.random.Generator, size: int, low: float, high: float) -> None:
    """Draw candidates until one has a hidden share between low and high."""
    while not low < 1 - candidate(rng, size, low=low, high=high).mean() < high:
        pass


def rate(work: Callable[[], None], seconds: float) -> float:
    """Return the number of calls per second, without the first call."""
    work()
    begin, calls = time.perf_counter(), 0
    while time.perf_counter() - begin < seconds:
        work()
        calls += 1
    return calls / (time.perf_counter() - begin)


if __name__ == "__main__":
    run_script(main, Options)
