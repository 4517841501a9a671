"""Small trainings for tests by the command line, and comparisons of two runs."""

import atexit
import contextlib
import functools
import io
import json
import shutil
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import torch
from helpers.fixtures import FIXTURES
from helpers.models import SMALLEST
from safetensors.torch import load_file

from condvae import cli

FACES = FIXTURES / "faces32.zip"


@functools.cache
def _folder() -> Path:
    """A folder for the files of this process, which is removed at its end."""
    folder = Path(tempfile.mkdtemp(prefix="condvae-tests-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


@functools.cache
def few_faces() -> Path:
    """A zip file with 160 of the faces, because decoding all of them takes longer than a short training."""
    path = _folder() / "faces.zip"
    with zipfile.ZipFile(FACES) as faces, zipfile.ZipFile(path, "w") as fewer:
        for name in faces.namelist()[:160]:
            fewer.writestr(name, faces.read(name))
    return path


@functools.cache
def smallest_network() -> str:
    """A file with the configuration of a network whose steps take half as long as those of the network tiny."""
    path = _folder() / "network.json"
    path.write_text(json.dumps(SMALLEST.to_dict()))
    return str(path)


# Faces at 8 x 8: small enough that a step takes milliseconds.
SMALL = ["--data", str(few_faces()), "--size", "8", "--batch", "8", "--evaluate-on", "16", "--device", "cpu"]


def call(*words: str | Path, expect: int = 0) -> str:
    """Run `condvae WORDS` in this process, check its exit code, and return its output."""
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
