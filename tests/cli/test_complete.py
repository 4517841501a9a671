"""`condvae complete`: masks, colour profiles, and calls in which nothing is hidden."""

import json
from pathlib import Path

import numpy as np
import pytest
from helpers.commands import failure, names, photos
from helpers.pictures_to_complete import levels
from PIL import Image, ImageCms

from condvae.cli import main

SMALL = ("-n", "1", "--device", "cpu")


@pytest.fixture
def photo(models: Path) -> str:
    """A picture of 20 x 20 pixels in the current folder; red.png marks a part of it in red."""
    red = np.zeros((20, 20, 3), dtype=np.uint8)
    red[5:9, 5:9, 0] = 255
    Image.fromarray(red).save("red.png")
    Image.fromarray(red[:, :, 0]).save("white.png")
    Image.fromarray(np.zeros((20, 20), dtype=np.uint8)).save("black.png")
    return photos(1)[0]


def test_nothing_hidden_is_an_error(photo: str, capsys: pytest.CaptureFixture[str]) -> None:
    for given, message in (
        (
            ("--hole", "red.png"),
            "the brightest pixel of red.png has level 76, and levels of 128 or more count as white",
        ),
        (("--hole", "black.png"), "black.png is black everywhere: paint the hidden pixels white"),
    ):
        text = failure(capsys, "complete", photo, *given, *SMALL)
        assert f"nothing is hidden in {photo}: {message}" in text and not Path("completions").exists()


def test_files_of_a_folder_in_which_nothing_is_hidden_are_skipped(
    photo: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for folder in ("in", "holes"):
        Path(folder).mkdir()
    for name, hole in (("a", "red"), ("b", "white")):
        Path(f"in/{name}.png").write_bytes(Path(photo).read_bytes())
        Path(f"holes/{name}.png").write_bytes(Path(f"{hole}.png").read_bytes())
    main(["complete", "in", "--hole", "holes", *SMALL])
    assert names("completions") == ["001-b-1.png", "record.json", "sheet.png"]
    assert "skipped 1 of 2 files: nothing is hidden in in/a.png: the brightest" in capsys.readouterr().out


def test_a_mask_needs_its_meaning(photo: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = failure(capsys, "complete", photo, "--mask", "white.png", *SMALL)
    for advice in ("--hole white.png", "--known white.png", "--mask-is hole", "--mask-is known"):
        assert advice in text
    assert "--mask-is" in failure(capsys, "ood", "score", photo, "--mask", "white.png")
    assert "give --known PICTURE" in failure(capsys, "design", "scan", photo, "--mask", "white.png")
    assert "given without a mask" in failure(capsys, "complete", photo, "--mask-is", "hole", *SMALL)
    made = []
    for meaning in ("hole", "known"):
        for out, given in (
            ("mask", ("--mask", "white.png", "--mask-is", meaning)),
            ("same", (f"--{meaning}", "white.png")),
        ):
            main(["complete", photo, *given, *SMALL, "-o", out])
        pictures = [Path(f"{out}/001-photo 0-1.png").read_bytes() for out in ("mask", "same")]
        assert pictures[0] == pictures[1]
        assert Path("mask/record.json").read_bytes() == Path("same/record.json").read_bytes()
        made.append(pictures[0])
    assert made[0] != made[1]


def test_masks_are_resized_and_the_call_can_be_repeated(photo: str, capsys: pytest.CaptureFixture[str]) -> None:
    Image.open("white.png").resize((40, 40), Image.Resampling.NEAREST).save("large.png")
    assert "give a picture of the image's size, or let --fit-mask" in failure(
        capsys, "complete", photo, "--hole", "large.png", *SMALL
    )
    main(["complete", photo, "--hole", "white.png", *SMALL, "-o", "plain"])
    main(["complete", photo, "--hole", "large.png", "--fit-mask", *SMALL, "-o", "fitted"])
    assert "large.png is 40 x 40: it is resized to 20 x 20\n" in capsys.readouterr().out
    main(["complete", "--repeat", "fitted", "-o", "again"])
    files = [Path(f"{out}/001-photo 0-1.png").read_bytes() for out in ("plain", "fitted", "again")]
    assert files[0] == files[1] == files[2]
    assert Path("fitted/record.json").read_bytes() == Path("again/record.json").read_bytes()
    assert json.loads(Path("again/record.json").read_text())["hidden"] == {"way": "hole", "fit_mask": True}
    assert "--fit-mask was given with --repeat" in failure(capsys, "complete", "--repeat", "fitted", "--fit-mask")
    assert "without a picture of known" in failure(capsys, "complete", photo, "--half", "left", "--fit-mask", *SMALL)


@pytest.mark.usefixtures("models")
def test_pictures_at_their_own_size_keep_the_colour_profile_and_are_upright() -> None:
    profile, exif = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes(), Image.Exif()
    exif[0x0112] = 6
    Image.fromarray(levels(20, 26)).save("side.png", icc_profile=profile, exif=exif)
    for out, given in (("whole", ["--keep-size"]), ("small", [])):
        main(["complete", "side.png", "--half", "left", *SMALL, *given, "-o", out])
    with Image.open("whole/001-side-1.png") as image, Image.open("small/001-side-1.png") as small:
        assert image.info["icc_profile"] == profile and image.size == (20, 26)
        assert image.getexif().get(0x0112) is None
        assert "icc_profile" not in small.info  # the model's own pixels
