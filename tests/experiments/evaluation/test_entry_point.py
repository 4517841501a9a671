"""`condvae.evaluate` joins several data sets, and names all of them in the report."""

import shutil
from pathlib import Path

import pytest
from helpers.training import FACES, call, few_faces

from condvae.experiments.evaluation.entry_point import evaluate
from condvae.runtime.json_reading import read_json_file
from condvae.runtime.messages import silent

MEASURED = {"baselines": ["mean"], "metrics": ("pixels",), "deep_images": 2, "n": 2, "device": "cpu", "say": silent}


def test_several_data_sets_are_joined(tmp_path: Path) -> None:
    other = shutil.copy(few_faces(), tmp_path / "few.zip")
    one = evaluate(None, FACES, out=tmp_path / "one", images=4, **MEASURED)  # type: ignore[arg-type]
    both = evaluate(None, [FACES, other], out=tmp_path / "both", images=4, **MEASURED)  # type: ignore[arg-type]
    assert one is not None and both is not None
    assert (one["data"], both["data"]) == ("faces32.zip", "faces32.zip, few.zip")
    means = [found["methods"]["training mean"]["metrics"]["psnr_of_mean"]["mixture"]["mean"] for found in (one, both)]
    assert means[0] != means[1]  # other training and test images
    words = ["--baselines", "mean", "--metrics", "pixels", "--images", "4", "--deep-images", "2", "-n", "2"]
    words += ["--device", "cpu", "--model", "none", "--out", str(tmp_path / "cli")]
    call("evaluate", "--data", str(FACES), str(other), *words)
    by_command = read_json_file(tmp_path / "cli" / "results.json")
    assert by_command["data"] == both["data"]
    for name, found in both["methods"].items():
        assert by_command["methods"][name]["metrics"] == found["metrics"]


def test_the_output_folder_must_be_outside_of_every_data_folder(tmp_path: Path) -> None:
    photos = tmp_path / "photos"
    photos.mkdir()
    with pytest.raises(ValueError, match=r"is inside .*photos"):
        evaluate(None, [FACES, photos], out=photos / "results", images=4, **MEASURED)  # type: ignore[arg-type]
