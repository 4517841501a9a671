"""Several processes train one model, as real ranks that communicate by gloo."""

import json
import time
from pathlib import Path

import pytest
import torch
import torch.distributed.run
from helpers.fixtures import HELPERS
from helpers.processes import CONDVAE, PATIENCE, on_two_ranks, say, to_the_end, two_ranks
from helpers.tiny_baselines import SIZE, tiny_file
from helpers.training import SMALL, assert_same_model, call, log_of, smallest_network
from safetensors.torch import load_file

SABOTAGE, DUMPED = HELPERS / "sabotage.py", HELPERS / "dumped_ranks.py"
STEPS = [
    *("--lr", "2e-3", "--warm-up", "5", "--log-every", "10", "--evaluate-every", "10", "--checkpoint-every", "10"),
    *("--sheet-every", "0"),
]


@pytest.fixture(scope="module")
def artifact(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("artifact")
    call("pretrain", *SMALL, *STEPS, "--network", smallest_network(), "--steps", "10", "--out", folder / "vae")
    return folder / "vae" / "model.safetensors"


@pytest.fixture(scope="module")
def training(artifact: Path) -> list[str | Path]:
    """Arguments of a training of 20 steps, with micro-batches of 4 for any number of ranks."""
    return ["train", *SMALL, *STEPS, "--artifact", artifact, "--steps", "20", "--micro-batch", "4"]


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory, training: list[str | Path]) -> Path:
    """Run folder of this training on two ranks without a failure."""
    folder = tmp_path_factory.mktemp("two") / "run"
    on_two_ranks(CONDVAE, *training, "--out", folder, said=folder.with_suffix(".log"))
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


def test_nan_on_one_rank_skips_the_update_on_both(tmp_path: Path, training: list[str | Path]) -> None:
    on_two_ranks(SABOTAGE, "nan", "7", "1", *training, "--out", tmp_path / "run", said=tmp_path / "said")
    records = log_of(tmp_path / "run", "train")
    assert [record["skipped"] for record in records] == [1, 0]
    assert all(record["loss"] is not None for record in records)
    stored = json.loads((tmp_path / "run" / "log.jsonl").read_text().splitlines()[-1])
    assert stored["event"] == "end"


def test_a_killed_rank_is_restarted_and_the_run_resumes(tmp_path: Path, training: list[str | Path], two: Path) -> None:
    torchrun = (Path(torch.distributed.run.__file__), "--standalone", "--nproc-per-node=2", "--max-restarts=1")
    printed = say(*torchrun, SABOTAGE, "die", "15", "1", *training, "--out", tmp_path / "run", said=tmp_path / "said")
    assert "resuming from step 10" in printed
    assert_same_model(tmp_path / "run" / "model.safetensors", two / "model.safetensors")


def test_a_signal_stops_all_ranks_at_the_same_step(tmp_path: Path, artifact: Path) -> None:
    training: list[str | Path] = ["train", *SMALL, *STEPS, "--artifact", artifact, "--steps", "100000"]
    said = tmp_path / "said"
    with two_ranks(CONDVAE, *training, "--out", tmp_path / "run", said=said) as ranks:
        until = time.monotonic() + PATIENCE
        while not (tmp_path / "run" / "checkpoints" / "step-000000010.safetensors").exists():
            assert all(rank.is_alive() for rank in ranks) and time.monotonic() < until, said.read_text()
            time.sleep(0.05)
        for rank in (*ranks, *ranks):  # twice, because a scheduler and torchrun both send a signal
            rank.terminate()
        for rank in ranks:
            to_the_end(rank, said, expect=130)
    assert "stopped at step" in said.read_text()


def test_two_ranks_train_and_resume_a_baseline_with_a_critic(tmp_path: Path) -> None:
    """Both ranks have the same weights and buffers of both networks, also after a resumed run.

    Unlike that of a VAE, the result depends on the number of ranks: BatchNorm uses the statistics of a micro-batch, and
    the running statistics are averaged over ranks.
    """
    training: list[str | Path] = ["train", *SMALL, *STEPS, "--baseline", tiny_file("ce"), "--size", str(SIZE)]
    training += ["--observe", "halves", "--skip-above", "1e5"]
    states = []
    for name, several in (("whole", (20,)), ("parts", (10, 20))):
        for steps in several:
            words = (*training, "--steps", str(steps), "--out", tmp_path / name, "--resume")
            on_two_ranks(DUMPED, tmp_path / f"{name}-state", *words, said=tmp_path / f"{name}.log")
        states += [load_file(tmp_path / f"{name}-state" / f"rank-{rank}.safetensors") for rank in range(2)]
    assert "resuming from step 10" in (tmp_path / "parts.log").read_text()
    first = states[0]
    assert {"critic/updates", "buffers/0/layers.3.running_mean", "buffers/1/encoder.3.running_var"} <= first.keys()
    for other in states[1:]:
        assert first.keys() == other.keys()
        assert [name for name, part in first.items() if not torch.equal(part, other[name])] == []
    assert first["updates"].item() == first["critic/updates"].item() == 20
    assert_same_model(tmp_path / "whole" / "model.safetensors", tmp_path / "parts" / "model.safetensors")
    assert log_of(tmp_path / "whole", "train") == log_of(tmp_path / "parts", "train")
