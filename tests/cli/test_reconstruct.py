import json
from pathlib import Path

import pytest
from helpers.commands import failure, names, photos
from PIL import Image

from condvae.cli import main
from condvae.runtime.fingerprints import file_sha256

pytestmark = pytest.mark.usefixtures("models")


def test_groups_and_down_to_take_only_coarse_latents_from_the_image() -> None:
    files = photos(3)
    for out, words in (
        ("all", []),
        ("four", ["--groups", "4"]),
        ("coarse", ["--down-to", "4"]),
        ("three", ["--groups", "3"]),
        ("none", ["--groups", "0"]),
    ):
        main(["reconstruct", *files, "-o", out, *words])
        assert names(out) == [f"00{i + 1}-photo {i}.png" for i in range(3)] + ["record.json", "sheet.png"]
    content = {out: Path(out, "001-photo 0.png").read_bytes() for out in ("all", "four", "coarse", "three", "none")}
    assert content["all"] == content["four"]
    assert content["coarse"] == content["three"]
    assert len(set(content.values())) == 3
    with Image.open("all/sheet.png") as sheet:
        assert sheet.size == (2 * 100 + 4, 3 * 100 + 4 + 18)


def test_a_folder_stands_for_its_images_and_bad_files_are_skipped(capsys: pytest.CaptureFixture[str]) -> None:
    files = photos(2)
    main(["reconstruct", *files, "-o", "one by one"])
    Path("photos").mkdir()
    for file in files:
        Path(file).rename(Path("photos", file))
    Path("photos", "text.png").write_text("no picture")
    main(["reconstruct", "photos", "-o", "folder"])
    assert "skipped 1 of 3 files: photos/text.png" in capsys.readouterr().out
    assert names("folder") == names("one by one")
    for name in set(names("folder")) - {"record.json"}:
        assert Path("folder", name).read_bytes() == Path("one by one", name).read_bytes()


def test_a_second_call_keeps_what_is_not_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    files = photos(2)
    Path("d").mkdir()
    Path("d", "002-photo 1.jpg").write_bytes(b"mine")
    words = ["reconstruct", *files, "--groups", "2", "--format", "jpg"]
    assert "002-photo 1.jpg already exists and is not from" in failure(capsys, *words, "-o", "d")
    assert names("d") == ["002-photo 1.jpg"]
    main(words)
    main(["reconstruct", files[1]])
    main(["reconstruct", files[1], "-o", "reconstructions"])
    assert names("reconstructions-2") == names("reconstructions") == ["001-photo 1.png", "record.json", "sheet.png"]
    assert "replaced the 4 files of an earlier call in reconstructions" in capsys.readouterr().out
    record = json.loads(Path("reconstructions", "record.json").read_text())
    assert (record["format"], record["groups"], record["seed"]) == ("condvae reconstructions", None, 0)
    image = {"path": "../photo 1.png", "sha256": file_sha256(Path(files[1]))}
    assert record["images"] == [{"image": image, "outputs": ["001-photo 1.png"]}]


def test_bad_input_is_one_sentence_and_leaves_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    (photo,) = photos(1)
    Path("text.png").write_text("no picture")
    before = names(".")
    for words, message in (
        ([], "no images were given"),
        ([photo, "--groups", "5"], "but this model has 4"),
        ([photo, "--groups", "-1"], "number of latent groups"),
        ([photo, "--down-to", "2"], "only at 1, 4, 8"),
        ([photo, "--groups", "1", "--down-to", "4"], "not both"),
        ([photo, "text.png"], "text.png"),
        ([photo, "none.png"], "none.png"),
        ([photo, "--seed", "-1"], "the seed is -1"),
        ([photo, "--out", "text.png/deep"], "cannot be written to"),
    ):
        assert message in failure(capsys, "reconstruct", *words)
        assert names(".") == before
