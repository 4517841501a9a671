"""Full disks, divergence and damaged files: training continues, or ends with one clear message."""

import itertools
import os
import zipfile
from pathlib import Path

import pytest
from helpers.fixtures import HELPERS
from helpers.processes import CONDVAE, PATIENCE, started
from helpers.sabotage import sabotage
from helpers.tiny_baselines import SIZE, tiny_file
from helpers.training import FACES, SMALL, assert_same_model, call, log_of, smallest_network

from condvae.training.baseline_task import BaselineTraining
from condvae.training.checkpoint import Checkpoints
from condvae.training.task import Pretraining, TrainingTask

SABOTAGE = HELPERS / "sabotage.py"
SCHEDULE = [
    *("--lr", "2e-3", "--warm-up", "5", "--log-every", "5", "--evaluate-every", "20", "--checkpoint-every", "5"),
    *("--sheet-every", "0"),
]
TRAINING = ["pretrain", *SMALL, *SCHEDULE, "--network", smallest_network()]


def checkpoints(folder: Path) -> Checkpoints:
    return Checkpoints(folder / "checkpoints")


def broken(*words: str | Path, at: int, expect: int = 0, task: type[TrainingTask] = Pretraining) -> str:
    """Run a command in which every loss is NaN from step `at` on, then undo the change."""
    with pytest.MonkeyPatch.context() as whole:
        for name in ("prepare", "loss"):
            whole.setattr(task, name, getattr(task, name))  # so that it is restored on exit
        sabotage(task, "broken", at, 0)
        return call(*words, expect=expect)


def test_training_continues_on_a_full_disk_and_keeps_older_checkpoints(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    # The model cannot be written at the end, which is an error with exit code 2.
    said = tmp_path / "said"
    os.mkfifo(said)  # a pipe, because the test forbids the process to enlarge files
    pipe = os.open(said, os.O_RDWR | os.O_NONBLOCK)  # does not block; the pipe can hold the few lines of output
    with started(SABOTAGE, "disk", "12", "0", *TRAINING, "--steps", "30", "--out", folder, said=said) as process:
        process.join(PATIENCE)
        printed = os.read(pipe, 2**16).decode()
        os.close(pipe)
        assert process.exitcode == 2
    assert "the checkpoint of step 15 could not be written" in printed
    assert "training continues" in printed
    assert "step 30: " in printed
    assert checkpoints(folder).steps() == [0, 5, 10]
    assert not list(folder.rglob("*.part"))
    call(*TRAINING, "--steps", "30", "--out", folder, "--resume")  # the disk has space again
    call(*TRAINING, "--steps", "30", "--out", tmp_path / "whole")
    assert_same_model(folder / "model.safetensors", tmp_path / "whole" / "model.safetensors")
    assert log_of(folder) == log_of(tmp_path / "whole")


def test_after_a_truncated_checkpoint_the_previous_one_is_used(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    call(*TRAINING, "--steps", "20", "--out", folder)
    newest = checkpoints(folder).path(20)
    newest.write_bytes(newest.read_bytes()[:-100])
    printed = call(*TRAINING, "--steps", "25", "--out", folder, "--resume")
    assert "trying the previous checkpoint" in printed
    assert "resuming from step 15" in printed
    call(*TRAINING, "--steps", "25", "--out", tmp_path / "whole")
    assert_same_model(folder / "model.safetensors", tmp_path / "whole" / "model.safetensors")


def test_divergence_rolls_back_three_times_and_then_stops(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    training: list[str | Path] = [*TRAINING, "--steps", "60", "--patience", "5", "--out", folder]
    printed = broken(*training, at=17, expect=1)
    assert "training has diverged" in printed and "after 3 roll-backs" in printed and "lower --lr" in printed
    rollbacks = log_of(folder, "roll-back")
    assert rollbacks[-1]["lr_scale"] == 0.125
    # Step 15 is the last good checkpoint. It is used every time, since updates succeed after it.
    assert "to 15; the learning rate is now multiplied by 0.5" in printed
    assert "to 10; the learning rate is now multiplied by 0.25" not in printed
    assert all(record["loss"] is not None for record in log_of(folder, "train") if record["skipped"] < 5)
    # Once the losses are finite again, the run resumes from a good checkpoint at the lower learning rate.
    printed = call(*training, "--resume")
    assert log_of(folder, "train")[-1]["lr"] == pytest.approx(2e-3 / 8)


def test_a_baseline_whose_loss_is_nan_rolls_back_and_can_be_resumed(tmp_path: Path) -> None:
    """The critic's own loss stays finite, but its updates after the last good step are undone, too."""
    folder = tmp_path / "run"
    training: list[str | Path] = ["train", *SMALL, *SCHEDULE, "--baseline", tiny_file("ce"), "--size", str(SIZE)]
    training += ["--observe", "halves", "--skip-above", "1e5", "--patience", "5", "--steps", "30", "--out", folder]
    printed = broken(*training, at=12, expect=1, task=BaselineTraining)
    assert "training has diverged" in printed and "after 3 roll-backs" in printed
    assert all(step <= 10 for step in checkpoints(folder).steps())
    call(*training, "--resume")
    state = Checkpoints.read(checkpoints(folder).path(30))[1]
    assert all(bool(tensor.isfinite().all()) for tensor in state.values())
    assert state["updates"] == state["critic/updates"] == 30  # no step counts twice


def test_no_checkpoint_is_written_while_updates_are_skipped(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    broken(*TRAINING, "--steps", "30", "--out", folder, at=12)
    assert checkpoints(folder).steps() == [0, 5, 10]


def test_a_run_with_other_options_or_data_is_not_resumed(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    call(*TRAINING, "--steps", "5", "--out", folder)
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    printed = call(*TRAINING, "--steps", "5", "--out", folder, expect=2)
    assert "already contains a run" in printed and "--resume" in printed
    printed = call(*TRAINING, "--steps", "5", "--batch", "16", "--out", folder, "--resume", expect=2)
    assert "batch is 16, was 8" in printed
    printed = call(*TRAINING, "--steps", "5", "--validation", "3", "--out", folder, "--resume", expect=2)
    assert "validation is 3, was None" in printed
    other = tmp_path / "other.zip"
    with zipfile.ZipFile(FACES) as faces, zipfile.ZipFile(other, "w") as fewer:
        for name in faces.namelist()[:100]:
            fewer.writestr(name, faces.read(name))
    elsewhere = [other if before == "--data" else word for before, word in itertools.pairwise(("", *TRAINING))]
    printed = call(*elsewhere, "--steps", "5", "--out", folder, "--resume", expect=2)
    assert "contains a run on other data" in printed
    assert before == {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_checkpoint_without_a_successful_update_after_it_is_replaced_by_an_older_one(tmp_path: Path) -> None:
    training: list[str | Path] = [*TRAINING, "--steps", "60", "--patience", "5", "--out", tmp_path / "run"]
    printed = broken(*training, at=15, expect=1)
    assert "to 15; the learning rate is now multiplied by 0.5" in printed
    assert "to 10; the learning rate is now multiplied by 0.25" in printed


@pytest.mark.parametrize("option", [("--skip-above", "1e-9"), ("--lr", "900", "--warm-up", "0")])
def test_a_run_that_learnt_nothing_writes_no_model(tmp_path: Path, option: tuple[str, ...]) -> None:
    folder = tmp_path / "run"
    printed = call(*TRAINING, *option, "--steps", "12", "--out", folder, expect=1)
    assert "training has failed" in printed or "training has diverged" in printed
    assert "lower --lr" in printed
    assert not (folder / "model.safetensors").exists()


def test_divergence_in_the_last_steps_is_noticed(tmp_path: Path) -> None:
    """The last step makes a report even if it is not a multiple of --log-every."""
    training: list[str | Path] = [*TRAINING, "--log-every", "100", "--steps", "30", "--patience", "5"]
    training += ["--out", tmp_path / "run"]
    printed = broken(*training, at=17, expect=1)
    assert "after 3 roll-backs" in printed


def test_a_finished_run_without_its_checkpoints_is_not_overwritten(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    call(*TRAINING, "--steps", "5", "--out", folder)
    for checkpoint in (folder / "checkpoints").iterdir():
        checkpoint.unlink()
    for more in ((), ("--resume",)):
        printed = call(*TRAINING, "--steps", "5", "--out", folder, *more, expect=2)
        assert "contains model.safetensors but no checkpoint to resume from" in printed


def test_resuming_a_finished_run_changes_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    call(*TRAINING, "--steps", "20", "--out", folder)
    before, model = log_of(folder), (folder / "model.safetensors").read_bytes()
    call(*TRAINING, "--steps", "20", "--out", folder, "--resume")
    assert log_of(folder) == before
    (tmp_path / "model.safetensors").write_bytes(model)
    assert_same_model(folder / "model.safetensors", tmp_path / "model.safetensors")


def test_a_closed_pipe_does_not_stop_training(tmp_path: Path) -> None:
    said = tmp_path / "said"
    os.mkfifo(said)
    with started(CONDVAE, *TRAINING, "--steps", "20", "--out", tmp_path / "run", said=said) as process:
        with open(said) as pipe:
            assert pipe.readline()
        process.join(PATIENCE)
        assert process.exitcode == 0
    assert (tmp_path / "run" / "model.safetensors").is_file()
