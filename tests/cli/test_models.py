"""The verbs that take a model by name: info, export, sample, reconstruct."""

import json
from pathlib import Path

import pytest
import torch
from helpers.models import images, small_conditional, small_vae
from PIL import Image
from safetensors.torch import load_file

from condvae import weights
from condvae.cli import main
from condvae.images.contact_sheet import to_pil
from condvae.observe import Boxes
from condvae.runtime.pixels import to_uint8
from condvae.weights import embedded


@pytest.fixture(autouse=True)
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small faces64 in the package, and an empty folder to work in."""
    folder = tmp_path / "package"
    model = small_conditional()
    model.process = Boxes()
    weights.save(model, folder / "faces64.safetensors", record={"steps": 7, "artifact": {"steps": 9}})
    monkeypatch.setattr(embedded, "MODELS", folder)
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return folder


def failure(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    capsys.readouterr()
    with pytest.raises(SystemExit) as stopped:
        main(list(words))
    assert stopped.value.code == 2
    captured = capsys.readouterr()
    assert len(captured.err.strip().splitlines()) == 1
    assert captured.out == ""
    return captured.err


def photos(n: int) -> list[str]:
    for i, image in enumerate(images(n, size=20)):
        to_pil(to_uint8(image)).save(f"photo {i}.png")
    return [f"photo {i}.png" for i in range(n)]


def names(folder: str) -> list[str]:
    return sorted(path.name for path in Path(folder).iterdir())


def test_info_describes_the_default_model_names_files_and_folders(
    models: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    weights.save(small_vae(), "shared/model.safetensors", record={"steps": 3})
    for words, start in (
        ([], "faces64: conditional VAE"),
        (["faces64"], "faces64: conditional VAE"),
        ([str(models / "faces64.safetensors")], f"{models / 'faces64.safetensors'}: conditional VAE"),
        (["shared"], "shared: unconditional VAE"),
        (["shared/model.safetensors"], "shared/model.safetensors: unconditional VAE"),
    ):
        main(["info", *words])
        assert capsys.readouterr().out.startswith(start)
    main(["info", "--json"])
    assert json.loads(capsys.readouterr().out)["record"] == {"steps": 7, "artifact": {"steps": 9}}
    main(["info"])
    assert "artifact      steps 9" in capsys.readouterr().out


def test_info_lists_embedded_models(models: Path, capsys: pytest.CaptureFixture[str]) -> None:
    weights.save(small_vae(), models / "digits.safetensors")
    main(["info", "--list"])
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith("digits ") and "unconditional, 8 x 8 pixels" in first
    assert second.startswith("faces64 ") and second.endswith(" MiB, conditional, 8 x 8 pixels, the default")
    main(["info", "--list", "--json"])
    sizes = {name: {"bytes": (models / f"{name}.safetensors").stat().st_size} for name in ("digits", "faces64")}
    assert json.loads(capsys.readouterr().out) == sizes


def test_export_keeps_all_but_the_precision(models: Path) -> None:
    main(["export", "faces64", "half.safetensors", "--half"])
    main(["export", "half.safetensors", "full.safetensors"])
    before, half = (load_file(path) for path in (models / "faces64.safetensors", "half.safetensors"))
    assert {tensor.dtype for tensor in half.values()} == {torch.float16}
    assert all(torch.equal(before[name].half(), tensor) for name, tensor in half.items())
    assert {tensor.dtype for tensor in load_file("full.safetensors").values()} == {torch.float32}
    told = [weights.describe(name) for name in ("faces64", "half.safetensors", "full.safetensors")]
    assert told[0] == told[1] == told[2]
    assert told[0].process == Boxes()


def test_samples_are_the_same_however_many_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    main(["sample", "-n", "20", "--seed", "3", "--out", "many"])
    assert capsys.readouterr().out == "wrote 20 images and many/sheet.png\n"
    assert names("many") == [f"{k:04}.png" for k in range(1, 21)] + ["sheet.png"]
    main(["sample", "-n", "2", "--seed", "3", "-o", "few", "--model", "faces64"])
    assert names("few") == ["0001.png", "0002.png", "sheet.png"]
    for name in ("0001.png", "0002.png"):
        assert Path("few", name).read_bytes() == Path("many", name).read_bytes()
    with Image.open("few/0001.png") as image, Image.open("many/sheet.png") as sheet:
        assert image.size == (8, 8)
        assert sheet.size == (8 * 100 + 4, 3 * 100 + 4 + 18)


def test_samples_of_a_plain_vae_and_at_temperatures(models: Path) -> None:
    weights.save(small_conditional().artifact, models / "plain.safetensors")
    for out, words in (
        ("conditional", []),
        ("plain", ["--model", "plain"]),
        ("calm", ["--temperature", "0.5"]),
        ("detail", ["--temperature", "8:0.5"]),
        ("drawn", ["--pixels", "sample"]),
    ):
        main(["sample", "-n", "1", "--out", out, *words])
    content = {out: Path(out, "0001.png").read_bytes() for out in ("conditional", "plain", "calm", "detail", "drawn")}
    assert content.pop("plain") == content["conditional"]
    assert len(set(content.values())) == 4


def test_reconstructions_show_what_the_levels_hold() -> None:
    files = photos(3)
    for out, words in (
        ("all", []),
        ("four", ["--groups", "4"]),
        ("coarse", ["--down-to", "4"]),
        ("three", ["--groups", "3"]),
        ("none", ["--groups", "0"]),
    ):
        main(["reconstruct", *files, "-o", out, *words])
        assert names(out) == [f"00{i + 1}-photo {i}.png" for i in range(3)] + ["sheet.png"]
    content = {out: Path(out, "001-photo 0.png").read_bytes() for out in ("all", "four", "coarse", "three", "none")}
    assert content["all"] == content["four"]
    assert content["coarse"] == content["three"]
    assert len(set(content.values())) == 3
    with Image.open("all/sheet.png") as sheet:
        assert sheet.size == (2 * 100 + 4, 3 * 100 + 4 + 18)


def test_bad_input_is_one_sentence_and_leaves_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    (photo,) = photos(1)
    Path("text.png").write_text("no picture")
    Path("folder.safetensors").mkdir()
    before = names(".")
    for words, message in (
        (["info", "FACES64"], "unknown model 'FACES64': did you mean faces64?"),
        (["info", "models/two\nlines"], "models/two lines does not exist"),
        (["export", "faces64", "folder.safetensors"], "folder.safetensors is a folder"),
        (["fetch", "lpips", "--from", "folder.safetensors"], "folder.safetensors lacks lpips_alex.safetensors"),
        (["info", "faces46"], "unknown model 'faces46': did you mean faces64?"),
        (["export", "faces64", "out.th"], "out.th should end in .safetensors"),
        (["export", "face", "out.safetensors"], "unknown model 'face'"),
        (["sample", "--model", "faces6"], "did you mean faces64?"),
        (["sample", "--model", "text.png"], "not a whole .safetensors file"),
        (["sample", "-n", "0"], "number of samples"),
        (["sample", "--seed", "-1"], "the seed is -1"),
        (["sample", "--temperature", "hot"], "4 groups of latents, 1 at 1, 2 at 4, 1 at 8"),
        (["sample", "--temperature", "16:0.5"], "4 groups of latents"),
        (["sample", "--temperature", "-1"], "expected a number from 0"),
        (["sample", "--out", "text.png"], "text.png cannot be written to"),
        (["reconstruct", photo, "--groups", "5"], "but this model has 4"),
        (["reconstruct", photo, "--groups", "-1"], "number of groups"),
        (["reconstruct", photo, "--down-to", "2"], "only at 1, 4, 8"),
        (["reconstruct", photo, "--groups", "1", "--down-to", "4"], "not both"),
        (["reconstruct", photo, "text.png"], "text.png"),
        (["reconstruct", photo, "none.png"], "none.png"),
        (["reconstruct", photo, "--seed", "-1"], "the seed is -1"),
        (["reconstruct", photo, "--out", "text.png/deep"], "cannot be written to"),
    ):
        assert message in failure(capsys, *words)
        assert names(".") == before
