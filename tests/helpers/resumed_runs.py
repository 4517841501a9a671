"""Run any experiment in several calls and processes, for tests of resuming and sharing work."""

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
"""A function that runs a small experiment in a folder, with options."""


def without_clock(result: dict[str, Any] | None, *sections: str) -> dict[str, Any]:
    """All measured values, without the times in the entries of some sections."""
    assert result is not None
    found = copy.deepcopy(result)
    for section in sections:
        for entry in found[section].values():
            del entry["seconds"]
    return found


def uninterrupted(run: Run, figures: ModuleType, folder: Path) -> dict[str, Any]:
    """Run the whole experiment without figures, and return its report."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(figures, "draw", lambda result, out: [])
        result = run(folder)
    assert result is not None
    return result


def computed_once(
    factory: pytest.TempPathFactory, name: str, run: Callable[[Path], dict[str, Any] | None]
) -> tuple[Path, dict[str, Any]]:
    """Return a folder with the files of `run`, and its result. One xdist worker runs it; the others get a copy."""
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
            assert time.monotonic() < until, f"{lock} belongs to a worker that is stuck or has stopped"
            time.sleep(0.05)
            continue
        try:
            if not common.exists():
                result = _computed(run, own)
                shutil.copytree(own, common.with_suffix(".part"))
                common.with_suffix(".part").rename(common)
                return own / "whole", result
        finally:  # if it failed, the other workers try and fail themselves
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
    """Run one process of the experiment, alone or under torchrun. The arguments are `OUT [I/N]`."""
    out, shard = Path(arguments[0]), Shard.parse(arguments[1]) if len(arguments) > 1 else None
    torch.set_num_threads(1)
    figures.draw = lambda result, folder: []
    with join("cpu") as world:
        run(out, world=world, shard=shard, say=lambda line: print(line, flush=True))


def kill_and_repeat(script: Path, out: Path, *, parts: int, ranks: int = 1) -> None:
    """Kill a script when its folder has `parts` result files; then run it again to the end, with one or two ranks."""
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
    """Make the module `experiment` plan its work but not do it; yield a list of the folders of its results."""
    asked: list[str] = []

    def note(units: Sequence[WorkUnit], *rest: object, **options: object) -> bool:
        asked.extend(unit.store.folder.name for unit in units)
        return False

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(f"{experiment}.work_together", note)
        yield asked


def contents(folder: Path) -> dict[str, bytes]:
    """The content of every result file, without its header, which contains times."""
    found = {}
    for path in folder.rglob("*.safetensors"):
        data = path.read_bytes()
        found[str(path.relative_to(folder))] = data[8 + int.from_bytes(data[:8], "little") :]
    return found


def times(folder: Path) -> dict[Path, int]:
    """The time at which every result file was written."""
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*.safetensors")}
