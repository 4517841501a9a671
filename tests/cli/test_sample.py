import json
import re
from pathlib import Path

import pytest
from helpers.commands import failure, names
from helpers.models import small_conditional
from PIL import Image

from condvae import weights
from condvae.cli import main
from condvae.runtime.fingerprints import file_sha256

pytestmark = pytest.mark.usefixtures("models")


def test_samples_are_the_same_however_many_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    main(["sample", "-n", "20", "--seed", "3", "--out", "many"])
    assert capsys.readouterr().out == "wrote 20 images and many/sheet.png\n"
    assert names("many") == [f"{k:04}.png" for k in range(1, 21)] + ["record.json", "sheet.png"]
    main(["sample", "-n", "2", "--seed", "3", "-o", "few", "--model", "faces64"])
    assert names("few") == ["0001.png", "0002.png", "record.json", "sheet.png"]
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


def test_a_second_call_keeps_what_is_not_its_own(models: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("d").mkdir()
    Path("d", "0001.png").write_bytes(b"holiday")
    drawn = "condvae.sampling.unconditional.draw_samples"
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(drawn, lambda *given, **named: pytest.fail("images were drawn before the names were checked"))
        assert "d/0001.png already exists and is not from" in failure(capsys, "sample", "-n", "2", "-o", "d")
    assert (names("d"), Path("d", "0001.png").read_bytes()) == (["0001.png"], b"holiday")
    for n in ("6", "2"):
        main(["sample", "-n", n, "-o", "e", "--seed", "3"])
        Path("e", "mine.png").write_bytes(b"mine")
    assert "replaced the 8 files of an earlier call in e\nwrote 2 images" in capsys.readouterr().out
    assert names("e") == ["0001.png", "0002.png", "mine.png", "record.json", "sheet.png"]
    record = json.loads(Path("e", "record.json").read_text())
    assert record["format"] == "condvae samples" and record["model"]["name"] == "faces64"
    assert record["model"]["sha256"] == file_sha256(models / "faces64.safetensors")
    assert (record["n"], record["seed"], record["temperature"], record["pixels"]) == (2, 3, "1", "mean")
    assert [entry["outputs"] for entry in record["images"]] == [["0001.png"], ["0002.png"]]
    assert record["sheets"] == ["sheet.png"] and "torch" in record["versions"]
    Path("e", "0001.png").write_bytes(b"holiday")  # the record lists this name, but no longer this file
    assert "e/0001.png already exists and is not from" in failure(capsys, "sample", "-n", "2", "-o", "e")
    assert Path("e", "0001.png").read_bytes() == b"holiday"


def test_without_out_every_call_writes_to_a_new_folder(capsys: pytest.CaptureFixture[str]) -> None:
    for seed in ("0", "1"):
        main(["sample", "-n", "1", "--seed", seed, "--format", "webp"])
    assert names(".") == ["samples", "samples-2"]
    assert capsys.readouterr().out.endswith("wrote 1 image and samples-2/sheet.png\n")
    assert names("samples") == names("samples-2") == ["0001.webp", "record.json", "sheet.png"]
    main(["sample", "-n", "1", "--out", "png"])
    with Image.open("samples/0001.webp") as webp, Image.open("png/0001.png") as png:
        assert webp.convert("RGB").tobytes() == png.tobytes()


def test_bad_input_is_one_sentence_and_leaves_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    Path("text.png").write_text("no picture")
    for words, message in (
        (["--model", "faces6"], "did you mean faces64?"),
        (["--model", "text.png"], "not a complete .safetensors file"),
        (["-n", "0"], "number of samples"),
        (["--seed", "-1"], "the seed is -1"),
        (["--seed", str(2**64)], "from 0 to 2**64 - 1"),
        (["--temperature", "hot"], "4 latent groups (1 at resolution 1, 2 at resolution 4, 1 at resolution 8)"),
        (["--temperature", "16:0.5"], "4 latent groups"),
        (["--temperature", "-1"], "expected a number >= 0"),
        (["--out", "text.png"], "text.png cannot be written to"),
        (["--device", "tpu"], "device 'tpu' cannot be used"),
    ):
        assert message in failure(capsys, "sample", *words)
        assert names(".") == ["text.png"]


def test_saturated_samples_are_a_warning_and_worse_ones_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    main(["sample", "-n", "8", "--temperature", "2", "-o", "some"])
    warning, wrote = capsys.readouterr().out.splitlines()
    assert re.match(r"warning: \d of 8 samples (is|are) saturated, .* lower the temperature, which is 2, ", warning)
    assert wrote.startswith("wrote 8 images")
    for temperature, what in (("100", "8 of 8 samples are saturated"), ("1e30", "are NaN or infinite")):
        error = failure(capsys, "sample", "-n", "8", "--temperature", temperature, "-o", "none")
        assert what in error and names(".") == ["some"]
