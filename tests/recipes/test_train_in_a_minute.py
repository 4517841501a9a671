import runpy
import zipfile
from pathlib import Path

from helpers.recipe_calls import RECIPES, run
from PIL import Image

from condvae import ConditionalVAE, load

RECIPE = "train_in_a_minute.py"


def test_it_writes_a_model_and_a_sheet(tmp_path: Path) -> None:
    default = runpy.run_path(str(RECIPES / RECIPE))["Options"]().images
    with zipfile.ZipFile(default) as faces, zipfile.ZipFile(tmp_path / "few.zip", "w") as few:
        for split in ("train/", "test/"):
            for name in [name for name in faces.namelist() if name.startswith(split) and name.endswith(".jpg")][:12]:
                few.writestr(name, faces.read(name))
    words = ("--vae-steps", "2", "--partial-steps", "2", "--batch", "4", "--images", tmp_path / "few.zip")
    done = run(RECIPE, "--out", tmp_path, *words)
    assert done.returncode == 0, done.stderr
    assert isinstance(load(tmp_path / "partial" / "model.safetensors"), ConditionalVAE)
    with Image.open(tmp_path / "completions.png") as sheet:
        assert sheet.width > 800
        assert len(sheet.convert("RGB").getcolors(maxcolors=1_000_000) or []) > 1000


def test_bad_images_give_a_one_line_message_and_exit_code_2(tmp_path: Path) -> None:
    (tmp_path / "text.zip").write_text("no zip")
    with zipfile.ZipFile(tmp_path / "empty.zip", "w") as pack:
        pack.writestr("readme", "nothing here")
    with zipfile.ZipFile(tmp_path / "words.zip", "w") as pack:
        pack.writestr("train/a.png", "not a picture")
    for name, message in (
        ("none.zip", "does not exist"),
        ("text.zip", "text.zip"),
        ("empty.zip", "empty.zip"),
        ("words.zip", "words.zip"),
    ):
        done = run(RECIPE, "--images", tmp_path / name, "--out", tmp_path / "out")
        assert done.returncode == 2
        assert message in done.stderr
        assert len(done.stderr.strip().splitlines()) == 1
    done = run(RECIPE, "--batch", "0", "--out", tmp_path / "out")
    assert done.returncode == 2 and "--batch is 0" in done.stderr
    assert not (tmp_path / "out").exists()
