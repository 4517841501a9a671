"""A run that is killed at random moments and resumed gives the same model, bit for bit."""

import random
import time
from pathlib import Path

from helpers.processes import CONDVAE, PATIENCE, started
from helpers.training import SMALL, assert_same_model, call, log_of, smallest_network

from condvae.training.checkpoint import Checkpoints

# Reports, evaluations and checkpoints happen at different steps, so that kills come after every combination of them.
TRAINING = [
    *("pretrain", *SMALL, "--network", smallest_network(), "--steps", "80", "--lr", "2e-3"),
    *("--schedule", "cosine", "--warm-up", "10", "--log-every", "7", "--evaluate-every", "20"),
    *("--checkpoint-every", "5", "--sheet-every", "0"),
]


def test_five_kills_do_not_change_the_result(tmp_path: Path) -> None:
    call(*TRAINING, "--out", tmp_path / "whole")
    folder = tmp_path / "killed"
    dice = random.Random(0)
    at: list[int] = []
    while len(at) < 5:
        with started(CONDVAE, *TRAINING, "--out", folder, "--resume", said=tmp_path / "said") as process:
            # Wait until this process has written a newer checkpoint, then for a short random time.
            before = newest(folder)
            until = time.monotonic() + PATIENCE
            while newest(folder) <= before and process.is_alive() and time.monotonic() < until:
                time.sleep(0.005)
            time.sleep(dice.uniform(0.0, 0.08))
            assert process.is_alive(), f"finished after only {len(at)} kills\n{(tmp_path / 'said').read_text()}"
        at.append(newest(folder))
    call(*TRAINING, "--out", folder, "--resume")
    assert at == sorted(at)
    assert len(set(at)) > 2  # the kills were spread over the run
    assert log_of(folder) == log_of(tmp_path / "whole")
    for name in ("model.safetensors", "best.safetensors"):
        assert_same_model(folder / name, tmp_path / "whole" / name)
    assert not [path for path in folder.rglob("*.part") if path.name.startswith(".log")]


def newest(folder: Path) -> int:
    return max(Checkpoints(folder / "checkpoints").steps(), default=-1)
