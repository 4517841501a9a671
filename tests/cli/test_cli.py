"""The entry point of the command line: what holds for every verb."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from helpers.cli_options import options, verbs
from helpers.commands import failure, names, photos
from helpers.models import small_conditional
from helpers.training import SMALL
from PIL import Image

from condvae import save
from condvae.cli import MEMORY_OPTIONS, _catch_stop_signals, main


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


def test_files_are_written_although_nobody_reads_the_messages(tmp_path: Path) -> None:
    """Stdout is a pipe that is closed at once, stderr is closed, and the encoding has no special characters."""
    save(small_conditional(), tmp_path / "model.safetensors")
    for name in ("a.png", "b.png"):
        Image.new("RGB", (9, 9), "red").save(tmp_path / name)
    command = f"{sys.executable} -m condvae complete a.png b.png --half left -n 1 --model model.safetensors -o out"
    script = f"PYTHONIOENCODING=ascii {command} 2>&- | true; exit ${{PIPESTATUS[0]}}"
    assert subprocess.run(["bash", "-c", script], cwd=tmp_path, timeout=60).returncode == 0
    assert names(str(tmp_path / "out")) == ["001-a-1.png", "002-b-1.png", "record.json", "sheet.png"]


def test_a_closed_pipe_is_no_error() -> None:
    command = f"{sys.executable} -m condvae info --json | head -c 10"
    done = subprocess.run(["bash", "-c", command], capture_output=True, check=True)
    assert (len(done.stdout), done.stderr) == (10, b"")


def test_a_list_option_that_is_given_twice_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given: list[str | Path] = ["ood", "experiment", "--data", tmp_path, "--against", "a=x", "--against", "b=y"]
    assert "--against was given twice: give it once" in failure(capsys, *given)
    given = ["pretrain", "--data", tmp_path, f"--data={tmp_path}", "--out", tmp_path / "run"]
    assert "--data was given twice: give it once" in failure(capsys, *given)


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
        for number in numbers:  # a shell or nohup may have told the tests to ignore some
            signal.signal(number, signal.SIG_DFL)
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


def test_every_verb_can_be_quiet() -> None:
    assert [verb for verb, kind in verbs().items() if "quiet" not in options(kind)] == []


@pytest.mark.usefixtures("models")
def test_quiet_prints_results_and_warnings_only(capsys: pytest.CaptureFixture[str]) -> None:
    a, b = photos(2)
    Path("mixed").mkdir()
    Path("mixed/damaged.png").write_bytes(b"")
    Path("mixed/whole.png").write_bytes(Path(a).read_bytes())
    for number, (words, out, err) in enumerate(
        (
            (["sample", "-n", "2", "-o", "samples"], "", ""),
            (["reconstruct", a, b, "-o", "rebuilt"], "", ""),
            (["export", "faces64", "-o", "copy.safetensors"], "", ""),
            (["complete", a, "--half", "left", "-n", "2", "-o", "done"], "", ""),
            (["complete", "--repeat", "done/record.json", "-o", "again"], "", ""),
            # A warning stays, on stderr.
            (
                ["complete", "mixed", "--half", "left", "-n", "2", "-o", "more"],
                "",
                "skipped 1 of 2 files: mixed/damaged",
            ),
            (["info", "faces64"], "faces64: conditional VAE", ""),
            (["pretrain", "--network", "tiny", "--steps", "2", *SMALL, "-o", "run"], "", "warning: the run ended"),
        )
    ):
        main([*words, "--quiet" if number % 2 else "-q"])
        captured = capsys.readouterr()
        assert captured.out.startswith(out) and bool(captured.out) == bool(out), words
        assert captured.err.startswith(err) and bool(captured.err) == bool(err), words
        assert "wrote" not in captured.out
    # It is no option of the run: the same run can be continued without it.
    assert "quiet" not in json.loads(Path("run/options.json").read_text())
    main(["pretrain", "--network", "tiny", "--steps", "3", *SMALL, "-o", "run", "--resume"])
    assert "resuming from step 2" in capsys.readouterr().out


def test_quiet_comparisons_print_the_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        photos(2)
    monkeypatch.chdir(tmp_path)
    main(["compare", "a", "b", "--metrics", "psnr", "-o", "numbers.json", "--quiet"])
    captured = capsys.readouterr()
    assert captured.out.splitlines()[0] == "a and b: 2 pairs of images" and captured.err == ""
    assert "PSNR" in captured.out and "wrote" not in captured.out


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


def test_a_command_ends_without_a_search_for_garbage_but_a_program_keeps_its_own() -> None:
    ending = "import gc, sys; from condvae.cli import main; sys.argv[1:] = ['info', '--json']"
    for call, frozen in (("main()", True), ("main(sys.argv[1:])", False)):
        program = f"{ending}; {call}; sys.exit((gc.get_freeze_count() > 0) != {frozen})"
        subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
