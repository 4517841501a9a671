"""Every kind of training on real faces, and options that are rejected before anything is written."""

import dataclasses
import json
import math
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers.training import FACES, assert_same_model, few_faces, log_of, smallest_network

from condvae import weights
from condvae.conditional import ConditionalVAE
from condvae.observe import Freeform, Halves
from condvae.runtime.progress import Display, TrackedJob, showing
from condvae.training import PretrainOptions, TrainOptions, options_for, pretrain, train
from condvae.training.run_folder import RunFolder
from condvae.vdvae import VDVAE, preset

QUICK: dict[str, Any] = {
    "data": (few_faces(),),
    "size": 8,
    "batch": 8,
    "warm_up": 5,
    "log_every": 10,
    "evaluate_every": 20,
    "evaluate_on": 32,
    "sheet_every": 0,
    "device": "cpu",
}
LONGER: dict[str, Any] = {
    "batch": 16,
    "lr": 1e-2,
    "schedule": "cosine",
    "ema": 0.95,
    "evaluate_every": 150,
    "log_every": 50,
}


@pytest.fixture(scope="module")
def vae(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Model file of a VAE that was pretrained for a few seconds."""
    out = tmp_path_factory.mktemp("vae") / "run"
    return pretrain(PretrainOptions(**{**QUICK, **LONGER}, network=smallest_network(), steps=150, out=out))


def evaluations(folder: Path) -> list[float]:
    return [record["bits_per_dim"] for record in log_of(folder, "evaluation")]


def test_both_losses_fall_well_below_their_start(vae: Path, tmp_path: Path) -> None:
    start, *_, end = evaluations(vae.parent)
    assert end < start - 2.5  # bits per dimension fall from 9.1 to about 6.4
    file = train(TrainOptions(**{**QUICK, **LONGER}, artifact=vae, steps=50, out=tmp_path / "run"))
    kl = [sum(record["kl_nats"].values()) for record in log_of(file.parent, "evaluation")]
    assert kl[-1] < 0.5 * kl[0]  # KL(q || c), nats per image
    # The frozen artifact in the result has not changed.
    model, artifact = weights.load(file), weights.load(vae)
    assert isinstance(model, ConditionalVAE) and isinstance(artifact, VDVAE)
    assert all(torch.equal(a, b) for a, b in zip(model.artifact.parameters(), artifact.parameters(), strict=True))
    assert model.process == Freeform()
    assert (file.parent / "sheets" / "step-000000050.png").is_file()


def test_transfer_keeps_the_normalisation_of_the_artifact(vae: Path, tmp_path: Path) -> None:
    """A partial encoder trained on other images (here grey ones) uses the normalisation of the artifact."""
    model = weights.load(vae)
    assert isinstance(model, VDVAE)
    normalisation = model.config.normalisation
    assert normalisation != preset("tiny").normalisation  # measured on the faces
    from PIL import Image

    photos = tmp_path / "photos"
    photos.mkdir()
    for i in range(30):
        Image.new("L", (8, 8), 8 * i).save(photos / f"{i}.png")
    asked = TrainOptions(**{**QUICK, "data": (photos,), "size": None}, artifact=vae, steps=3, out=tmp_path / "run")
    file = train(asked)
    for out in (photos, photos / "deep" / "run"):
        for again in (False, True):
            with pytest.raises(ValueError, match=r"is inside .*photos, so the output would become part of the data"):
                train(dataclasses.replace(asked, out=out, resume=again))
    assert len(list(photos.iterdir())) == 30
    transferred = weights.load(file)
    assert isinstance(transferred, ConditionalVAE)
    assert transferred.artifact.config.normalisation == normalisation
    assert transferred.artifact.config.channels == 3


@pytest.mark.parametrize(
    "changes",
    [
        {"objective": "reverse", "anneal": 4},
        {"form": "relative"},
        {"observe": ("edges",)},
        {"observe": ("grey",)},
        {"observe": ("low-resolution,factor=4",)},
        {"observe": ("freeform,low=0.2,high=0.8,weight=2", "boxes", "halves", "pixels", "patches", "nothing")},
        {"optimiser": "adamax", "micro_batch": 4, "precision": "bf16", "recompute": "yes"},
    ],
)
def test_all_kinds_of_conditional_training_run(vae: Path, tmp_path: Path, changes: dict[str, Any]) -> None:
    file = train(TrainOptions(**{**QUICK, **changes}, artifact=vae, steps=6, lr=1e-3, out=tmp_path / "run"))
    header = weights.describe(file)
    assert header.process is not None
    assert header.record["steps"] == header.record["updates"] == 6
    assert math.isfinite(header.record["bits_per_dim"])


def test_a_run_resumes_with_its_own_copies_of_the_starting_models(vae: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    other = pretrain(PretrainOptions(**QUICK, network=smallest_network(), steps=2, seed=9, out=tmp_path / "other"))
    # A copy left by a run without a checkpoint is not used instead of the given artifact.
    killed = RunFolder(out)
    killed.claim(TrainOptions(**QUICK, artifact=other, steps=4, out=out), data="faces", resume=False)
    killed.release()
    (out / "artifact.safetensors").write_bytes(other.read_bytes())
    here = tmp_path / "vae.safetensors"
    here.write_bytes(vae.read_bytes())
    file = train(TrainOptions(**QUICK, artifact=here, steps=4, out=out))
    assert_same_model(out / "artifact.safetensors", vae)
    # A resumed run uses its own copy, even if the original file has been damaged.
    here.write_bytes(b"damaged")
    train(TrainOptions(**QUICK, artifact=here, steps=8, out=out, resume=True))
    model, artifact = weights.load(file), weights.load(vae)
    assert isinstance(model, ConditionalVAE) and isinstance(artifact, VDVAE)
    assert all(torch.equal(a, b) for a, b in zip(model.artifact.parameters(), artifact.parameters(), strict=True))
    # The same holds for a model given as --init.
    first = tmp_path / "first.safetensors"
    first.write_bytes(file.read_bytes())
    again = TrainOptions(**QUICK, init=first, steps=4, out=tmp_path / "again")
    train(again)
    first.unlink()
    train(dataclasses.replace(again, steps=8, resume=True))


def test_a_run_is_not_resumed_with_another_model(vae: Path, tmp_path: Path) -> None:
    other = pretrain(PretrainOptions(**QUICK, network=smallest_network(), steps=1, seed=9, out=tmp_path / "other"))
    out, moved = tmp_path / "run", tmp_path / "moved.safetensors"
    file = train(TrainOptions(**QUICK, artifact=vae, steps=1, out=out))
    tuned = PretrainOptions(**QUICK, init=vae, steps=1, out=tmp_path / "tuned")
    pretrain(tuned)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    given = TrainOptions(**QUICK, artifact=other, steps=2, out=out, resume=True)
    for options, message in (
        (given, f"{out} contains a run that started from another artifact than {other}: resume with the same artifact"),
        (dataclasses.replace(given, artifact=None, init=file), f"with --artifact {vae}, but no --artifact was given"),
        (dataclasses.replace(tuned, init=other, resume=True), f"that started from another model than {other}: resume"),
        (dataclasses.replace(tuned, init=None, resume=True), f"with --init {vae}, but no --init was given: resume"),
    ):
        with pytest.raises(ValueError, match=re.escape(message)):
            pretrain(options) if isinstance(options, PretrainOptions) else train(options)
    assert before == {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    moved.write_bytes(vae.read_bytes())
    train(dataclasses.replace(given, artifact=moved))
    assert RunFolder(out).stored_options()["artifact"] == str(vae)  # what the run started from
    assert weights.describe(file).record["options"]["artifact"] == vae.name


def test_from_scratch_trains_everything_on_the_whole_image(tmp_path: Path) -> None:
    file = train(TrainOptions(**QUICK, scratch=smallest_network(), steps=40, lr=1e-2, ema=0.9, out=tmp_path / "run"))
    start, *_, end = evaluations(file.parent)
    assert end < start - 1
    fresh = weights.load(file)
    assert isinstance(fresh, ConditionalVAE)
    assert not (file.parent / "artifact.safetensors").exists()
    # The training loss includes the likelihood, unlike that of IPA.
    assert log_of(file.parent, "train")[-1]["log_likelihood_nats"] < 0


def test_init_continues_from_a_trained_model(vae: Path, tmp_path: Path) -> None:
    options = TrainOptions(
        **QUICK, artifact=vae, steps=20, lr=2e-3, ema=0.5, observe=("halves",), out=tmp_path / "first"
    )
    first = train(options)
    second = train(TrainOptions(**QUICK, init=first, steps=5, lr=1e-6, out=tmp_path / "second"))
    assert evaluations(second.parent)[0] == pytest.approx(evaluations(first.parent)[-1], abs=1e-6)
    assert weights.describe(second).process == Halves()  # the process of the first model, since --observe is not given
    again = pretrain(PretrainOptions(**QUICK, init=vae, steps=5, lr=1e-6, out=tmp_path / "again"))
    assert evaluations(again.parent)[0] == pytest.approx(evaluations(vae.parent)[-1], abs=0.05)


def test_streamed_data_gives_the_same_model(vae: Path, tmp_path: Path) -> None:
    for residency in ("device", "stream"):
        train(TrainOptions(**QUICK, artifact=vae, steps=12, residency=residency, out=tmp_path / residency))
    assert_same_model(tmp_path / "device" / "model.safetensors", tmp_path / "stream" / "model.safetensors")


def test_minutes_end_on_time_with_a_model(tmp_path: Path) -> None:
    options = {**QUICK, "network": "tiny", "schedule": "linear", "lr": 1e-3}
    file = pretrain(PretrainOptions(**options, minutes=0.06, out=tmp_path / "run"))
    end = [json.loads(line) for line in (file.parent / "log.jsonl").read_text().splitlines()][-1]
    # At most 3.6 s are expected, of which one and the time of an evaluation are reserved for the end of the run. The
    # tolerance is for a busy machine.
    assert 1 < end["elapsed"] < 12
    last = log_of(file.parent, "train")[-1]
    assert last["lr"] < 0.2e-3  # the learning rate decays with the clock
    assert weights.describe(file).record["steps"] == end["step"]


def test_options_of_a_preset_can_be_changed() -> None:
    options = options_for(TrainOptions, "ipa-cifar10", data=(FACES,), out=Path("run"), lr=1.0)
    assert (options.batch, options.lr, options.clip, options.skip_above, options.ema) == (30, 1.0, 200.0, 400.0, 0.9999)
    with pytest.raises(ValueError, match="unknown preset 'ipa-mnist', expected one of ipa-cifar10"):
        options_for(TrainOptions, "ipa-mnist", data=(FACES,), out=Path("run"))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"size": None}, r"32 x 32 pixels, but the network takes 8 x 8: give --size 8"),
        ({"data": (Path("nowhere"),)}, r"nowhere"),
        ({"data": ()}, r"no data was given"),
        ({"steps": None}, r"give --steps, --minutes or both"),
        ({"batch": 10, "micro_batch": 4}, r"a batch of 10 images cannot be split"),
        ({"lr": 0.0}, r"learning rate is 0"),
        ({"network": "huge"}, r"unknown network 'huge', expected one of"),
        ({"network": "none.json"}, r"none.json cannot be read"),
        ({"device": "toaster"}, r"device 'toaster' cannot be used"),
        ({"keep": 0}, r"--keep is 0"),
        ({"snapshot_at": (3, 0)}, r"--snapshot-at is 0, expected a whole number, at least 1"),
        ({"snapshot_at": (2.5,)}, r"--snapshot-at is 2.5, expected a whole number"),
        ({"workers": 0}, r"--workers is 0"),
        ({"seed": 2**64}, r"--seed is \d+, expected a whole number from 0 to 2\*\*64 - 1"),
        ({"size": 16}, r"--size is 16, but the network takes images of 8 x 8 pixels"),
        ({"device": "meta"}, r"device 'meta' cannot be used"),
    ],
)
def test_bad_options_of_pretraining_leave_nothing_behind(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    options = {**QUICK, "network": "tiny", "steps": 5, "out": tmp_path / "run", **changes}
    with pytest.raises(ValueError, match=message):
        pretrain(PretrainOptions(**options))
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"artifact": None}, r"give exactly one of --artifact"),
        ({"scratch": "tiny"}, r"given: --artifact and --scratch"),
        ({"objective": "reverse", "observe": ("edges",)}, r"--objective reverse needs known pixels"),
        ({"observe": ("frefrom",)}, r"frefrom"),
        ({"observe": ("label,classes=3",)}, r"label"),
        ({"observe": ("paired",)}, r"pair"),
        ({"anneal": 5}, r"--anneal"),
        ({"anneal": -1, "objective": "reverse"}, r"--anneal"),
        ({"artifact": FACES.parent}, r"is a folder without model.safetensors: give a model file"),
        (
            {"observe": ("label,classes=10000",), "start": "encoder"},
            r"--start encoder needs observations that contain an image",
        ),
    ],
)
def test_bad_options_of_conditioning_leave_nothing_behind(
    vae: Path, tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    options = {**QUICK, "artifact": vae, "steps": 5, "out": tmp_path / "run", **changes}
    with pytest.raises(ValueError, match=message):
        train(TrainOptions(**options))
    assert not (tmp_path / "run").exists()


def test_two_runs_cannot_share_a_folder(vae: Path, tmp_path: Path) -> None:
    options = TrainOptions(**QUICK, artifact=vae, steps=5, out=tmp_path / "run")
    holder = RunFolder(tmp_path / "run")
    holder.claim(options, data="faces", resume=False)
    with pytest.raises(ValueError, match="another process is training in"):
        train(options)
    holder.release()
    train(options)
    holder.claim(options, data=holder.stored_options()["data_summary"], resume=True)
    with pytest.raises(ValueError, match="another process is training in"):  # not: add --resume
        train(options)
    holder.release()
    refused = [RunFolder(tmp_path / "run") for _ in range(2)]
    for folder in refused:  # twice, because a rejected claim must release its lock
        with pytest.raises(ValueError, match="contains a run on other data"):
            folder.claim(options, data="cats", resume=True)


def test_the_console_shows_the_first_step_and_leaves_the_log_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    given = {**QUICK, "data": few_faces(), "network": "tiny", "steps": 12}
    with monkeypatch.context() as without_notes:
        without_notes.setattr(TrackedJob, "note_due", lambda job: False)
        pretrain(**given, out=tmp_path / "a")
    assert "step 0: " in capsys.readouterr().out
    with showing(Display(first=0, every=0.002, tick=0.001)):
        pretrain(**given, out=tmp_path / "b")
    shown = [line for line in capsys.readouterr().err.splitlines() if line.startswith("training: ")]
    assert any(" of 12 steps" in line and " bits/dim, KL 1:" in line for line in shown)
    # Notes on the console must not consume the sums that the log reports.
    rows = [log_of(tmp_path / out, "train") for out in "ab"]
    assert [row["step"] for row in rows[0]] == [10, 12]
    assert rows[0] == rows[1]


def test_one_step_and_one_image_are_not_called_steps_and_images(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pretrain(**{**QUICK, "evaluate_on": 1}, network=smallest_network(), steps=1, out=tmp_path / "run")
    printed = capsys.readouterr().out
    assert "finished after 1 step in" in printed and "on 1 held-out image\n" in printed
    assert "+-" not in printed  # one image shows no standard error
