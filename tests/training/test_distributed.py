"""Several processes train one model: real ranks over gloo, started by torchrun."""

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
from helpers.fixtures import HELPERS
from helpers.training import SMALL, assert_same_model, call, command, environment, log_of, run

SABOTAGE = HELPERS / "sabotage.py"
STEPS = [
    *("--lr", "2e-3", "--warm-up", "5", "--log-every", "10", "--evaluate-every", "10", "--checkpoint-every", "10"),
    *("--sheet-every", "0"),
]


@pytest.fixture(scope="module")
def artifact(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("artifact")
    call("pretrain", *SMALL, *STEPS, "--network", "tiny", "--steps", "10", "--out", folder / "vae")
    return folder / "vae" / "model.safetensors"


@pytest.fixture(scope="module")
def training(artifact: Path) -> list[str | Path]:
    """Of 20 steps; two ranks have micro-batches of 4 in any case."""
    return ["train", *SMALL, *STEPS, "--artifact", artifact, "--steps", "20", "--micro-batch", "4"]


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory, training: list[str | Path]) -> Path:
    """What two ranks made of it, undisturbed."""
    folder = tmp_path_factory.mktemp("two") / "run"
    run(*training, "--out", folder, ranks=2)
    return folder


def test_two_ranks_of_b_equal_one_process_of_two_b(tmp_path: Path, training: list[str | Path], two: Path) -> None:
    call(*training, "--out", tmp_path / "one")
    assert_same_model(tmp_path / "one" / "model.safetensors", two / "model.safetensors", tolerance=1e-5)
    for mine, theirs in zip(
        log_of(tmp_path / "one", "train", "evaluation"), log_of(two, "train", "evaluation"), strict=True
    ):
        for key, value in mine.items():
            same = value if isinstance(value, str | None) else pytest.approx(value, rel=1e-4)
            assert theirs[key] == same, key


def test_nan_on_one_rank_is_left_out_on_both(tmp_path: Path, training: list[str | Path]) -> None:
    run("nan", "7", "1", *training, "--out", tmp_path / "run", ranks=2, script=SABOTAGE)
    records = log_of(tmp_path / "run", "train")
    assert [record["skipped"] for record in records] == [1, 0]
    assert all(record["loss"] is not None for record in records)
    stored = json.loads((tmp_path / "run" / "log.jsonl").read_text().splitlines()[-1])
    assert stored["event"] == "end"


def test_a_killed_rank_is_started_again_and_the_run_goes_on(
    tmp_path: Path, training: list[str | Path], two: Path
) -> None:
    printed = run("die", "15", "1", *training, "--out", tmp_path / "run", ranks=2, restarts=1, script=SABOTAGE)
    assert "going on from step 10" in printed
    assert_same_model(tmp_path / "run" / "model.safetensors", two / "model.safetensors")


def test_ranks_stop_together_when_asked(tmp_path: Path, artifact: Path) -> None:
    training: list[str | Path] = ["train", *SMALL, *STEPS, "--artifact", artifact, "--steps", "100000"]
    process = subprocess.Popen(
        command(*training, "--out", tmp_path / "run", ranks=2),
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    until = time.monotonic() + 120
    while not (tmp_path / "run" / "checkpoints" / "step-000000010.safetensors").exists():
        assert process.poll() is None and time.monotonic() < until
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGTERM)
    printed = process.communicate(timeout=120)[0]
    assert "stopped at step" in printed
