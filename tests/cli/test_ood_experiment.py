"""`condvae ood experiment`, as a user types it."""

import io
import json
import zipfile
from pathlib import Path

import pytest
from helpers.baseline_models import small_baseline
from helpers.models import SMALLEST, small_vae
from helpers.ood_models import observing, plain_data
from helpers.training import call
from PIL import Image

from condvae import save
from condvae.data import ImageSet

SMALL = ("--images", 3, "--fit-images", 4, "--resamples", 20, "--device", "cpu")


def pack(path: Path, *, seed: int = 0, sets: tuple[str, ...] = ("train", "test")) -> Path:
    """Write the small data set as a zip, and return its path."""
    data = plain_data(train=12, validation=0, test=6, seed=seed)

    def put(archive: zipfile.ZipFile, images: ImageSet, folder: str) -> None:
        for row in images.rows:
            file = io.BytesIO()
            Image.fromarray(images.images[row]).save(file, "png")
            archive.writestr(f"{folder}/{row:03}.png", file.getvalue())

    with zipfile.ZipFile(path, "w") as archive:
        for name in sets:
            put(archive, getattr(data, name), name)
    return path


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a folder with two models and two data sets."""
    folder = tmp_path_factory.mktemp("command")
    save(observing(), folder / "ours.safetensors")
    save(observing("relative"), folder / "theirs.safetensors")
    save(small_baseline("anp", size=8), folder / "gan.safetensors")
    save(small_baseline("anp"), folder / "large.safetensors")
    save(small_vae(SMALLEST), folder / "vae.safetensors")
    pack(folder / "data.zip")
    pack(folder / "other.zip", seed=3)
    return folder


@pytest.mark.usefixtures("drawn")
def test_from_files_to_figures(tmp_path: Path, files: Path) -> None:
    out = tmp_path / "out"
    models: list[str | Path] = [files / "ours.safetensors", f"ipa-r={files / 'theirs.safetensors'}"]
    few = ("--scores", "gradient", "likelihood", "--baselines", "completed-nearest", "--sets", "noise", "flip")
    words: list[str | Path] = [
        "ood",
        "experiment",
        "--model",
        *models,
        "--data",
        files / "data.zip",
        "--against",
        f"other={files / 'other.zip'}",
        "--completers",
        f"anp={files / 'gan.safetensors'}",
    ]
    words += [*map(str, SMALL), *few, "--out", out]
    for number in (1, 2):
        assert f"shard {number} of 2 is done" in call(*words, "--shard", f"{number}/2")
    assert "units of work are done already" in call(*words)
    result = json.loads((out / "results.json").read_text())
    scores = ("gradient", "likelihood", "completed-nearest", "completed-anp")
    assert list(result["methods"]) == [f"{model} {score}" for model in ("ours", "ipa-r") for score in scores]
    assert set(result["completers"]) == {"nearest", "anp"}
    assert list(result["sets"]) == ["noise", "flip", "other"]
    assert (result["data"], result["images"]) == ("data.zip", 3)
    (out / "auroc.png").unlink()
    call("ood", "experiment", "--redraw", out)
    assert (out / "auroc.png").is_file()


def test_bad_input_is_one_sentence_and_exit_code_2(tmp_path: Path, files: Path) -> None:
    out = tmp_path / "out"
    (tmp_path / "images").mkdir()
    small: list[str | Path] = [*map(str, SMALL), "--out", out]
    given: list[str | Path] = ["--model", files / "ours.safetensors", "--data", files / "data.zip", *small]
    cases: list[tuple[list[str | Path], str]] = [
        (["--model", files / "ours.safetensors", *small], "no data was given"),
        (["--model", files / "no.safetensors", "--data", files / "data.zip", *small], "does not exist"),
        (["--model", files / "ours.safetensors", *given[1:]], "two models are called ours"),
        (["--model", "faces64", *given[1:]], "faces64 takes images of 64 x 64 x 3, but ours takes 8 x 8 x 3"),
        ([*given, "--data", tmp_path / "no"], "does not exist"),
        ([*given, "--data", tmp_path / "images", "--out", tmp_path / "images" / "x"], "part of the data"),
        ([*given, "--against", "svhn"], "expected NAME=PATH"),
        ([*given, "--against", f"svhn={tmp_path / 'no'}"], "does not exist"),
        ([*given, "--against", f"noise={files / 'other.zip'}"], "noise is the name of a built-in set"),
        ([*given, "--scores", "guess"], "unknown score 'guess'"),
        ([*given, "--baselines", "completed-gan"], "needs a completer named 'gan'"),
        ([*given, "--completers", "gan=nogan"], "unknown model 'nogan'"),
        ([*given, "--completers", f"nearest={files / 'gan.safetensors'}"], "a completer cannot be called 'nearest'"),
        (
            [*given, "--completers", f"gan={files / 'large.safetensors'}", files / "gan.safetensors"],
            "two completers are called gan",
        ),
        ([*given, "--completers", files / "large.safetensors"], "large makes images of 16 x 16 x 3, expected 8 x 8"),
        ([*given, "--completers", f"vae={files / 'vae.safetensors'}"], "is an unconditional VAE"),
        ([*given, "--sets", "upside"], "unknown set 'upside'"),
        ([*given, "--images", "1"], "number of images is 1"),
        ([*given, "--shard", "3/2"], "expected I/N"),
        ([*given, "--block", "0"], "number of images in a block is 0"),
        ([*given, "--device", "tpu"], "cannot be used"),
        (["--redraw", tmp_path / "no"], "holds no results.json"),
    ]
    for arguments, message in cases:
        printed = call("ood", "experiment", *arguments, expect=2)
        assert message in printed and len(printed.strip().splitlines()) == 1, printed
        assert not out.exists()
