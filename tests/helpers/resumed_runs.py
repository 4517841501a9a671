"""Experiments in several calls and processes, for tests of whichever experiment it is."""

import copy
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from condvae.experiments.resumable_work import Shard
from condvae.runtime.ranks import join

Run = Callable[..., dict[str, Any] | None]
"""A small experiment into a folder, with options of its own."""


def without_clock(result: dict[str, Any] | None, *sections: str) -> dict[str, Any]:
    """All that was measured, without what a clock put into the entries of some sections."""
    assert result is not None
    found = copy.deepcopy(result)
    for section in sections:
        for entry in found[section].values():
            del entry["seconds"]
    return found


def uninterrupted(run: Run, figures: ModuleType, folder: Path) -> dict[str, Any]:
    """The report of the whole, without figures."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(figures, "draw", lambda result, out: [])
        result = run(folder)
    assert result is not None
    return result


def one_process(run: Run, figures: Any, arguments: Sequence[str]) -> None:
    """`OUT [I/N]`: one process of the whole, alone or under torchrun."""
    out, shard = Path(arguments[0]), Shard.parse(arguments[1]) if len(arguments) > 1 else None
    torch.set_num_threads(1)
    figures.draw = lambda result, folder: []
    with join("cpu") as world:
        run(out, world=world, shard=shard, say=lambda line: print(line, flush=True))


def contents(folder: Path) -> dict[str, bytes]:
    """The numbers of every part, without what its head says of the time that they took."""
    found = {}
    for path in folder.rglob("*.safetensors"):
        data = path.read_bytes()
        found[str(path.relative_to(folder))] = data[8 + int.from_bytes(data[:8], "little") :]
    return found


def times(folder: Path) -> dict[Path, int]:
    """When every part was written."""
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*.safetensors")}
