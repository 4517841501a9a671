"""Experiments in several calls and processes, for tests of whichever experiment it is."""

import contextlib
import copy
import os
import pickle
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from helpers.processes import PATIENCE, on_two_ranks, say, started

from condvae.experiments.resumable_work import Shard, WorkUnit
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


def computed_once(
    factory: pytest.TempPathFactory, name: str, run: Callable[[Path], dict[str, Any] | None]
) -> tuple[Path, dict[str, Any]]:
    """A folder of one's own with what `run` leaves there, and what it returns; one worker of xdist runs it for all."""
    own = factory.mktemp(name)
    if "PYTEST_XDIST_WORKER" not in os.environ:
        return own / "whole", _computed(run, own)
    common = factory.getbasetemp().parent / f"{name}-of-all"
    lock = common.with_suffix(".lock")
    until = time.monotonic() + PATIENCE
    while not common.exists():
        try:
            lock.mkdir()
        except FileExistsError:
            assert time.monotonic() < until, f"{lock} is of a worker that is stuck or gone"
            time.sleep(0.05)
            continue
        try:
            if not common.exists():
                result = _computed(run, own)
                shutil.copytree(own, common.with_suffix(".part"))
                common.with_suffix(".part").rename(common)
                return own / "whole", result
        finally:  # where it failed, the others fail by themselves
            lock.rmdir()
    shutil.copytree(common, own, dirs_exist_ok=True)
    result = pickle.loads((own / "returned.pickle").read_bytes())
    return own / "whole", result


def _computed(run: Callable[[Path], dict[str, Any] | None], folder: Path) -> dict[str, Any]:
    result = run(folder / "whole")
    assert result is not None
    (folder / "returned.pickle").write_bytes(pickle.dumps(result))
    return result


def one_process(run: Run, figures: Any, arguments: Sequence[str]) -> None:
    """`OUT [I/N]`: one process of the whole, alone or under torchrun."""
    out, shard = Path(arguments[0]), Shard.parse(arguments[1]) if len(arguments) > 1 else None
    torch.set_num_threads(1)
    figures.draw = lambda result, folder: []
    with join("cpu") as world:
        run(out, world=world, shard=shard, say=lambda line: print(line, flush=True))


def kill_and_repeat(script: Path, out: Path, *, parts: int, ranks: int = 1) -> None:
    """Kill a script that works into a folder once so many parts are there, and call it again, in one or two ranks."""
    said = out.with_suffix(".log")
    with started(script, out, said=said) as process:
        until = time.monotonic() + PATIENCE
        while len(list(out.rglob("*.safetensors"))) < parts:
            assert process.is_alive() and time.monotonic() < until, said.read_text()
            time.sleep(0.005)
    assert not (out / "results.json").exists()
    found = say(script, out, said=said) if ranks == 1 else on_two_ranks(script, out)
    assert "units of work are done already" in found


@contextlib.contextmanager
def planned(experiment: str) -> Iterator[list[str]]:
    """Calls of `experiment`, a module, plan their work and do none of it: the folders that its results would be in."""
    asked: list[str] = []

    def note(units: Sequence[WorkUnit], *rest: object) -> bool:
        asked.extend(unit.store.folder.name for unit in units)
        return False

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(f"{experiment}.work_together", note)
        yield asked


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
