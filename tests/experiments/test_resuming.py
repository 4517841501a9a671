"""Experiments killed and taken up again, shared out, damaged: the same numbers, whichever experiment it is."""

import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from helpers import experiment_runs, ood_runs
from helpers.fixtures import HELPERS
from helpers.processes import kill_and_repeat, on_two_ranks
from helpers.sittings import contents

LITTLE: dict[ModuleType, dict[str, Any]] = {
    experiment_runs: {"change": {"policies": ("random",)}},
    ood_runs: {"change": {"scores": ("likelihood",), "baselines": (), "sets": ("noise",)}, "foreign": {}},
}
pytestmark = [
    pytest.mark.parametrize("runs", [experiment_runs, ood_runs], ids=["design", "ood"]),
    pytest.mark.usefixtures("undrawn"),
]


def script(runs: ModuleType) -> Path:
    return HELPERS / f"{runs.__name__.rpartition('.')[2]}.py"


def test_killed_and_taken_up_again(tmp_path: Path, runs: ModuleType, sitting: Callable[..., Any]) -> None:
    kill_and_repeat(script(runs), tmp_path / "killed", parts=10)
    result = json.loads((tmp_path / "killed" / "results.json").read_text())
    assert runs.numbers(result) == runs.numbers(sitting(runs).result)
    assert contents(tmp_path / "killed") == contents(sitting(runs).folder)


def test_two_ranks(tmp_path: Path, runs: ModuleType, sitting: Callable[..., Any]) -> None:
    on_two_ranks(script(runs), tmp_path / "ranks")
    result = json.loads((tmp_path / "ranks" / "results.json").read_text())
    assert runs.numbers(result) == runs.numbers(sitting(runs).result)


def test_a_damaged_part_is_one_sentence(tmp_path: Path, runs: ModuleType) -> None:
    runs.small_experiment(tmp_path, **LITTLE[runs])
    part = next(tmp_path.rglob("*.safetensors"))
    part.write_bytes(part.read_bytes()[:-1])
    with pytest.raises(ValueError, match=part.name):
        runs.small_experiment(tmp_path, **LITTLE[runs])
    part.unlink()
    assert runs.small_experiment(tmp_path, **LITTLE[runs]) is not None


def test_a_kill_while_the_report_is_written_is_made_good(tmp_path: Path, runs: ModuleType) -> None:
    first = runs.small_experiment(tmp_path, **LITTLE[runs])
    tables = {path.name for path in tmp_path.glob("results.*")}
    (tmp_path / "results.json").unlink()  # it is written after the other tables
    assert runs.numbers(runs.small_experiment(tmp_path, **LITTLE[runs])) == runs.numbers(first)
    assert (
        {path.name for path in tmp_path.glob("results.*")} == tables == {f"results.{e}" for e in ("csv", "json", "md")}
    )
