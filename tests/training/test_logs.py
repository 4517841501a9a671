"""The log reports to the terminal, to a JSON file and to experiment trackers."""

import io
import json
import math
import time
from pathlib import Path

import pytest
from PIL import Image

from condvae.training.logs import RunLog, TensorBoard, WeightsAndBiases, duration


def lines(folder: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]


def test_nan_and_infinity_become_null(tmp_path: Path) -> None:
    log = RunLog(tmp_path, enabled=True, stream=io.StringIO())
    log.record("train", 3, loss=math.nan, kl_nats={1: 2.0, 4: math.inf}, names=("a", "b"))
    assert lines(tmp_path) == [
        {"event": "train", "step": 3, "loss": None, "kl_nats": {"1": 2.0, "4": None}, "names": ["a", "b"]}
    ]


def test_later_and_incomplete_lines_are_deleted(tmp_path: Path) -> None:
    log = RunLog(tmp_path, enabled=True, stream=io.StringIO())
    for step in (1, 2, 3):
        log.record("train", step)
    with log.path.open("a") as file:
        file.write('{"event": "train", "st')
    log.keep_until(2)
    log.record("train", 3, again=True)
    assert [(line["step"], line.get("again")) for line in lines(tmp_path)] == [(1, None), (2, None), (3, True)]


def test_other_ranks_are_silent(tmp_path: Path) -> None:
    stream = io.StringIO()
    log = RunLog(tmp_path, enabled=False, stream=stream)
    log.record("train", 1)
    log.live("x")
    log.say("y")
    log.warn("z")
    log.close()
    assert stream.getvalue() == ""
    assert not log.path.exists()


def test_the_live_line_is_rewritten_on_a_terminal_only(tmp_path: Path) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    for stream, expected in ((io.StringIO(), "a\nb\nc\n"), (Terminal(), "\r\x1b[Ka\r\x1b[Kb\nc\n")):
        log = RunLog(tmp_path, enabled=True, stream=stream)
        log.live("a")
        log.live("b")
        log.say("c")
        assert stream.getvalue() == expected


def test_a_log_that_cannot_be_written_gives_one_warning(tmp_path: Path) -> None:
    stream = io.StringIO()
    log = RunLog(tmp_path / "gone", enabled=True, stream=stream)
    log.record("train", 1)
    log.record("train", 2)
    assert stream.getvalue().count("cannot be written") == 1


def test_tensorboard_gets_numbers_and_pictures(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    log = RunLog(tmp_path, enabled=True, trackers=[TensorBoard(tmp_path)], stream=io.StringIO())
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
        stream=io.StringIO(),
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


def test_durations_are_formatted_like_clock_times() -> None:
    assert [duration(seconds) for seconds in (0, 61.4, 3723)] == ["0:00", "1:01", "1:02:03"]
