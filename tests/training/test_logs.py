"""The log reports to the terminal, to a JSON file and to experiment trackers."""

import json
import math
import time
from pathlib import Path
from typing import Any

import pytest
from helpers.models import small_vae
from PIL import Image

from condvae.runtime.messages import silent
from condvae.training.logs import RunLog, TensorBoard, WeightsAndBiases, step_note
from condvae.training.step import Progress
from condvae.training.task import Pretraining


def lines(folder: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]


def test_nan_and_infinity_become_null(tmp_path: Path) -> None:
    log = RunLog(tmp_path, enabled=True, say=silent)
    log.record("train", 3, loss=math.nan, kl_nats={1: 2.0, 4: math.inf}, names=("a", "b"))
    assert lines(tmp_path) == [
        {"event": "train", "step": 3, "loss": None, "kl_nats": {"1": 2.0, "4": None}, "names": ["a", "b"]}
    ]


def test_later_and_incomplete_lines_are_deleted(tmp_path: Path) -> None:
    log = RunLog(tmp_path, enabled=True, say=silent)
    for step in (1, 2, 3):
        log.record("train", step)
    with log.path.open("a") as file:
        file.write('{"event": "train", "st')
    log.keep_until(2)
    log.record("train", 3, again=True)
    assert [(line["step"], line.get("again")) for line in lines(tmp_path)] == [(1, None), (2, None), (3, True)]


def test_other_ranks_are_silent(tmp_path: Path) -> None:
    said: list[str] = []
    log = RunLog(tmp_path, enabled=False, say=said.append)
    log.record("train", 1)
    log.say("y")
    log.warn("z")
    log.close()
    assert said == []
    assert not log.path.exists()


def test_the_note_of_the_last_steps_is_never_zero_images_per_second() -> None:
    task = Pretraining(small_vae())
    resolutions = [stage.resolution for stage in task.vae.config.group_stages]
    of_resolution = {1: 2.4, 4: 9.6, 8: 0.4}
    kl = {
        f"kl_nats_{group}": of_resolution[resolution] / resolutions.count(resolution)
        for group, resolution in enumerate(resolutions)
    }
    assert task.figures == ("log_likelihood_nats", *kl)

    def note(log_likelihood: float, skipped: int, *, batch: int, pace: float) -> str:
        figures = {"log_likelihood_nats": log_likelihood, **kl}
        given: dict[str, Any] = {"gradient_norm": 1.0, "longest_streak": 0, "streak": 0, "critic": {}}
        progress = Progress(steps=2, skipped=skipped, loss=math.log(2), figures=figures, **given)
        return step_note(progress, task.note(progress), batch=batch, pace=pace)

    assert note(-3.0, 0, batch=32, pace=80.0) == "0.4 images/s, 1.000 bits/dim, KL 1:2 4:10 8:0"
    # Before the pace is known there is no rate; a loss without a likelihood is the KL alone.
    assert note(0.0, 1, batch=32, pace=0.0) == "1.000 bits/dim of KL, KL 1:2 4:10 8:0, 1 skipped"
    assert note(-3.0, 0, batch=3200, pace=0.1).startswith("32,000 images/s")


def test_a_log_that_cannot_be_written_gives_one_warning(tmp_path: Path) -> None:
    said: list[str] = []
    log = RunLog(tmp_path / "gone", enabled=True, say=said.append)
    log.record("train", 1)
    log.record("train", 2)
    assert len(said) == 1 and "cannot be written" in said[0]


def test_tensorboard_gets_numbers_and_pictures(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    log = RunLog(tmp_path, enabled=True, trackers=[TensorBoard(tmp_path)], say=silent)
    log.record("train", 7, loss=1.5, kl_nats={8: 2.5}, name="text")
    log.picture(7, "sheet", Image.new("RGB", (4, 4)))
    log.close()
    events = EventAccumulator(str(tmp_path / "tensorboard"))
    events.Reload()
    assert events.Scalars("train/loss")[0].step == 7
    assert events.Scalars("train/kl_nats/8")[0].value == 2.5
    assert events.Tags()["images"] == ["sheet"]


def test_weights_and_biases_gets_numbers_and_pictures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    log = RunLog(
        tmp_path,
        enabled=True,
        trackers=[WeightsAndBiases(tmp_path, "condvae", {"lr": 1.0})],
        say=silent,
    )
    log.record("train", 7, loss=1.5)
    log.picture(8, "sheet", Image.new("RGB", (4, 4)))
    log.close()
    files = list((tmp_path / "wandb").glob("offline-run-*/*.wandb"))
    assert len(files) == 1
    content = b""
    for _ in range(300):  # another process writes the file, which can be slow on a busy machine
        content = files[0].read_bytes()
        if b"train/loss" in content:
            break
        time.sleep(0.1)
    assert b"train/loss" in content and b"1.5" in content
    assert (tmp_path / "wandb-id").read_text() in files[0].name
