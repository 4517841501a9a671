"""A method that is trained in stages: one call trains all of them, and resumes where it was interrupted."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers.resumed_runs import times
from helpers.tiny_baselines import TINY, tiny_file
from helpers.training import FACES, assert_same_model, call, log_of
from PIL import Image
from torch import Tensor

from condvae import weights
from condvae.completers.learned_names import STAGES
from condvae.completers.vector_quantised import VectorQuantised
from condvae.training import train
from condvae.training.loop import Loop
from condvae.training.run_folder import RunFolder

STEPS = 7
"""So many steps that the stages have 2, 3 and 2."""


@pytest.fixture
def options(tmp_path: Path) -> dict[str, Any]:
    config = tmp_path / "vqvae.json"
    config.write_text(json.dumps({"kind": "vqvae", **TINY["vqvae"]}))
    return {
        "data": FACES, "baseline": str(config), "observe": ("halves",), "device": "cpu", "size": 16, "batch": 4,
        "steps": STEPS, "lr": 1e-2, "ema": 0.5, "evaluate_on": 2, "sheet_every": 0, "weight_decay": 0.0,
        "evaluate_every": 100, "checkpoint_every": 2,
    }  # fmt: skip


@pytest.fixture(autouse=True)
def without_sheets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw no contact sheets, which take longer than the training."""
    monkeypatch.setattr("condvae.training.training_run._sheet", lambda *_: Image.new("RGB", (8, 8)))


def part(path: Path, name: str) -> dict[str, Tensor]:
    """The weights and buffers of one part of a model."""
    model = weights.load(path)
    assert isinstance(model, VectorQuantised)
    return {key: value for key, value in model.state_dict().items() if key.startswith(f"{name}.")}


def same(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    assert one.keys() == other.keys() and one
    return all(torch.equal(one[key], other[key]) for key in one)


def test_each_stage_trains_its_part_alone(options: dict[str, Any], tmp_path: Path) -> None:
    out = tmp_path / "run"
    path = train(**options, out=out)
    assert path == out / "model.safetensors"
    models = [out / "codes" / "model.safetensors", out / "structure" / "model.safetensors", path]
    for before, after, trained in zip(models, models[1:], ("structure", "texture"), strict=False):
        for name in STAGES["vqvae"]:
            assert same(part(before, name), part(after, name)) == (name != trained)
    assert [weights.describe(one).record["steps"] for one in models] == [2, 3, 2]
    assert [record["skipped"] for record in log_of(out, "train")] == [0]
    record = weights.describe(path).record
    assert (record["init"]["steps"], record["init"]["init"]["steps"]) == (3, 2)


@pytest.mark.parametrize(("stage", "step"), [("codes", 1), ("structure", 3), ("texture", 1)])
def test_an_interrupted_training_gives_the_same_model(
    options: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stage: str, step: int
) -> None:
    whole = train(**options, out=tmp_path / "whole")
    out = tmp_path / "run"
    one_step = Loop._one_step

    def killed(loop: Loop, *rest: Any) -> None:
        folder = out if stage == "texture" else out / stage
        if loop.folder.path == folder and loop.position.step == step - 1:
            raise KeyboardInterrupt
        one_step(loop, *rest)

    with monkeypatch.context() as patch:
        patch.setattr(Loop, "_one_step", killed)
        with pytest.raises(KeyboardInterrupt):
            train(**options, out=out)
    assert not RunFolder(out).model.is_file()
    finished = [name for name in ("codes", "structure") if (out / name / "model.safetensors").is_file()]
    times = {name: (out / name / "model.safetensors").stat().st_mtime_ns for name in finished}
    assert_same_model(train(**options, out=out, resume=True), whole)
    assert times == {name: (out / name / "model.safetensors").stat().st_mtime_ns for name in finished}


def test_a_second_training_in_the_same_folder_is_refused(options: dict[str, Any], tmp_path: Path) -> None:
    out = tmp_path / "run"
    train(**options, out=out)
    before = times(out)
    cases: tuple[tuple[dict[str, Any], str], ...] = (
        ({}, "codes already contains a run: add --resume to continue it"),
        ({"resume": True, "steps": 70}, "codes was trained with steps 2, but now it would be 15: a training in stages"),
        ({"resume": True, "lr": 0.5}, "codes contains a run with other options .lr is 0.5, was 0.01"),
    )
    for change, message in cases:
        with pytest.raises(ValueError, match=message):
            train(**{**options, **change}, out=out)
    assert times(out) == before


def test_a_folder_with_another_run_is_refused_before_the_first_stage(options: dict[str, Any], tmp_path: Path) -> None:
    out = tmp_path / "run"
    other = {**options, "baseline": tiny_file("ce")}
    train(**other, out=out)
    with pytest.raises(ValueError, match="run already contains a run: add --resume"):
        train(**options, out=out)
    assert not (out / "codes").exists()


def test_evaluations_of_the_first_stages_report_their_losses(options: dict[str, Any], tmp_path: Path) -> None:
    out = tmp_path / "run"
    train(**options, out=out)
    for name in ("codes", "structure"):
        first, last = (log_of(out / name, "evaluation")[i]["held_out_loss"] for i in (0, -1))
        assert last < first
        assert weights.describe(out / name).record["held_out_loss"] == pytest.approx(last, abs=1e-6)
    assert all("hidden_error" in record for record in log_of(out, "evaluation"))


def test_bad_options_write_nothing(options: dict[str, Any], tmp_path: Path) -> None:
    out = tmp_path / "run"
    with pytest.raises(ValueError, match="training has no end: give --steps, --minutes or both"):
        train(**{**options, "steps": None}, out=out)
    with pytest.raises(
        ValueError, match=r"snapshots of --baseline .* would be unfinished, since it is trained in stages"
    ):
        train(**options, snapshot_at=2, out=out)
    with pytest.raises(ValueError, match="the image size is 18, expected a multiple of 4"):
        train(**{**options, "size": 18}, out=out)
    assert not out.exists()


def test_the_command_line_trains_all_stages(options: dict[str, Any], tmp_path: Path) -> None:
    words = ["--data", FACES, "--size", 16, "--baseline", options["baseline"], "--steps", 3, "--batch", 2]
    call("train", *words, "--device", "cpu", "--observe", "halves", "--out", tmp_path / "run")
    assert weights.describe(tmp_path / "run").record["steps"] == 1
