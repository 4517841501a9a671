"""The entry point of the command line: what holds for every verb."""

import subprocess
import sys
from pathlib import Path

import pytest
from helpers.commands import failure


def test_the_installed_command_and_the_module_are_the_same() -> None:
    command = Path(sys.executable).with_name("condvae")
    outputs = [  # help is quick, because it does not import torch
        subprocess.run([*program, "sample", "--help"], capture_output=True, check=True).stdout
        for program in ([command], [sys.executable, "-m", "condvae"])
    ]
    assert outputs[0] == outputs[1] and b"--temperature" in outputs[0]


def test_running_out_of_memory_gives_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from condvae.cli.complete import Complete
    from condvae.cli.ood_experiment import OODExperiment
    from condvae.cli.ood_score import OODScore

    def run(self: object) -> None:
        raise MemoryError

    monkeypatch.setattr(Complete, "run", run)
    assert "not enough memory: give a smaller -n" in failure(capsys, "complete", "x.png")
    monkeypatch.setattr(OODExperiment, "run", run)
    assert "memory: give a smaller --block, or smaller or" in failure(capsys, "ood", "experiment", "--data", "x")
    monkeypatch.setattr(OODScore, "run", run)  # it has no option for how much is computed together
    assert "not enough memory: give smaller or fewer images" in failure(capsys, "ood", "score", "x.png")


def test_a_closed_pipe_is_no_error() -> None:
    command = f"{sys.executable} -m condvae info --json | head -c 10"
    done = subprocess.run(["bash", "-c", command], capture_output=True, check=True)
    assert (len(done.stdout), done.stderr) == (10, b"")


def test_a_list_option_that_is_given_twice_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given: list[str | Path] = ["ood", "experiment", "--data", tmp_path, "--against", "a=x", "--against", "b=y"]
    assert "--against was given twice: give it once" in failure(capsys, *given)
