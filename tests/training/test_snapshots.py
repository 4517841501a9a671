"""A snapshot is the result of a shorter run, also if the run was interrupted."""

import dataclasses
import signal
from pathlib import Path
from typing import Any

import pytest
from helpers.models import SMALLEST, small_vae
from helpers.pretraining_runs import small_data
from helpers.training import assert_same_model, call, log_of, smallest_network
from PIL import Image

from condvae import weights
from condvae.training import Stopped, TrainOptions, train
from condvae.training.loop import Loop
from condvae.training.run_folder import RunFolder

# An evaluation comes before the second snapshot, and a checkpoint between the two.
TRAINING: dict[str, Any] = {
    "batch": 8, "device": "cpu", "observe": ("halves",), "validation": 8, "sheet_every": 0, "steps": 6, "warm_up": 3,
    "lr": 1e-2, "ema": 0.9, "evaluate_on": 8, "evaluate_every": 3, "checkpoint_every": 3,
}  # fmt: skip
AT = (2, 4, 6)


@pytest.fixture(autouse=True)
def without_sheets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw no contact sheets, which take longer than the training."""
    monkeypatch.setattr("condvae.training.training_run._sheet", lambda *_: Image.new("RGB", (8, 8)))


@pytest.fixture(scope="module")
def options(tmp_path_factory: pytest.TempPathFactory) -> TrainOptions:
    folder = tmp_path_factory.mktemp("inputs")
    weights.save(small_vae(SMALLEST), folder / "vae.safetensors")
    given = {**TRAINING, "data": (small_data(folder / "noise"),), "artifact": folder / "vae.safetensors"}
    return TrainOptions(**given, out=Path("run"), snapshot_at=AT)


@pytest.fixture(scope="module")
def whole(options: TrainOptions, tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """The folder of an uninterrupted run."""
    out = tmp_path_factory.mktemp("whole") / "run"
    train(dataclasses.replace(options, out=out))
    return RunFolder(out)


def files(folder: RunFolder) -> list[str]:
    return sorted(path.name for path in folder.snapshots.iterdir())


NAMES = [f"step-00000000{step}.safetensors" for step in AT]


def assert_same_snapshots(one: RunFolder, other: RunFolder) -> None:
    assert files(one) == files(other) == NAMES
    for step in AT:
        assert_same_model(one.snapshot(step), other.snapshot(step))


@pytest.mark.parametrize("step", AT)
def test_a_snapshot_is_the_result_of_a_shorter_run(
    whole: RunFolder, options: TrainOptions, tmp_path: Path, step: int
) -> None:
    shorter = train(dataclasses.replace(options, steps=step, snapshot_at=(), out=tmp_path / "run"))
    assert_same_model(whole.snapshot(step), shorter)
    assert files(whole) == NAMES
    assert not RunFolder(tmp_path / "run").snapshots.exists()


def test_the_record_is_that_of_the_step(whole: RunFolder) -> None:
    for step in AT:
        record = weights.describe(whole.snapshot(step)).record
        assert (record["steps"], record["updates"], record["images_seen"]) == (step, step, 8 * step)
        assert (record["task"], record["options"]["snapshot_at"]) == ("train", list(AT))
        # The last evaluation was of another step, so none of its results is in the record.
        finished = weights.describe(whole.model).record
        assert finished.keys() - record.keys() >= {"bits_per_dim", "hidden_bits_per_dim", "evaluated_on", "kl_nats"}
        assert weights.load_conditional(whole.snapshot(step)).process == weights.load_conditional(whole.model).process


def test_snapshots_change_nothing_else(whole: RunFolder, options: TrainOptions, tmp_path: Path) -> None:
    plain = RunFolder(train(dataclasses.replace(options, snapshot_at=(), out=tmp_path / "run")).parent)
    assert_same_model(plain.model, whole.model)
    assert_same_model(plain.best, whole.best)
    assert log_of(plain.path) == log_of(whole.path)


@pytest.mark.parametrize("step", [4, 6])
@pytest.mark.parametrize("written", [False, True])
def test_a_run_killed_just_before_or_after_a_snapshot_writes_it_again(
    whole: RunFolder,
    options: TrainOptions,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    step: int,
    written: bool,
) -> None:
    snapshot = Loop._snapshot

    def killed(loop: Loop) -> None:
        if written or loop.position.step != step:
            snapshot(loop)
        if loop.position.step == step:
            raise KeyboardInterrupt

    options = dataclasses.replace(options, out=tmp_path / "run", resume=True)
    folder = RunFolder(options.out)
    with monkeypatch.context() as patch:
        patch.setattr(Loop, "_snapshot", killed)
        with pytest.raises(KeyboardInterrupt):
            train(options)
    assert folder.snapshot(step).exists() == written and not folder.model.exists()
    folder.snapshot(step).unlink(missing_ok=True)
    train(options)
    assert_same_snapshots(folder, whole)


def test_a_run_stopped_by_a_signal_continues_with_the_next_snapshot(
    whole: RunFolder, options: TrainOptions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    snapshot = Loop._snapshot

    def stopped(loop: Loop) -> None:
        snapshot(loop)
        signal.raise_signal(signal.SIGTERM)

    options = dataclasses.replace(options, out=tmp_path / "run", resume=True)
    folder = RunFolder(options.out)
    with monkeypatch.context() as patch:
        patch.setattr(Loop, "_snapshot", stopped)
        with pytest.raises(Stopped, match="stopped at step 2: the same command with --resume continues from step 2"):
            train(options)
    assert files(folder) == NAMES[:1]
    before = folder.snapshot(2).stat().st_mtime_ns
    train(options)
    assert folder.snapshot(2).stat().st_mtime_ns == before
    assert_same_snapshots(folder, whole)


def test_a_snapshot_by_the_clock_is_the_result_of_a_shorter_run(options: TrainOptions, tmp_path: Path) -> None:
    """With a limit that is over before the first step, a run makes one step."""
    soon = 1e-4
    given = dataclasses.replace(options, snapshot_at=(), snapshot_minutes=(soon, 50.0), minutes=60.0, resume=True)
    folder = RunFolder(train(dataclasses.replace(given, steps=3, out=tmp_path / "long")).parent)
    short = train(dataclasses.replace(options, snapshot_at=(), minutes=soon, out=tmp_path / "short"))
    assert files(folder) == ["step-000000001.safetensors"]
    assert_same_model(folder.snapshot(1), short)
    folder.snapshot(1).unlink()
    train(dataclasses.replace(given, steps=6, out=tmp_path / "long"))
    assert files(folder) == []  # a prolonged run has passed this time


def test_a_resumed_run_writes_the_snapshot_that_its_start_has_passed(
    options: TrainOptions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each step takes 10 seconds of a made-up clock, and starting again takes a minute."""
    now = [0.0]
    monkeypatch.setattr("condvae.training.schedule.time.monotonic", lambda: now[0])
    one_step = Loop._one_step
    given = dataclasses.replace(
        options, snapshot_at=(), snapshot_minutes=(1.0,), minutes=60.0, steps=12, resume=True, log_every=1,
        checkpoint_every=3, evaluate_every=100, out=tmp_path / "run",
    )  # fmt: skip

    def slow(loop: Loop, *rest: Any) -> None:
        if loop.position.step == 4 and not folder.snapshots.exists() and now[0] < 60:
            now[0] += 60
            raise KeyboardInterrupt
        one_step(loop, *rest)
        now[0] += 10

    folder = RunFolder(given.out)
    monkeypatch.setattr(Loop, "_one_step", slow)
    with pytest.raises(KeyboardInterrupt):
        train(given)
    assert not folder.snapshots.exists()
    begin = Loop._begin

    def slow_start(loop: Loop, *, resume: bool) -> None:
        now[0] += 60
        begin(loop, resume=resume)

    monkeypatch.setattr(Loop, "_begin", slow_start)
    train(given)
    assert len(files(folder)) == 1


def test_a_snapshot_after_the_end_is_refused(options: TrainOptions, tmp_path: Path) -> None:
    for minutes in (0.0, -1.0, 5.1):
        wrong = dataclasses.replace(options, minutes=5.0, snapshot_minutes=(minutes,), out=tmp_path / "run")
        with pytest.raises(
            ValueError, match=r"--snapshot-minutes is .*, expected a positive number, at most --minutes 5"
        ):
            train(wrong)
    assert not (tmp_path / "run").exists()


def test_the_command_line_takes_several_steps_also_for_pretraining(options: TrainOptions, tmp_path: Path) -> None:
    words = ["--data", str(options.data[0]), "--device", "cpu", "--batch", "8", "--network", smallest_network()]
    call("pretrain", *words, "--steps", "3", "--snapshot-at", "1", "2", "--out", tmp_path / "long")
    call("pretrain", *words, "--steps", "2", "--out", tmp_path / "short")
    assert files(RunFolder(tmp_path / "long")) == [f"step-00000000{step}.safetensors" for step in (1, 2)]
    assert_same_model(RunFolder(tmp_path / "long").snapshot(2), tmp_path / "short" / "model.safetensors")
