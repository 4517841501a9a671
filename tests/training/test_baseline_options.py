"""`condvae train --baseline` sets the options of the preset, and rejects bad options before it writes anything."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from helpers.commands import failure
from helpers.tiny_baselines import SIZE, TINY, tiny_file
from helpers.training import SMALL, assert_same_model, call, few_faces, log_of

import condvae
from condvae import weights
from condvae.cli import main
from condvae.completers.learned_names import LEARNED_PRESETS
from condvae.training import TRAIN_PRESETS, PretrainOptions, TrainOptions, options_for
from condvae.training.run_folder import RunFolder

TRAIN = ["train", *SMALL, "--steps", "2"]
QUICK: dict[str, Any] = {
    "data": few_faces(), "size": SIZE, "batch": 4, "steps": 2, "evaluate_on": 2, "sheet_every": 0, "device": "cpu",
}  # fmt: skip


def written(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--baseline", "ce", "--artifact", "vae"], "given: --artifact and --baseline"),
        (["--baseline", "ce", "--init", "model"], "given: --init and --baseline"),
        (
            ["--baseline", "ce", "--objective", "reverse"],
            "--objective applies to VAEs only, and --baseline ce",
        ),
        (["--baseline", "ce", "--form", "relative"], "--form applies to VAEs only"),
        (["--baseline", "ce", "--anneal", "5"], "--anneal applies to VAEs only"),
        (["--baseline", "ce", "--recompute", "yes"], "--recompute applies to VAEs only"),
        (["--baseline", "ce", "--observe", "edges"], "completes images with holes, but --observe edges makes no holes"),
        (["--baseline", "cee"], "unknown baseline 'cee', expected one of ce, anp, pic, rfr"),
        (["--baseline", "small32"], "unknown baseline 'small32', expected one of ce"),
        (["--baseline", "none.json"], "none.json cannot be read: No such file"),
        (["--baseline", "ce", "--size", "24"], "the image size is 24, expected a power of two"),
        (["--baseline", "pic", "--size", "8"], "the latent size is 4 and the image size is 8, expected an image size"),
        (
            ["--baseline", "rfr", "--size", "20"],
            "the image size is 20, but with 2 strides it has to be a multiple of 8",
        ),
        (["--baseline", "pic-paper", "--size", "32"], "give --size 256 to resize them, or use pic"),
    ],
)
def test_bad_options_are_one_sentence_and_leave_nothing_behind(
    words: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = failure(capsys, *TRAIN, *words, "--out", tmp_path / "run", "--quiet")
    assert message in said
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"kind": "vae"}, "the kind of the baseline is 'vae', expected 'ce' or 'anp'"),
        ({"width": 4}, "the kind of the baseline is None"),
        ({"kind": "ce", "bottlenek": 8}, "unknown key in configuration of ce: bottlenek; expected keys are"),
        ({"kind": "anp", "width": 8, "heads": 3}, "the width is 8, which 3 heads cannot share equally"),
        ({"kind": "ce", "width": "4"}, "the width is '4', expected a whole number"),
        ([1], "it contains [1], expected a mapping"),
    ],
)
def test_a_bad_file_is_named_in_the_message(
    content: object, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "bad.json"
    path.write_text(json.dumps(content))
    said = failure(capsys, *TRAIN, "--baseline", path, "--out", tmp_path / "run", "--quiet")
    assert f"{path} is not a valid configuration of a baseline: " in said and message in said
    assert list(tmp_path.iterdir()) == [path]


def test_a_run_is_not_resumed_with_another_baseline(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    own, folder = tmp_path / "own.json", tmp_path / "run"
    own.write_text(json.dumps({"kind": "ce", **TINY["ce"]}))
    training: list[str | Path] = [*TRAIN, "--size", str(SIZE), "--out", folder, "--quiet"]
    call(*training, "--baseline", own)
    before = written(folder)
    said = failure(capsys, *training, "--baseline", tiny_file("anp"), "--resume")
    assert f"baseline is {tiny_file('anp')}, was {own}" in said
    assert written(folder) == before
    for change in ({"width": 8}, {"adversarial": 0.5}):
        own.write_text(json.dumps({"kind": "ce", **TINY["ce"], **change}))
        said = failure(capsys, *training, "--baseline", own, "--resume", "--steps", "4")
        assert f"{own} has changed since the run in {folder} began: restore the file" in said
        assert written(folder) == before


@pytest.mark.parametrize("name", LEARNED_PRESETS)
def test_a_name_sets_the_options_of_its_preset_and_others_override_them(name: str) -> None:
    given: dict[str, Any] = {"data": (Path("x"),), "out": Path("y")}
    by_name, by_preset = (
        options_for(TrainOptions, None, baseline=name, **given),
        options_for(TrainOptions, name, **given),
    )
    assert by_name == by_preset
    for key, value in TRAIN_PRESETS[name].items():
        assert getattr(by_name, key) == value, key
    assert by_name.beta2 >= 0.99 and by_name.weight_decay == 0.0  # Adam, unlike the defaults
    changed = options_for(TrainOptions, None, baseline=name, lr=0.5, batch=7, **given)
    assert (changed.lr, changed.batch, changed.beta1) == (0.5, 7, by_name.beta1)
    # A file sets none, and neither does a preset for another network.
    assert options_for(TrainOptions, None, baseline="x.json", **given).lr == TrainOptions.lr
    assert options_for(TrainOptions, None, baseline="small32", **given).form == TrainOptions.form
    with pytest.raises(ValueError, match="unknown key in options: baseline"):
        options_for(PretrainOptions, None, baseline=name, **given)


def test_the_command_line_and_python_train_the_same_model(tmp_path: Path) -> None:
    words = ["train", *SMALL, "--size", "8", "--batch", "4", "--steps", "2", "--evaluate-on", "2", "--sheet-every", "0"]
    for out, more in (
        ("a", ["--baseline", "ce"]),
        ("b", ["--preset", "ce"]),
        ("c", ["--baseline=ce", "--lr", "1e-5"]),
    ):
        call(*words, *more, "--out", tmp_path / out, "--quiet")
    condvae.train(**{**QUICK, "size": 8}, baseline="ce", out=tmp_path / "d")
    stored = {out: RunFolder(tmp_path / out).stored_options() for out in "abcd"}
    for out, options in stored.items():
        assert (options["baseline"], options["beta2"], options["batch"]) == ("ce", 0.999, 4)
        assert options["lr"] == (1e-5 if out == "c" else TRAIN_PRESETS["ce"]["lr"])
        assert options["observe"] == list(TRAIN_PRESETS["ce"]["observe"])
    models = {out: tmp_path / out / "model.safetensors" for out in "abcd"}
    assert_same_model(models["a"], models["b"])
    assert_same_model(models["a"], models["d"])
    with pytest.raises(AssertionError):
        assert_same_model(models["a"], models["c"])
    record = weights.describe(models["a"]).record
    assert record["updates"] == 2 and record["hidden_error"] > 0 and record["options"]["baseline"] == "ce"
    (last,) = log_of(tmp_path / "a", "train")
    assert last["squared_error"] > 0 and last["critic"]["loss"] > 0 and "bits_per_dim" not in last


@pytest.mark.parametrize("words", [["--baseline", "pic"], ["--preset", "pic"], ["--baseline=pic"]])
def test_the_help_shows_the_defaults_of_the_preset(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(["train", *words, "--help"])
    assert left.value.code == 0
    text = " ".join(capsys.readouterr().out.split())
    preset = TRAIN_PRESETS["pic"]
    for option in ("lr", "batch", "beta1", "beta2", "schedule"):
        found = re.search(rf" --{option} [A-Z{{].*?\(default: (.*?)\)", text)
        assert found and found[1] == str(preset[option]), option
    for name in LEARNED_PRESETS:
        assert name in text


def test_pretrain_knows_no_baselines(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["pretrain", "--baseline", "ce", "--data", "x", "--out", "y"])
    assert stopped.value.code == 2
    assert "--baseline (applied to condvae pretrain)" in capsys.readouterr().err
