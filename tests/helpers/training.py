"""Small trainings for tests by the command line, and comparisons of two runs."""

import atexit
import contextlib
import functools
import io
import json
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import torch
from helpers.fixtures import FIXTURES
from safetensors.torch import load_file

from condvae import cli

FACES = FIXTURES / "faces32.zip"


@functools.cache
def few_faces() -> Path:
    """A zip file with 160 of the faces, because decoding all of them takes longer than a short training."""
    folder = Path(tempfile.mkdtemp(prefix="condvae-tests-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    with zipfile.ZipFile(FACES) as faces, zipfile.ZipFile(folder / "faces.zip", "w") as fewer:
        for name in faces.namelist()[:160]:
            fewer.writestr(name, faces.read(name))
    return folder / "faces.zip"


# Faces at 8 x 8: small enough that a step takes milliseconds.
SMALL = ["--data", str(few_faces()), "--size", "8", "--batch", "8", "--evaluate-on", "16", "--device", "cpu"]


def command(*words: str | Path, ranks: int = 1, restarts: int = 0, script: Path | None = None) -> list[str]:
    """The command for `condvae ...`, or for a script, in one process or under torchrun."""
    what = [str(script)] if script else ["-m", "condvae"]
    if ranks == 1:
        return [sys.executable, *what, *map(str, words)]
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"]
    return [*launcher, f"--max-restarts={restarts}", *what, *map(str, words)]


def environment(**more: str) -> dict[str, str]:
    """The environment with one thread per process, so that results and times do not depend on free cores."""
    return {**os.environ, "OMP_NUM_THREADS": "1", **more}


def run(*words: str | Path, expect: int = 0, **options: Any) -> str:
    """Run the command to its end, check its exit code, and return its output."""
    done = subprocess.run(
        command(*words, **options), env=environment(), capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == expect, f"exit code {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout + done.stderr


def call(*words: str | Path, expect: int = 0) -> str:
    """Like `run`, but in this process, because starting a process would take most of the time."""
    printed, code = io.StringIO(), 0
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        try:
            cli.main([str(word) for word in words])
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else int(end.code is not None)
    assert code == expect, f"exit code {code}\n{printed.getvalue()}"
    return printed.getvalue()


def log_of(folder: Path, *events: str) -> list[dict[str, Any]]:
    """The lines of a run's log, without times and speeds."""
    lines = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    clock = ("images_per_second", "elapsed")
    return [
        {key: value for key, value in line.items() if key not in clock}
        for line in lines
        if not events or line["event"] in events
    ]


def assert_same_model(one: Path, other: Path, *, tolerance: float = 0.0) -> None:
    mine, theirs = load_file(one), load_file(other)
    assert mine.keys() == theirs.keys()
    for name, tensor in mine.items():
        torch.testing.assert_close(tensor, theirs[name], rtol=tolerance, atol=tolerance)
