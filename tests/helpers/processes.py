"""Run scripts as processes that can be killed or be ranks. They fork from a process that has already imported torch."""

import multiprocessing
import os
import runpy
import signal
import socket
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.process import BaseProcess
from pathlib import Path

import torch
from helpers.fixtures import ROOT

CONDVAE = ROOT / "src" / "condvae" / "__main__.py"
PATIENCE = 120
"""Seconds after which a process is considered stuck."""


@contextmanager
def started(script: Path, *words: str | Path, said: Path, **environment: object) -> Iterator[BaseProcess]:
    """Run `python SCRIPT WORDS` with its output in the file `said`; kill it at the end if it is still running."""
    processes = multiprocessing.get_context("forkserver")
    processes.set_forkserver_preload(["condvae.cli", "condvae.training.entry_points", "helpers.resumed_runs"])
    settings = {name: str(value) for name, value in environment.items()}
    process = processes.Process(target=_run_script, args=(script, [str(word) for word in words], said, settings))
    process.start()
    try:
        yield process
    finally:
        process.kill()
        process.join()


def without_sync(fd: object) -> None:
    """Replace `os.fsync`, which waits until files are on the disk: a killed process loses nothing without it."""


def _run_script(script: Path, words: list[str], said: Path, environment: dict[str, str]) -> None:
    os.environ.update(environment)
    tempfile.tempdir = None  # use the temporary folder of the new environment
    with open(said, "ab") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    # A shell or nohup may have told its children to ignore these.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    os.fsync = without_sync
    torch.set_num_threads(1)  # as in the tests, so that results do not depend on the number of cores
    sys.argv = [str(script), *words]
    runpy.run_path(str(script), run_name="__main__")


def to_the_end(process: BaseProcess, said: Path, expect: int = 0) -> str:
    """Wait for the process, check its exit code, and return its output."""
    process.join(PATIENCE)
    assert process.exitcode == expect, f"exit code {process.exitcode}\n{said.read_text()}"
    return said.read_text()


def say(script: Path, *words: str | Path, said: Path, expect: int = 0, **environment: object) -> str:
    """Run a script to its end, and return its output."""
    said.unlink(missing_ok=True)
    with started(script, *words, said=said, **environment) as process:
        return to_the_end(process, said, expect)


@contextmanager
def two_ranks(script: Path, *words: str | Path, said: Path) -> Iterator[tuple[BaseProcess, BaseProcess]]:
    """Start two ranks of a script, as torchrun would."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": free.getsockname()[1], "WORLD_SIZE": 2}
    first, second = (started(script, *words, said=said, RANK=rank, LOCAL_RANK=rank, **place) for rank in range(2))
    with first as one, second as other:
        yield one, other


def on_two_ranks(script: Path, *words: str | Path, said: Path | None = None) -> str:
    """Run two ranks to their end, and return their output. By default, its file is named after the first word."""
    said = said or Path(words[0]).with_suffix(".log")
    with two_ranks(script, *words, said=said) as ranks:
        for process in ranks:
            to_the_end(process, said)
    return said.read_text()
