"""Time `condvae complete` on a CPU, from the start of its process to its end, and then each of its parts.

python benchmarks/completion.py
python benchmarks/completion.py --model shoes64 --image tests/fixtures/drawings/sneaker.png --half none
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from condvae.runtime.scripts import run_script

FACE = Path(__file__).parents[1] / "tests" / "fixtures" / "faces64" / "Eva_Amurri_0001.jpg"
PARTS = """
import json, sys, time
seconds, last = {}, time.perf_counter()
def mark(name):
    global last
    seconds[name], last = round(time.perf_counter() - last, 3), time.perf_counter()
import torch; mark("import torch")
import condvae, condvae.completion; mark("import condvae")
model = condvae.load(sys.argv[2]); mark("load the model")
half = sys.argv[3] or None
condvae.complete(sys.argv[1], half=half, model=model, n=8); mark("8 completions")
condvae.complete(sys.argv[1], half=half, model=model, n=8); mark("8 more completions")
condvae.complete(sys.argv[1], half=half, model=model, n=64); mark("64 completions")
print(json.dumps(seconds))
"""


@dataclass(frozen=True, kw_only=True)
class Options:
    """Time `condvae complete` on a CPU."""

    image: Path = FACE
    model: str = "faces64"
    half: Literal["left", "right", "top", "bottom", "none"] = "right"
    """Which half of the image is hidden; none for a model that is given edges or another picture."""
    n: int = 8
    """Number of completions per call."""
    runs: int = 5
    """Number of calls to time."""


def main(options: Options) -> None:
    print(f"{os.cpu_count()} CPU cores")
    for i in range(options.runs):
        with tempfile.TemporaryDirectory() as out:
            words = ["complete", options.image, "-n", options.n, "--model", options.model, "--device", "cpu", "-o", out]
            words += [] if options.half == "none" else ["--half", options.half]
            begin = time.perf_counter()
            command = [sys.executable, "-m", "condvae", *map(str, words)]
            subprocess.run(command, check=True, capture_output=True)
            print(f"call {i + 1}: {time.perf_counter() - begin:.2f} s for {options.n} completions", flush=True)
    half = "" if options.half == "none" else options.half
    parts = [sys.executable, "-c", PARTS, str(options.image), options.model, half]
    seconds = json.loads(subprocess.run(parts, check=True, capture_output=True, text=True).stdout)
    print("; ".join(f"{name} {took:.2f} s" for name, took in seconds.items()))


if __name__ == "__main__":
    run_script(main, Options)
