"""A run that is killed at random moments and resumed gives the same model, bit for bit, also with a critic."""

import random
import time
from pathlib import Path

import pytest
from helpers.processes import CONDVAE, PATIENCE, started
from helpers.tiny_baselines import SIZE, tiny_file
from helpers.training import SMALL, assert_same_model, call, log_of, smallest_network

from condvae.training.checkpoint import Checkpoints

# Reports, evaluations and checkpoints happen at different steps, so that kills come after every combination of them.
SCHEDULE = [
    *("--lr", "2e-3", "--schedule", "cosine", "--warm-up", "10", "--log-every", "7", "--evaluate-every", "20"),
    *("--checkpoint-every", "5", "--sheet-every", "0"),
]
TRAINING = ["pretrain", *SMALL, *SCHEDULE, "--network", smallest_network(), "--steps", "80"]


def test_five_kills_do_not_change_the_result(tmp_path: Path) -> None:
    killed_and_whole(TRAINING, tmp_path, kills=5)


@pytest.mark.parametrize(("kind", "steps", "kills"), [("ce", 60, 2), ("pic", 16, 1)])
def test_kills_do_not_change_a_baseline_with_a_critic(tmp_path: Path, kind: str, steps: int, kills: int) -> None:
    """A context encoder has BatchNorm, whose statistics are state, and Pluralistic Image Completion spectral norm."""
    training = ["train", *SMALL, *SCHEDULE, "--baseline", tiny_file(kind), "--steps", str(steps)]
    training += ["--size", str(SIZE), "--observe", "halves", "--skip-above", "1e5", "--evaluate-on", "4"]
    killed_and_whole(training, tmp_path, kills=kills)
    assert log_of(tmp_path / "killed", "train")[-1]["critic"]["gradient_norm"] > 0


def killed_and_whole(training: list[str], tmp_path: Path, *, kills: int) -> None:
    """Run a training with some kills, and another one without, and compare the models and logs."""
    call(*training, "--out", tmp_path / "whole")
    folder = tmp_path / "killed"
    dice = random.Random(0)
    at: list[int] = []
    while len(at) < kills:
        with started(CONDVAE, *training, "--out", folder, "--resume", said=tmp_path / "said") as process:
            # Wait until this process has written a newer checkpoint, then for a short random time.
            before = newest(folder)
            until = time.monotonic() + PATIENCE
            while newest(folder) <= before and process.is_alive() and time.monotonic() < until:
                time.sleep(0.005)
            time.sleep(dice.uniform(0.0, 0.08))
            assert process.is_alive(), f"finished after only {len(at)} kills\n{(tmp_path / 'said').read_text()}"
        at.append(newest(folder))
    call(*training, "--out", folder, "--resume")
    assert at == sorted(at)
    assert len(set(at)) >= min(kills, 3)  # the kills were spread over the run
    assert log_of(folder) == log_of(tmp_path / "whole")
    for name in ("model.safetensors", "best.safetensors"):
        assert_same_model(folder / name, tmp_path / "whole" / name)
    assert not [path for path in folder.rglob("*.part") if path.name.startswith(".log")]


def newest(folder: Path) -> int:
    return max(Checkpoints(folder / "checkpoints").steps(), default=-1)
