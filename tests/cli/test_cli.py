"""The entry point of the command line: what holds for every verb."""

import subprocess
import sys
from pathlib import Path

import pytest
from helpers.cli_options import options, verbs
from helpers.commands import failure
from helpers.models import small_conditional

from condvae import save
from condvae.cli import MEMORY_OPTIONS


def test_the_installed_command_and_the_module_are_the_same(tmp_path: Path) -> None:
    save(small_conditional(), tmp_path / "model.safetensors")
    command = Path(sys.executable).with_name("condvae")
    outputs = [
        subprocess.run([*program, "info", tmp_path / "model.safetensors"], capture_output=True, check=True).stdout
        for program in ([command], [sys.executable, "-m", "condvae"])
    ]
    assert outputs[0] == outputs[1] != b""


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


def test_the_advice_on_memory_names_options_of_the_verb(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    kinds = verbs()
    assert set(MEMORY_OPTIONS) <= set(kinds)
    for verb, advice in MEMORY_OPTIONS.items():
        assert {option.lstrip("-") for option in advice.split(" or ")} <= set(options(kinds[verb]))
    from condvae.cli.info import Info

    def run(self: object) -> None:
        raise MemoryError

    monkeypatch.setattr(Info, "run", run)  # it computes nothing, so that fewer images would not help
    assert "not enough memory: close other programs" in failure(capsys, "info")
