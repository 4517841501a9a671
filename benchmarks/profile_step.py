"""Print the time of each kernel in one of our training steps or completions.

Usage: python benchmarks/profile_step.py [--work ipa-128] [--device cuda] [--rows 15]
"""

import sys
from dataclasses import dataclass
from pathlib import Path

import torch
from torch.profiler import ProfilerActivity, profile

sys.path.insert(0, str(Path(__file__).parents[1]))
from benchmarks.works import ON_CPU, ON_GPU, Variant, ours
from condvae.runtime.scripts import run_script


@dataclass(frozen=True, kw_only=True)
class Options:
    """Profile one training step or completion."""

    work: str = "ipa-128"
    """Name of a row in benchmarks/speed.py."""
    device: str = "cuda" if torch.cuda.is_available() else "cpu"
    streams: int | None = 0
    """Number of side streams. With any, kernels overlap, and their times no longer add up to the time of the step."""
    rows: int = 15
    """Number of kernels to print; those that take the most time come first."""


def main(options: Options) -> None:
    device = torch.device(options.device)
    works = [work for work in (ON_GPU if device.type == "cuda" else ON_CPU) if work.name == options.work]
    if not works:
        raise SystemExit(f"unknown --work {options.work!r}: benchmarks/works.py lists the names")
    run = ours(works[0], device, Variant(streams=options.streams))
    for _ in range(4):
        run()
    activity = ProfilerActivity.CUDA if device.type == "cuda" else ProfilerActivity.CPU
    with profile(activities=[activity], acc_events=True) as profiler:
        run()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
    on_gpu = device.type == "cuda"
    events = [(e.self_device_time_total if on_gpu else e.self_cpu_time_total, e) for e in profiler.key_averages()]
    events.sort(key=lambda pair: -pair[0])
    total = sum(time for time, _ in events)
    print(f"{options.work} on {device}: {total / 1e3:.2f} ms in {sum(e.count for _, e in events):,} kernels")
    print("      ms  share   calls       us  kernel")
    for time, event in events[: options.rows]:
        mean = time / max(event.count, 1)
        print(f"{time / 1e3:8.2f} {time / total:6.1%} {event.count:7} {mean:8.1f}  {event.key[:90]}")


if __name__ == "__main__":
    run_script(main, Options)
