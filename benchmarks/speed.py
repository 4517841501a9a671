"""Compare the speed of condvae's training and sampling with that of the reference (`reference.py`), in one process.

It measures the paper's networks on a GPU, and a small network on a CPU. It prints a table, one row as soon as it is
measured, and the same numbers as JSON.
Usage: python benchmarks/speed.py [--device cuda] [--works ipa-128 complete-1] [--ablation] [--out table.json]
"""

import dataclasses
import functools
import gc
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import torch

sys.path.insert(0, str(Path(__file__).parents[1]))
from benchmarks.works import ON_CPU, ON_GPU, Runner, Variant, Work, ours, theirs
from condvae.runtime.scripts import run_script

WARM_UP, REPEATS = 3, 5
TOGETHER, LONGEST_START = 0.2, 300.0  # seconds
ABLATION = {
    "plain eager fp32": Variant(precision="fp32", fused=False, graph=False),
    "plain eager bf16": Variant(precision="bf16", fused=False, graph=False),
    "bf16, graph": Variant(precision="bf16", fused=False),
    "fused kernels": Variant(precision="bf16", fused=True, graph=False),
    "fused kernels, graph, one stream": Variant(precision="bf16", fused=True, streams=0),
    "fused kernels, graph": Variant(precision="bf16", fused=True),
    # This comes last, because it takes minutes until its first step.
    "bf16, compiled blocks, graph": Variant(precision="bf16", fused=False, compiled=True),
}


@dataclass(frozen=True, kw_only=True)
class Options:
    """Compare the speed of training and sampling with the reference."""

    device: str = "cuda" if torch.cuda.is_available() else "cpu"
    works: tuple[str, ...] = ()
    """Names of the rows to measure. By default, all rows."""
    seconds: float = 2.0
    """Duration of each measurement after the warm-up, in seconds; at least five repeats are timed."""
    reference: bool = True
    """Also measure the reference."""
    ablation: bool = False
    """Measure only the IPA steps, with our optimisations added one after another, and without the reference."""
    recompute: Literal["auto", "yes", "no"] = "auto"
    """Whether our steps recompute activations instead of keeping them. auto: decide as `condvae train` does."""
    threads: int = 2
    """Number of CPU threads of torch."""
    out: Path | None = None
    """JSON file for the rows. It is written again after each row."""


@dataclass(frozen=True, kw_only=True)
class Side:
    """The measurements of one implementation: condvae or the reference."""

    ms: float
    """Median time of a whole batch, in milliseconds."""
    per_second: float
    """Images, completions or holes per second."""
    first_call_s: float
    """Time from the start of building the model to the end of the first call, in seconds."""
    allocated_gb: float | None = None
    """Largest amount of GPU memory that was allocated at one time."""
    reserved_gb: float | None = None
    remarks: list[str] = field(default_factory=list)


@dataclass(kw_only=True)
class Row:
    """One row of the table: the measurements of one kind of work, such as a training step."""

    work: str
    batch: int
    network: str
    ours: Side | None = None
    reference: Side | None = None
    ratio: float | None = None
    tflops: float | None = None
    """Floating-point operations per second of condvae, in TFLOP/s."""
    share_of_peak: float | None = None
    target: str = ""
    met: str = ""
    seconds: dict[str, float] = field(default_factory=dict)
    """Seconds from the start of a process to each stage, by the name of the stage."""
    remarks: list[str] = field(default_factory=list)

    def text(self) -> str:
        def number(value: float | None, digits: int = 1) -> str:
            return "-" if value is None else f"{value:,.{digits}f}"

        def memory(side: Side | None) -> str:
            if side is None or side.allocated_gb is None:
                return "-"
            return f"{side.allocated_gb:.1f}/{side.reserved_gb:.1f}"

        mine, other = self.ours, self.reference
        share = "-" if self.share_of_peak is None else f"{self.share_of_peak:.1%}"
        cells = (
            f"{self.work:44}{self.batch:6}",
            "".join(f"{number(side.ms if side else None, 2):>11}" for side in (mine, other))
            + f"{number(self.ratio):>7}",
            "".join(f"{number(side.per_second if side else None):>12}" for side in (mine, other)),
            f"{memory(mine):>12}{memory(other):>12}{number(self.tflops):>9}{share:>7}",
            f"  {self.target:24}{self.met:6}",
            "; ".join([*(f"{name} {s:.1f} s" for name, s in self.seconds.items()), *self.remarks]),
        )
        return "".join(cells).rstrip()


HEADER = (
    f"{'work':44}{'batch':>6}{'ours ms':>11}{'ref ms':>11}{'ratio':>7}{'ours/s':>12}{'ref/s':>12}"
    f"{'GB ours':>12}{'GB ref':>12}{'TFLOP/s':>9}{'peak':>7}  {'must (reach for)':24}{'met':6}remarks"
)


def main(options: Options) -> None:
    torch.set_num_threads(options.threads)
    device = torch.device(options.device)
    if device.type == "cuda":
        device = torch.device("cuda", torch.cuda.current_device() if device.index is None else device.index)
        torch.cuda.set_device(device)
    works = chosen(ON_GPU if device.type == "cuda" else ON_CPU, options.works)
    peak = measured_peak(device)
    machine = {
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else f"cpu, {options.threads} threads",
        "torch": torch.__version__,
        "peak_tflops": peak / 1e12,
    }
    print(f"{machine['device']}, torch {torch.__version__}, measured peak {peak / 1e12:,.2f} TFLOP/s")
    print("ref: the reference; GB: largest memory allocated / reserved\n" + HEADER, flush=True)
    rows: list[Row] = []

    def done(row: Row) -> None:
        rows.append(row)
        print(row.text(), flush=True)
        if options.out:
            options.out.write_text(as_json(machine, rows) + "\n")

    recompute = None if options.recompute == "auto" else options.recompute == "yes"
    for work in works:
        if options.ablation:
            for name, variant in ABLATION.items() if work.name in ("ipa-128", "ipa-30") else ():
                variant = dataclasses.replace(variant, recompute=recompute)
                row = compare(work, device, variant, options.seconds, peak, reference=False)
                row.work = f"{work.name}: {name}"
                if row.ours:
                    row.seconds["to the first step"] = round(row.ours.first_call_s, 2)
                done(row)
        elif work.kind == "start":
            free(device)
            with tempfile.TemporaryDirectory() as cache:
                done(start(work, device, Path(cache), "cold cache"))
                done(start(work, device, Path(cache), "warm cache"))
        else:
            done(compare(work, device, Variant(recompute=recompute), options.seconds, peak, options.reference))
    print("\n" + "\n".join([HEADER, *(row.text() for row in rows)]))
    print(as_json(machine, rows))


def chosen(works: Sequence[Work], names: Sequence[str]) -> list[Work]:
    """Return the works with these names, or all works if there are no names, in the order of `works`."""
    if unknown := sorted(set(names) - {work.name for work in works}):
        known = ", ".join(dict.fromkeys(work.name for work in works))
        raise SystemExit(f"unknown in --works: {', '.join(unknown)}; expected names among {known}")
    return [work for work in works if not names or work.name in names]


def as_json(machine: dict[str, object], rows: Sequence[Row]) -> str:
    return json.dumps({**machine, "rows": [dataclasses.asdict(row) for row in rows]})


def compare(work: Work, device: torch.device, variant: Variant, seconds: float, peak: float, reference: bool) -> Row:
    """Measure condvae and then the reference. If one of them fails, a remark in the row tells why."""
    row = Row(work=work.name, batch=work.batch, network=work.network)
    sides: list[tuple[str, Callable[[], Runner]]] = [("ours", functools.partial(ours, work, device, variant))]
    if reference:
        sides.append(("reference", functools.partial(theirs, work, device)))
    for name, build in sides:
        try:
            side = measure(build, work, device, seconds)
        except Exception as error:  # a failed row must not end the run
            row.remarks.append(f"{name} failed: {type(error).__name__}: {first_line(error)}")
        else:
            setattr(row, name, side)
            row.remarks += side.remarks
    if row.ours and row.reference:
        row.ratio = row.reference.ms / row.ours.ms
    if row.ours and work.flop:
        row.tflops = row.ours.per_second * work.flop / 1e12
        row.share_of_peak = row.tflops * 1e12 / peak
    if work.target and row.ours:
        row.target = str(work.target)
        value = {"/s": row.ours.per_second, "ms": row.ours.ms, "x": row.ratio, "s": None}[work.target.unit]
        row.met = work.target.judge(value, row.ours.allocated_gb)
    return row


def measure(build: Callable[[], Runner], work: Work, device: torch.device, seconds: float) -> Side:
    """Build the work, warm up, and time it. Short steps are timed in groups, as training does not wait after each."""
    cuda = device.type == "cuda"
    free(device)
    if cuda:
        torch.cuda.reset_peak_memory_stats(device)
    begin = time.perf_counter()
    runner = build()

    def repeat(calls: int) -> float:
        begin = time.perf_counter()
        for _ in range(calls):
            runner()
        if cuda:
            torch.cuda.synchronize(device)
        return (time.perf_counter() - begin) / calls

    repeat(1)
    first = time.perf_counter() - begin
    for _ in range(WARM_UP - 1):
        repeat(1)
    calls = 1 if work.kind == "complete" else max(1, min(10, int(TOGETHER / repeat(1))))
    times: list[float] = []
    end = time.perf_counter() + seconds
    while len(times) < REPEATS or time.perf_counter() < end:
        times.append(repeat(calls))
    took = statistics.median(times)
    return Side(
        ms=1000 * took * work.batch / runner.items,
        per_second=runner.items / took,
        first_call_s=first,
        allocated_gb=torch.cuda.max_memory_allocated(device) / 1e9 if cuda else None,
        reserved_gb=torch.cuda.max_memory_reserved(device) / 1e9 if cuda else None,
        remarks=runner.remarks(),
    )


def start(work: Work, device: torch.device, cache: Path, name: str) -> Row:
    """Time a new process from its start to its first training steps."""
    row = Row(work=f"{work.name}, {name}", batch=work.batch, network=work.network)
    caches = {"TRITON_CACHE_DIR": str(cache / "triton"), "TORCHINDUCTOR_CACHE_DIR": str(cache / "inductor")}
    command = [sys.executable, str(Path(__file__).with_name("start.py")), "--device", str(device)]
    try:
        child = subprocess.run(
            [*command, "--began", str(time.time())],
            env={**os.environ, **caches},
            capture_output=True,
            text=True,
            check=True,
            timeout=LONGEST_START,
        )
    except subprocess.SubprocessError as error:
        message = error.stderr if isinstance(error, subprocess.CalledProcessError) else str(error)
        row.remarks.append(f"failed: {(message.strip().splitlines() or ['?'])[-1]}")
        return row
    report = json.loads(child.stdout.splitlines()[-1])
    row.seconds, row.remarks = report["seconds"], report["remarks"]
    if work.target:
        row.target, row.met = str(work.target), work.target.judge(row.seconds["first step"], None)
    return row


def measured_peak(device: torch.device) -> float:
    """Return the floating-point operations per second of a large matrix product: bfloat16 on a GPU, else float32."""
    size, dtype = (8192, torch.bfloat16) if device.type == "cuda" else (1024, torch.float32)
    a, b = (torch.randn(size, size, device=device, dtype=dtype) for _ in range(2))
    times = []
    for _ in range(13):
        begin = time.perf_counter()
        a @ b
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        times.append(time.perf_counter() - begin)
    return 2 * size**3 / statistics.median(times[3:])


def free(device: torch.device) -> None:
    """Free the memory of earlier measurements."""
    if "torch._dynamo" in sys.modules:
        torch.compiler.reset()
    gc.collect()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
        torch.cuda.empty_cache()


def first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0][:200] if lines else ""


if __name__ == "__main__":
    run_script(main, Options)
