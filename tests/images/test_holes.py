"""All ways to specify the hidden pixels give the same hole, and two ways at once are refused."""

from pathlib import Path

import numpy as np
import pytest
from helpers.pictures_to_complete import levels
from PIL import Image

from condvae.images.holes import Hole, known_half
from condvae.images.reading import read_picture

PICTURE = read_picture(levels(6, 9))
INSIDE = np.zeros((6, 9), dtype=bool)
INSIDE[1:4, 2:7] = True
WHITE = INSIDE.astype(np.uint8) * 255


def test_all_ways_give_the_same_hole(tmp_path: Path) -> None:
    Image.fromarray(WHITE).save(tmp_path / "white.png")
    Image.fromarray(255 - WHITE).convert("RGB").save(tmp_path / "black.png")
    for hole in (
        Hole(box=(2, 1, 5, 3)),
        Hole(box=np.array([2, 1, 5, 3])),  # type: ignore[arg-type]
        Hole(hole=tmp_path / "white.png"),
        Hole(hole=str(tmp_path / "white.png")),
        Hole(known=tmp_path / "black.png"),
        Hole(hole=Image.fromarray(WHITE)),
        Hole(hole=INSIDE),
        Hole(hole=INSIDE[:, :, None]),
        Hole(known=~INSIDE),
        Hole(known=(~INSIDE).astype(np.float64)),
        Hole(hole=Image.fromarray(WHITE).convert("1")),
        Hole(hole=WHITE.astype(np.float32) / 255),
    ):
        hidden = hole.hidden(PICTURE)
        assert hidden.pixels is not None and np.array_equal(hidden.pixels, INSIDE)
        assert hidden.notes == ()
    clear = read_picture(np.dstack([levels(6, 9), 255 - WHITE]))
    assert np.array_equal(Hole().hidden(clear).pixels, INSIDE)  # type: ignore[arg-type]


def test_the_files_of_pictures_are_remembered(tmp_path: Path) -> None:
    Image.fromarray(WHITE).save(tmp_path / "white.png")
    file = Hole(hole=tmp_path / "white.png").hidden(PICTURE).file
    assert file is not None and file.path == tmp_path / "white.png" and len(file.sha256) == 64
    assert Hole(hole=WHITE).hidden(PICTURE).file is None


def test_greys_are_split_at_128_with_a_note() -> None:
    grey = np.full((6, 9), 127, dtype=np.uint8)
    grey[INSIDE] = 128
    for hole, expected, word in ((Hole(hole=grey), INSIDE, "hidden"), (Hole(known=grey), ~INSIDE, "known")):
        hidden = hole.hidden(PICTURE)
        assert np.array_equal(hidden.pixels, expected)  # type: ignore[arg-type]
        (note,) = hidden.notes
        assert "levels of 128 or more count as white" in note and word in note


def test_a_hole_picture_is_turned_upright_too(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.fromarray(np.rot90(WHITE).copy()).save(tmp_path / "side.png", exif=exif)
    hidden = Hole(hole=tmp_path / "side.png").hidden(PICTURE).pixels
    assert np.array_equal(hidden, INSIDE)  # type: ignore[arg-type]


def test_halves() -> None:
    for half, there in (
        ("left", np.s_[:, :4]),
        ("right", np.s_[:, 4:]),
        ("top", np.s_[:4]),
        ("bottom", np.s_[4:]),
    ):
        known = known_half(half, 8)  # type: ignore[arg-type]
        assert not known[there].any() and known.sum() == 32
    assert Hole(half="left").hidden(PICTURE).pixels is None


def test_a_folder_of_pictures(tmp_path: Path) -> None:
    for name in ("a.png", "b.bmp", "c.png", "c.gif"):
        Image.fromarray(WHITE).save(tmp_path / name)
    hole = Hole(known=tmp_path)
    assert hole.for_file(Path("elsewhere/a.jpg")).known == tmp_path / "a.png"
    assert hole.for_file(Path("b.jpg")).known == tmp_path / "b.bmp"
    with pytest.raises(ValueError, match=r"contains no picture named d, expected one for d\.jpg"):
        hole.for_file(Path("d.jpg"))
    with pytest.raises(ValueError, match="contains 2 pictures named c"):
        hole.for_file(Path("c.jpg"))
    other = Hole(hole=tmp_path / "a.png")
    assert other.for_file(Path("d.jpg")) is other


def test_ways_that_are_not_given_do_not_count() -> None:
    for no in (False, 0, np.False_):
        assert Hole(half="left", random=no).ways == ["half"]  # type: ignore[arg-type]
    assert Hole(random=np.True_).ways == ["random"]  # type: ignore[arg-type]


def test_bad_holes_are_refused() -> None:
    for options, message in (
        ({"box": (1, 1, 2, 2), "half": "left"}, "specified in 2 ways, box and half: give only one"),
        ({"known": WHITE, "hole": WHITE, "random": True}, "3 ways, known, hole and random"),
        ({"half": "middle"}, "the half is 'middle', expected 'left' or"),
        ({"box": (1, 2, 3)}, "four whole numbers"),
        ({"box": (1, 2, 3, 4.0)}, "four whole numbers"),
        ({"box": 5}, "four whole numbers"),
        ({"random": "no"}, "random is 'no', expected True or False"),
    ):
        with pytest.raises(ValueError, match=message):
            Hole(**options)
    for hole, message in (
        (Hole(box=(5, 1, 5, 2)), "the box 5,1,5,2 does not lie inside the image, which is 9 x 6"),
        (Hole(box=(-1, 1, 5, 2)), "does not lie in"),
        (Hole(box=(1, 1, 0, 2)), "does not lie in"),
        (Hole(hole=WHITE.T.copy()), "is 6 x 9 but the image is 9 x 6: give a picture of the image's size"),
        (Hole(known=INSIDE.T), "is 6 x 9 but the image is 9 x 6"),
        (Hole(known=WHITE // 255), "only the grey levels 0 and 1, which both count as black: multiply it by 255"),
        (Hole(hole=Image.fromarray(WHITE // 255)), "only the grey levels 0 and 1"),
        (Hole(known=INSIDE[0]), r"has shape \(9,\), expected \[H, W\]"),
        (
            Hole(hole=np.dstack([levels(6, 9), 255 - WHITE])),
            "transparent pixels, but should mark hidden pixels in white",
        ),
        (Hole(), "has no transparent pixels, so specify which are hidden: .*--known.*--hole.*--box.*--half.*--random"),
    ):
        with pytest.raises(ValueError, match=message):
            hole.hidden(PICTURE)
