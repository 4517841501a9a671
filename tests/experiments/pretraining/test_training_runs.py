"""Trainings freeze the artifacts of their arms, differ only in what the arms compare, and recognise their snapshots."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers.models import small_vae
from helpers.pretraining_runs import SMALL, artifact, inputs, small_settings

from condvae import weights
from condvae.conditional import ConditionalVAE, PartialConfig
from condvae.data import open_data
from condvae.experiments.pretraining.run import read_arms
from condvae.experiments.pretraining.training_runs import Arm, TrainingRun, numbers_of, runs_of
from condvae.vdvae import Normalisation, preset


def arms() -> list[Arm]:
    return read_arms(inputs().artifacts, small_settings())


def runs() -> dict[str, TrainingRun]:
    return {str(run): run for run in runs_of(arms(), small_settings())}


def snapshot_file(folder: Path, run: str, step: int) -> Path:
    name = run.replace(", ", "-").replace(" ", "-").replace(",", "-")
    (place,) = (folder / "runs").glob(f"{name}-{24 * '[0-9a-f]'}")
    return place / f"training/snapshots/step-{step:09}.safetensors"


def load(folder: Path, run: str, step: int) -> ConditionalVAE:
    return weights.load_conditional(snapshot_file(folder, run, step))


def changed(one: torch.nn.Module, other: torch.nn.Module) -> list[bool]:
    """Whether each weight tensor differs."""
    mine, theirs = one.state_dict(), other.state_dict()
    assert mine.keys() == theirs.keys()
    return [not torch.equal(tensor, theirs[name]) for name, tensor in mine.items()]


@pytest.mark.parametrize("arm", ["ipa", "transfer"])
def test_artifacts_stay_frozen_and_keep_their_normalisation(folder: Path, arm: str) -> None:
    given = weights.load_vae(inputs().artifacts[arm])
    early, late = (load(folder, f"{arm}, seed 0", step) for step in SMALL["steps"])
    for model in (early, late, load(folder, f"{arm}, seed 1", SMALL["steps"][-1])):
        assert not any(changed(model.artifact, given))
        assert model.artifact.config == given.config
    assert all(changed(early.partial, late.partial))
    assert given.config.normalisation == Normalisation(shift=-120.0 - (arm == "transfer"), scale=1 / 70)


def test_from_scratch_all_weights_are_trained(folder: Path) -> None:
    early, late = (load(folder, "scratch, seed 0", step) for step in SMALL["scratch_steps"])
    assert all(changed(early, late))
    mean, std = open_data(inputs().data, validation=SMALL["validation"]).train.normalisation()
    normalisation = Normalisation(shift=-mean, scale=1 / std)
    assert late.artifact.config == preset("tiny", normalisation=normalisation)


@pytest.mark.parametrize(("arm", "step"), [("scratch", 3), ("ipa", 4)])
def test_seeds_give_different_weights(folder: Path, arm: str, step: int) -> None:
    first, second = (load(folder, f"{arm}, seed {seed}", step) for seed in (0, 1))
    assert all(changed(first.partial, second.partial))
    assert set(changed(first.artifact, second.artifact)) == {arm == "scratch"}


def test_arms_differ_only_in_their_artifact_and_their_steps() -> None:
    settings, place = small_settings(lr=0.02, batch=3), Path("x")
    scratch, ipa = (runs()[f"{name}, seed 1"].options(settings, place, place, "cpu") for name in ("scratch", "ipa"))
    apart = {name for name, value in scratch.to_dict().items() if ipa.to_dict()[name] != value}
    assert apart == {"artifact", "scratch", "steps", "snapshot_at", "evaluate_every"}
    assert (ipa.lr, ipa.batch, ipa.schedule, ipa.seed) == (0.02, 3, "constant", 1)
    assert (ipa.steps, ipa.snapshot_at) == (4, (2, 4)) and (scratch.steps, scratch.snapshot_at) == (3, (1, 3))
    assert runs()["ipa, grey, seed 0"].options(settings, place, place, "cpu").observe == ("grey",)
    assert ipa.observe == ("halves",)  # as in the preset


def test_runs_are_all_arms_with_all_seeds_and_conditions() -> None:
    conditions = SMALL["conditions"]
    assert list(runs()) == [
        *(
            f"{arm}, {name}pace"
            for name in ("", *(f"{name}, " for name in conditions))
            for arm in ("scratch", "artifact")
        ),
        *("scratch, seed 0", "scratch, seed 1"),  # the longest ones first
        *(f"scratch, {name}, seed 0" for name in conditions),
        *(f"{arm}, seed {seed}" for seed in (0, 1) for arm in ("ipa", "transfer")),
        *(f"ipa, {name}, seed 0" for name in conditions),
    ]


@pytest.mark.parametrize(
    ("run", "step", "source", "other_step"),
    [
        ("ipa, seed 0", 2, "transfer, seed 0", 2),  # another artifact
        ("ipa, seed 0", 2, "ipa, seed 1", 2),
        ("ipa, seed 0", 2, "ipa, seed 0", 4),
        ("ipa, seed 0", 2, "ipa, grey, seed 0", 2),
        ("scratch, seed 0", 1, "ipa, grey, seed 0", 1),
        ("ipa, grey, seed 0", 2, "scratch, grey, seed 0", 2),
        ("ipa, grey, seed 0", 2, "ipa, label,classes=10, seed 0", 2),
    ],
)
def test_a_snapshot_of_another_training_is_refused(
    folder: Path, tmp_path: Path, run: str, step: int, source: str, other_step: int
) -> None:
    settings, mine, place = small_settings(), runs()[run], tmp_path / "run" / "training"
    file = place / f"snapshots/step-{step:09}.safetensors"
    with pytest.raises(ValueError, match=f"{file} is missing: delete {place.parent} and run the same command again"):
        mine.snapshot(settings, place, step)
    file.parent.mkdir(parents=True)
    shutil.copy(snapshot_file(folder, run, step), file)
    assert mine.snapshot(settings, place, step).partial_config.form == "relative"
    shutil.copy(snapshot_file(folder, source, other_step), file)
    words = rf"{file} does not belong to this training \({run}, {step} steps\): delete {place.parent} and run"
    with pytest.raises(ValueError, match=words):
        mine.snapshot(settings, place, step)


def test_numbers_of_a_training_come_from_its_log(tmp_path: Path) -> None:
    def log(*rates: float) -> Path:
        lines: list[dict[str, Any]] = [{"event": "evaluation", "hidden_nats": 9.0, "whole_nats": 20.0}]
        lines += [{"event": "train", "images_per_second": rate} for rate in rates]
        lines += [{"event": "evaluation", "hidden_nats": 3.0, "whole_nats": 5.0}]
        path = tmp_path / "log.jsonl"
        path.write_text("".join(json.dumps(line) + "\n" for line in [{"event": "start"}, *lines, {"event": "end"}]))
        return path

    last = {"hidden_nats": 3.0, "whole_nats": 5.0}
    # The time of a step is a median without the first lines; the bounds are those after the last step.
    assert numbers_of(log(1, 2, 50, 10, 20), 4) == {"seconds_per_step": 4 / 20, **last}
    assert numbers_of(log(8), 4) == {"seconds_per_step": 0.5, **last}


def test_a_conditional_model_gives_its_artifact_and_the_minutes_of_its_pretraining(tmp_path: Path) -> None:
    vae = small_vae(preset("tiny"))
    before = {"minutes": 2.5, "steps": 7, "images_seen": 28, "seed": 3}
    record = {"minutes": 99, "steps": 1, "artifact": before}
    weights.save(ConditionalVAE(vae, PartialConfig(channels=4)), tmp_path / "model.safetensors", record=record)
    arm = Arm.with_artifact("ipa", tmp_path / "model.safetensors", small_settings())
    assert arm.minutes == 2.5 and arm.pretraining == {"steps": 7, "images_seen": 28}
    weights.save(vae, tmp_path / "vae.safetensors", record=before)
    assert Arm.with_artifact("ipa", tmp_path / "vae.safetensors", small_settings()).identity == arm.identity


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"stages": preset("demo32").stages}, r"makes images of 32 x 32 x 3, but the network tiny makes 8 x 8 x 3"),
        (
            {"channels": 1},
            r"makes images of 8 x 8 x 1, but the network tiny makes 8 x 8 x 3: give an artifact that was",
        ),
        ({"latent_channels": 5}, r"has another network than tiny, .*: give one that was trained with --preset tiny"),
        ({"minutes": None}, r"does not say how long its training took: give a model file of condvae"),
    ],
)
def test_other_artifacts_are_refused(tmp_path: Path, changes: dict[str, Any], words: str) -> None:
    path = artifact(tmp_path / "vae.safetensors", **changes)
    with pytest.raises(ValueError, match=rf"the artifact other \({path}\) {words}"):
        Arm.with_artifact("other", path, small_settings())


@pytest.mark.parametrize("name", ["scratch", "", "  ", "a\nb"])
def test_other_names_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match=r"an artifact cannot be called .*: give it another name"):
        Arm.with_artifact(name, inputs().artifacts["ipa"], small_settings())
