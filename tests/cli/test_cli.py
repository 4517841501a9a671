"""The entry point of the command line: what holds for every verb."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from helpers.commands import failure
from helpers.models import small_conditional

from condvae import save
from condvae.cli import _catch_stop_signals


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


def test_an_empty_argument_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a path it would mean the current folder."""
    monkeypatch.chdir(tmp_path)
    for words, what in (
        (["complete", "", "--half", "left"], "an argument"),
        (["compare", "real", ""], "an argument"),
        (["pretrain", "--data", "", "--out", "run"], "the value of --data"),
        (["ood", "score", "x.png", "-o", ""], "the value of -o"),
        (["evaluate", "--data="], "the value of --data"),
    ):
        assert f"condvae: {what} is empty: give a value or leave it out" in failure(capsys, *words)
    assert list(tmp_path.iterdir()) == []


def test_a_closed_terminal_stops_a_call_like_ctrl_c() -> None:
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.getsignal(number) for number in numbers}
    try:
        received = _catch_stop_signals()
        for number in (signal.SIGHUP, signal.SIGINT, signal.SIGINT):
            with pytest.raises(KeyboardInterrupt):
                signal.raise_signal(number)
        signal.raise_signal(signal.SIGHUP)  # the shell sends it again, while files are being removed
        assert received == [signal.SIGHUP, signal.SIGINT, signal.SIGINT]
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup does
        _catch_stop_signals()
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
