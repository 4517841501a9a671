"""Scripts as processes that can be killed or be ranks, begun where torch has been imported once for all of them."""

import multiprocessing
import os
import runpy
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
"""Seconds after which a process counts as stuck."""


@contextmanager
def started(script: Path, *words: str | Path, said: Path, **environment: object) -> Iterator[BaseProcess]:
    """`python SCRIPT WORDS`, which writes what it says to a file; whatever is left of it at the end is killed."""
    processes = multiprocessing.get_context("forkserver")
    processes.set_forkserver_preload(["condvae.cli", "condvae.training.entry_points", "helpers.resumed_runs"])
    settings = {name: str(value) for name, value in environment.items()}
    process = processes.Process(target=_be, args=(script, [str(word) for word in words], said, settings))
    process.start()
    try:
        yield process
    finally:
        process.kill()
        process.join()


def _be(script: Path, words: list[str], said: Path, environment: dict[str, str]) -> None:
    os.environ.update(environment)
    tempfile.tempdir = None  # as the environment says, not as it was where we come from
    with open(said, "ab") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    torch.set_num_threads(1)  # as in the tests themselves: results then do not hang on how many cores there are
    sys.argv = [str(script), *words]
    runpy.run_path(str(script), run_name="__main__")


def to_the_end(process: BaseProcess, said: Path, expect: int = 0) -> str:
    """What a process has said when it ends, which it must do soon, and as expected."""
    process.join(PATIENCE)
    assert process.exitcode == expect, f"exit code {process.exitcode}\n{said.read_text()}"
    return said.read_text()


def say(script: Path, *words: str | Path, said: Path, expect: int = 0, **environment: object) -> str:
    """What a script says until its end."""
    said.unlink(missing_ok=True)
    with started(script, *words, said=said, **environment) as process:
        return to_the_end(process, said, expect)


@contextmanager
def two_ranks(script: Path, *words: str | Path, said: Path) -> Iterator[tuple[BaseProcess, BaseProcess]]:
    """Two processes that know of each other, as torchrun would start them."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": free.getsockname()[1], "WORLD_SIZE": 2}
    first, second = (started(script, *words, said=said, RANK=rank, LOCAL_RANK=rank, **place) for rank in range(2))
    with first as one, second as other:
        yield one, other


def on_two_ranks(script: Path, *words: str | Path, said: Path | None = None) -> str:
    """What two ranks say until their end: to a file beside the first word, a folder, unless another is named."""
    said = said or Path(words[0]).with_suffix(".log")
    with two_ranks(script, *words, said=said) as ranks:
        for process in ranks:
            to_the_end(process, said)
    return said.read_text()
