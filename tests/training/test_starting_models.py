"""A run can start from a model by name, and the new model's record contains the record of that model."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers.models import small_conditional, small_vae
from helpers.training import few_faces

from condvae import weights
from condvae.conditional import ConditionalVAE
from condvae.observe import Halves
from condvae.training import PretrainOptions, TrainOptions, pretrain, train
from condvae.training.starting_models import _shortened
from condvae.vdvae import VDVAE
from condvae.weights import model_names as embedded

QUICK: dict[str, Any] = {
    "data": (few_faces(),),
    "size": 8,
    "batch": 4,
    "steps": 1,
    "warm_up": 0,
    "evaluate_on": 8,
    "sheet_every": 0,
    "device": "cpu",
}


@pytest.fixture
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "package"
    model = small_conditional()
    model.process = Halves()
    weights.save(small_vae(), folder / "plain8.safetensors", record={"task": "pretrain", "steps": 7})
    record = {"task": "train", "steps": 5, "artifact": {"task": "pretrain", "steps": 9}}
    weights.save(model, folder / "faces8.safetensors", record=record, bits=16)
    monkeypatch.setattr(embedded, "MODELS", folder)
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return folder


def resumed(options: Any, train: Any) -> dict[str, Any]:
    """Train, delete the starting models, resume for another step, and return the record of the result."""
    before = weights.describe(train(options)).record
    for file in embedded.MODELS.glob("*"):
        file.unlink()
    after = weights.describe(train(dataclasses.replace(options, steps=2, resume=True))).record
    assert after["steps"] == 2
    assert {key: after.get(key) for key in ("artifact", "init")} == {
        key: before.get(key) for key in ("artifact", "init")
    }
    return after


@pytest.mark.usefixtures("models")
def test_an_artifact_by_name_keeps_its_record() -> None:
    options = TrainOptions(**QUICK, artifact=Path("plain8"), out=Path("run"))
    record = resumed(options, train)
    assert record["task"] == "train"
    assert record["artifact"] == {"task": "pretrain", "steps": 7}
    assert record["options"]["artifact"] == "plain8"
    assert "init" not in record
    model = weights.load("run")  # the path of a run folder also names a model
    assert isinstance(model, ConditionalVAE)
    for mine, given in zip(model.artifact.parameters(), small_vae().parameters(), strict=True):
        assert torch.equal(mine, given)


@pytest.mark.usefixtures("models")
def test_the_artifact_inside_a_conditional_model_keeps_its_own_record() -> None:
    record = resumed(TrainOptions(**QUICK, artifact=Path("faces8"), out=Path("run")), train)
    assert record["artifact"] == {"task": "pretrain", "steps": 9}
    assert "init" not in record


@pytest.mark.usefixtures("models")
def test_training_continues_from_a_model_name() -> None:
    record = resumed(TrainOptions(**QUICK, init=Path("faces8"), out=Path("run")), train)
    assert record["init"] == {"task": "train", "steps": 5}
    assert record["artifact"] == {"task": "pretrain", "steps": 9}  # the artifact was frozen and is unchanged
    assert weights.describe("run").process == Halves()
    # Continue once more, from the run folder.
    again = weights.describe(train(TrainOptions(**QUICK, init=Path("run"), out=Path("again")))).record
    assert again["init"]["steps"] == 2 and again["init"]["init"]["steps"] == 5
    assert again["artifact"] == {"task": "pretrain", "steps": 9}
    assert "artifact" not in again["init"]


@pytest.mark.usefixtures("models")
def test_pretraining_continues_from_a_model_name() -> None:
    record = resumed(PretrainOptions(**QUICK, init=Path("faces8"), out=Path("run")), pretrain)
    assert record["init"] == {"task": "pretrain", "steps": 9}  # the record of the VAE, not of the partial encoder
    assert "artifact" not in record
    assert isinstance(weights.load("run"), VDVAE)


@pytest.mark.usefixtures("models")
def test_an_unknown_name_writes_no_files() -> None:
    unknown = {**QUICK, "out": Path("run")}
    message = r"unknown model 'plain9': did you mean plain8\?"
    with pytest.raises(ValueError, match=message):
        train(TrainOptions(**unknown, artifact=Path("plain9")))
    with pytest.raises(ValueError, match=message):
        train(TrainOptions(**unknown, init=Path("plain9")))
    with pytest.raises(ValueError, match=message):
        pretrain(PretrainOptions(**unknown, init=Path("plain9")))
    assert not Path("run").exists()


def test_only_the_last_records_of_a_long_history_are_kept() -> None:
    record: dict[str, Any] = {"steps": 0}
    for steps in range(1, 10):
        record = _shortened({"steps": steps, "init": record})
    depth = 0
    while "init" in record:
        record, depth = record["init"], depth + 1
    assert depth == 2
