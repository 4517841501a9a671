"""`condvae design experiment`, as a user types it."""

import io
import json
import zipfile
from pathlib import Path

import pytest
import torch
from helpers.design_runs import FINDINGS, small_data
from helpers.models import small_conditional
from helpers.training import call
from PIL import Image

from condvae import save
from condvae.data import ImageSet
from condvae.design.avp_cnn.classifier_file import save_classifier
from condvae.design.avp_cnn.network import AVPCNN, ClassifierConfig

SMALL = ("--steps", 2, "-n", 2, "--first-n", 4, "--points", 3, "--repeats", 2, "--resamples", 20, "--device", "cpu")


def pack(path: Path, *, labelled: bool = True) -> Path:
    """Write the small data set as a zip, with two images of each patient, and return its path."""
    data = small_data()
    labels, patients = [], []

    def put(archive: zipfile.ZipFile, images: ImageSet, split: str) -> None:
        assert images.labels is not None and images.groups is not None
        for row in images.rows:
            file = io.BytesIO()
            Image.fromarray(images.images[row]).save(file, "png")
            archive.writestr(f"{split}/{row:03}.png", file.getvalue())
            labels.append([f"{split}/{row:03}.png", images.labels[row].tolist() if labelled else None])
            patients.append(int(images.groups[row]))

    with zipfile.ZipFile(path, "w") as archive:
        put(archive, data.train, "train")
        put(archive, data.test, "test")
        table = {"labels": labels, "label_names": FINDINGS, "patient_id": patients}
        archive.writestr("dataset.json", json.dumps(table))
    return path


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> list[str | Path]:
    """Return the options that name a model, a classifier and data."""
    folder = tmp_path_factory.mktemp("command")
    torch.manual_seed(0)
    config = ClassifierConfig(
        size=8, channels=3, names=(*FINDINGS, "any finding"), trunk="plain", widths=(4,), blocks=1, head=0
    )
    save_classifier(AVPCNN(config).eval(), folder / "classifier.safetensors")
    save(small_conditional(), folder / "model.safetensors")
    data = pack(folder / "data.zip")
    return ["--model", folder / "model.safetensors", "--classifier", folder / "classifier.safetensors", "--data", data]


@pytest.mark.usefixtures("drawn")
def test_from_files_to_figures(tmp_path: Path, given: list[str | Path]) -> None:
    out = tmp_path / "out"
    few = ("--tasks", "edema", "no finding", "--policies", "eig-ipa", "random", "full", "--out", out)
    words = ["design", "experiment", *given, *map(str, SMALL), *few]
    for number in (1, 2):
        assert f"shard {number} of 2 is done" in call(*words, "--shard", f"{number}/2")
    printed = call(*words)
    assert "8 of 8 units of work are done already" in printed  # eig-ipa has three blocks for each task
    result = json.loads((out / "results.json").read_text())
    assert list(result["policies"]) == ["eig-ipa", "random", "full"]
    assert (result["data"], result["images"], result["patients"]) == ("data.zip", 24, 12)
    assert result["settings"]["side_pixels"] == 2
    named = {words[i]: str(words[i + 1]) for i, word in enumerate(words) if word in ("--model", "--classifier")}
    assert result["model"] == {
        "name": named["--model"],
        "temperature": 1.0,
        "pixels": "mean",
        "precision": "fp32",
    }
    assert result["classifier"] == {"name": named["--classifier"], "precision": "float32"}
    (out / "auroc.png").unlink()
    call("design", "experiment", "--redraw", out)
    assert (out / "auroc.png").is_file()


def test_a_model_that_no_policy_needs_is_not_loaded(tmp_path: Path, given: list[str | Path]) -> None:
    words = [*given, *map(str, SMALL), "--tasks", "edema", "--policies", "random", "--model", "xray"]
    assert "wrote" in call("design", "experiment", *words, "--out", tmp_path / "out")


def test_bad_input_is_one_sentence_and_exit_code_2(tmp_path: Path, given: list[str | Path]) -> None:
    out = tmp_path / "out"
    (tmp_path / "images").mkdir()
    plain: list[str | Path] = ["--data", pack(tmp_path / "plain.zip", labelled=False)]
    small: list[str | Path] = [*map(str, SMALL), "--out", out]
    cases: list[tuple[list[str | Path], str]] = [
        (small, "no data was given"),
        ([*given, *small, "--data", tmp_path / "no"], "does not exist"),
        ([*given, *small, "--shard", "3/2"], "expected I/N"),
        ([*given, *small, "--policies", "clever"], "unknown policy 'clever'"),
        ([*given, *small, "--tasks", "hernia"], "does not predict 'hernia'"),
        ([*given, *small, "--tasks", "infiltration", "--steps", "0"], "number of scans is 0"),
        ([*given, *small, *plain], "the images have no labels"),
        ([*given, *small, "--model", "none"], "eig-ipa needs a model"),
        ([*given, *small, "--model", tmp_path / "no.safetensors"], "does not exist"),
        ([*given, *small, "--classifier", tmp_path / "no.safetensors"], "does not exist"),
        ([*given, *small, "--size", "16"], "--size is 16, but the classifier"),
        ([*given, *small, "--size", "0"], "takes images of 8 x 8 pixels: leave --size out"),
        ([*given, *small, "--block", "-1"], "scanned together is -1"),
        ([*given, *small, "--model", "xray"], "xray makes images of 64 x 64 x 1,"),
        ([*given, *small, "--model", given[3]], "is a classifier file from condvae design train, expected a model"),
        ([*given, *small, "--classifier", given[1]], "is a model file from condvae train, expected a classifier"),
        ([*given, *small, "--temperature", "hot"], "the temperature 'hot' cannot be read"),
        ([*given, *small, "--data", tmp_path / "images", "--out", tmp_path / "images" / "x"], "part of the data"),
        (["--redraw", tmp_path / "no"], "holds no results.json"),
    ]
    for arguments, message in cases:
        printed = call("design", "experiment", *arguments, expect=2)
        assert message in printed and len(printed.strip().splitlines()) == 1, printed
        assert not out.exists()
