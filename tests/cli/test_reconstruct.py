from pathlib import Path

import pytest
from helpers.commands import failure, names, photos
from PIL import Image

from condvae.cli import main

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
        assert names(out) == [f"00{i + 1}-photo {i}.png" for i in range(3)] + ["sheet.png"]
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
    for name in names("folder"):
        assert Path("folder", name).read_bytes() == Path("one by one", name).read_bytes()


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
