"""All ways to specify the hidden pixels give the same hole, and two ways at once are refused."""

import io
from pathlib import Path

import numpy as np
import pytest
import torch
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


def test_tensors_and_open_files_mark_pixels(tmp_path: Path) -> None:
    Image.fromarray(WHITE).save(tmp_path / "white.png")
    flags = torch.from_numpy(INSIDE)
    for hole in (
        Hole(hole=flags),
        Hole(hole=flags[None]),
        Hole(known=~flags[None, None]),
        Hole(hole=torch.from_numpy(WHITE)),
        Hole(known=1.0 - flags.float()[None]),
        Hole(hole=io.BytesIO((tmp_path / "white.png").read_bytes())),
    ):
        assert np.array_equal(hole.hidden(PICTURE).pixels, INSIDE)  # type: ignore[arg-type]


def test_a_mask_needs_its_meaning() -> None:
    for hole in (Hole(mask=WHITE, mask_is="hole"), Hole(mask=255 - WHITE, mask_is="known")):
        assert np.array_equal(hole.hidden(PICTURE).pixels, INSIDE)  # type: ignore[arg-type]
    assert Hole(mask=WHITE, mask_is="known").to_dict() == {"way": "known"}
    for options, message in (
        ({"mask": WHITE}, 'a mask can mean two things: .* add mask_is="hole"; .* add mask_is="known"'),
        ({"mask_is": "hole"}, "was given without a mask"),
        ({"mask_is": "known", "hole": WHITE}, "was given without a mask"),
        ({"mask": WHITE, "mask_is": "hole", "known": WHITE}, "2 ways, known and mask"),
        ({"mask": WHITE, "half": "left"}, "2 ways, half and mask"),
        ({"mask": WHITE, "mask_is": "hidden"}, "mask_is is 'hidden', expected 'hole' or 'known'"),
    ):
        with pytest.raises(ValueError, match=message):
            Hole(**options)


def test_masks_of_another_size_are_resized() -> None:
    double = INSIDE.repeat(2, axis=0).repeat(2, axis=1)
    note = "the picture of the hidden pixels is 18 x 12: it is resized to 9 x 6"
    for hole in (Hole(hole=double, fit_mask=True), Hole(mask=~double, mask_is="known", fit_mask=True)):
        hidden = hole.hidden(PICTURE)
        assert np.array_equal(hidden.pixels, INSIDE)  # type: ignore[arg-type]
        assert hidden.notes == (note.replace("hidden", "known" if hole.known is not None else "hidden"),)
    triple = read_picture(levels(18, 27))
    assert np.array_equal(Hole(hole=INSIDE, fit_mask=True).hidden(triple).pixels, INSIDE.repeat(3, 0).repeat(3, 1))  # type: ignore[arg-type]
    lines = np.zeros((600, 900), dtype=bool)
    lines[37], lines[:, 850] = True, True  # thinner than a pixel of the image
    rows = Hole(hole=lines, fit_mask=True).hidden(PICTURE).pixels
    assert rows is not None and rows[0].all() and rows[:, 8].all() and rows.sum() == 9 + 6 - 1
    (note,) = Hole(hole=np.ones((6, 6), dtype=bool), fit_mask=True).hidden(PICTURE).notes
    assert note.endswith("is 6 x 6: it is resized to 9 x 6, which changes its proportions")
    (note,) = Hole(hole=np.ones((601, 900), dtype=bool), fit_mask=True).hidden(PICTURE).notes
    assert note.endswith("is 900 x 601: it is resized to 9 x 6")
    assert Hole(hole=INSIDE, fit_mask=True).hidden(PICTURE).notes == ()
    assert Hole(hole=INSIDE, fit_mask=True).to_dict() == {"way": "hole", "fit_mask": True}


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
        ({"fit_mask": 2, "hole": WHITE}, "fit_mask is 2, expected True or False"),
        ({"fit_mask": True, "half": "left"}, "fit_mask in Python. was given without a picture of known or hidden"),
    ):
        with pytest.raises(ValueError, match=message):
            Hole(**options)
    for hole, message in (
        (Hole(box=(5, 1, 5, 2)), "the box 5,1,5,2 does not lie inside the image, which is 9 x 6"),
        (Hole(box=(-1, 1, 5, 2)), "does not lie in"),
        (Hole(box=(1, 1, 0, 2)), "does not lie in"),
        (Hole(hole=WHITE.T.copy()), "9 x 6: give a picture of the image's size, or let --fit-mask"),
        (Hole(known=INSIDE.T), "is 6 x 9 but the image is 9 x 6"),
        (Hole(known=WHITE // 255), "only the grey levels 0 and 1, which both count as black: multiply it by 255"),
        (Hole(hole=Image.fromarray(WHITE // 255)), "only the grey levels 0 and 1"),
        (Hole(hole=np.ma.array(WHITE)), "the picture of the hidden pixels is a masked array, expected a plain one"),
        (Hole(known=torch.from_numpy(levels(6, 9))), r"is a tensor of shape \(6, 9, 3\), expected \[C, H, W\]"),
        (Hole(known=INSIDE[0]), r"has shape \(9,\), expected \[H, W\]"),
        (
            Hole(hole=np.dstack([levels(6, 9), 255 - WHITE])),
            "transparent pixels, but should mark hidden pixels in white",
        ),
        (Hole(), "has no transparent pixels, so specify which are hidden: .*--known.*--hole.*--box.*--half.*--random"),
    ):
        with pytest.raises(ValueError, match=message):
            hole.hidden(PICTURE)
