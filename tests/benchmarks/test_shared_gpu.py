"""The count of wrong bounds finds none on a CPU, and finds those of a network that makes no finite numbers."""

import json

import pytest
import torch
from helpers.recipe_calls import run
from helpers.training import few_faces

from condvae.vdvae import VDVAE

WORDS = ("--network", "tiny", "--batch", "4", "--batches", "2", "--seconds", "0", "--device", "cpu")


def test_wrong_bounds_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    done = run("benchmarks/shared_gpu.py", "--data", few_faces(), *WORDS)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == {"plain": [2, 0]}
    monkeypatch.setattr(VDVAE, "pixel_log_prob", lambda self, state, x: x[:, 0] - torch.inf)
    done = run("benchmarks/shared_gpu.py", "--data", few_faces(), *WORDS)
    assert done.returncode == 0, done.stderr
    assert "plain: 2 of 2 batches wrong" in done.stdout


def test_bad_input_gives_a_one_line_message() -> None:
    done = run("benchmarks/shared_gpu.py", "--data", "none.zip", *WORDS)
    assert (done.returncode, done.stderr) == (2, "shared_gpu: none.zip does not exist: check the path to the data\n")
