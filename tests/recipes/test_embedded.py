"""The recipes for embedded models, contact sheets and the demo run on a few real faces."""

from pathlib import Path

import pytest
from helpers.fixtures import FIXTURES, faces_pack
from helpers.recipe_calls import run
from PIL import Image
from safetensors.torch import load_file

from condvae import ConditionalVAE, load
from condvae.weights import describe


@pytest.mark.parametrize(("name", "bits", "largest"), [("faces64", 8, 14), ("cifar10", 16, 5), ("shoes64", 16, 6)])
def test_the_recipe_trains_both_stages_and_writes_a_packed_file_with_both_records(
    name: str, bits: int, largest: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Contact sheets would take as long as all the rest, and this test does not use them.
    monkeypatch.setattr("condvae.training.training_run._sheet", lambda *_: Image.new("RGB", (8, 8)))
    data = FIXTURES / "faces32.zip" if name == "cifar10" else faces_pack(tmp_path / "faces", test=2)
    words = ("--steps", "1", "--batch", "2", "--held-out", "2")
    done = run("embedded.py", name, "--data", data, "--out", tmp_path / "out", *words)
    assert done.returncode == 0, done.stderr
    file = tmp_path / "out" / f"{name}.safetensors"
    model, shipped = load(file), load(name)
    assert isinstance(model, ConditionalVAE) and isinstance(shipped, ConditionalVAE)
    assert file.stat().st_size <= largest * 2**20
    header = describe(file)
    assert header.bits == bits and all(tensor.startswith("packed.") for tensor in load_file(file))
    record = header.record
    assert (record["task"], record["artifact"]["task"]) == ("train", "pretrain")
    assert model.artifact.config.stages == shipped.artifact.config.stages
    assert model.artifact.config.likelihood == shipped.artifact.config.likelihood
    assert (model.partial_config, model.process) == (shipped.partial_config, shipped.process)
    settings = {"batch", "lr", "schedule", "final_lr", "beta2", "ema", "clip", "skip_above", "preset", "seed"}
    for made, ours in ((record, describe(name).record), (record["artifact"], describe(name).record["artifact"])):
        differing = {key for key in settings if made["options"].get(key) != ours["options"].get(key)}
        assert differing == {"batch"}


def test_the_sheets_are_drawn(tmp_path: Path) -> None:
    words = ("--images", "2", "--n", "2", "--out", tmp_path / "out")
    done = run("sheets.py", "--data", faces_pack(tmp_path / "faces", test=2), *words)
    assert done.returncode == 0, done.stderr
    for name in ("freeform", "boxes", "halves", "nothing"):
        with Image.open(tmp_path / "out" / f"{name}.png") as sheet:
            assert sheet.size == (6 * 132 + 4, 2 * 132 + 38)


def test_the_demo_completes_photos(tmp_path: Path) -> None:
    done = run("demo.py", "--out", tmp_path, "--n", "3")
    assert done.returncode == 0, done.stderr
    assert "10 pictures, 3 completions" in done.stdout
    with Image.open(tmp_path / "completions.png") as sheet:
        # Eight framed faces, and below them two whole photos with more pixels.
        assert sheet.width >= 7 * 132 + 4 and sheet.height > 8 * 132 + 38 + 2 * 132


def test_bad_input_gives_a_one_line_message(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    cases: list[tuple[str, list[str | Path], str]] = [
        ("embedded.py", ["cifar10", "--data", tmp_path / "none.zip", "--out", tmp_path / "out"], "does not exist"),
        ("sheets.py", ["--data", tmp_path / "none.zip", "--out", tmp_path / "out"], "does not exist"),
        ("demo.py", ["--faces", tmp_path / "empty", "--out", tmp_path / "out"], "contains no .jpg"),
        ("demo.py", ["--faces", tmp_path / "none", "--out", tmp_path / "out"], "none"),
        ("demo.py", ["--model", "faces46", "--out", tmp_path / "out"], "faces64"),
    ]
    for recipe, words, message in cases:
        done = run(recipe, *words)
        assert done.returncode == 2
        assert message in done.stderr
        assert len(done.stderr.strip().splitlines()) == 1
    assert not (tmp_path / "out").exists()
