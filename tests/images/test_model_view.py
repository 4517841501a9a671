"""The model sees only known colours, and pasting a completion into the picture changes only hidden pixels."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from helpers.models import small_conditional, small_vae
from helpers.pictures_to_complete import levels
from PIL import Image

from condvae.conditional import ConditionalVAE, PartialConfig
from condvae.images.holes import Hole
from condvae.images.model_view import ModelView, make_view
from condvae.images.reading import Picture, read_picture
from condvae.observe import Boxes, Edges, Grey, Label
from condvae.vdvae import preset

MODEL = small_conditional()
MODEL.process = Boxes()


def seen(
    array: np.ndarray, hole: Hole, *, model: ConditionalVAE = MODEL, seed: int = 0, keep_size: bool = True
) -> ModelView:
    return make_view(model, read_picture(array), hole, seed=seed, keep_size=keep_size)


def test_the_middle_square_is_resized() -> None:
    array = levels(20, 26)
    result = seen(array, Hole(half="top"))
    square = Image.fromarray(array[:, 3:23])
    smooth, mean = (np.asarray(square.resize((8, 8), way)) for way in (Image.Resampling.LANCZOS, Image.Resampling.BOX))
    # Lanczos reaches three pixels far: closer to hidden pixels, the mean of a pixel's own area is used.
    assert np.array_equal(result.levels[7:], smooth[7:]) and np.array_equal(result.levels[4:7], mean[4:7])
    assert result.notes == ("the image is 26 x 20: its middle 20 x 20 is resized to 8 x 8",)
    assert not result.known[:4].any() and result.known[4:].all()
    assert seen(levels(8, 8), Hole(half="top")).notes == ()
    assert seen(levels(9, 9), Hole(half="top")).notes == ("the image is 9 x 9: it is resized to 8 x 8",)
    assert seen(levels(8, 11), Hole(half="top")).notes == ("the image is 11 x 8: its middle 8 x 8 is used",)


@pytest.mark.parametrize("side", [5, 8, 13, 20, 64])
def test_a_pixel_is_known_only_if_all_of_its_area_is(side: int) -> None:
    rng = np.random.default_rng(side)
    for _ in range(20):
        hidden = np.zeros((side, side), dtype=bool)
        y, x = rng.integers(0, side, 2)
        hidden[y : y + rng.integers(1, 4), x : x + rng.integers(1, 4)] = True
        result = seen(levels(side, side), Hole(hole=hidden))
        # Pixel i covers [i * side / 8, (i + 1) * side / 8): scaled by 8 * side, all bounds are whole numbers.
        fine = hidden.repeat(8, axis=0).repeat(8, axis=1)
        areas = fine.reshape(8, side, 8, side).any(axis=(1, 3))
        assert np.array_equal(result.known, ~areas)


@pytest.mark.parametrize("side", [6, 8, 13, 30, 100])
@pytest.mark.parametrize("way", ["hole", "box", "half"])
def test_hidden_colours_do_not_reach_what_the_model_sees(way: str, side: int) -> None:
    third, half = side // 3, side // 2
    hidden = np.zeros((side, side), dtype=bool)
    if way == "half":
        hidden[:, half + side % 2 :] = True
    else:
        hidden[third : half + 1, third:] = True
    box = (third, third, side - third, half + 1 - third)
    hole = {"hole": Hole(hole=hidden), "box": Hole(box=box), "half": Hole(half="right")}[way]
    one, other = levels(side, side), levels(side, side)
    other[hidden] = 255 - other[hidden]
    first, second = seen(one, hole), seen(other, hole)
    assert 0 < first.known.sum() < 64
    assert torch.equal(first.observation.y, second.observation.y)
    assert np.array_equal(first.levels[first.known], second.levels[second.known])


def test_transparent_pixels_are_hidden_and_others_keep_their_colours() -> None:
    array = np.dstack([levels(8, 8), np.full((8, 8), 255, dtype=np.uint8)])
    array[:3, :, 3] = 127
    array[3:, :, 3] = 128
    result = seen(array, Hole())
    assert not result.known[:3].any() and result.known[3:].all()
    assert np.array_equal(result.levels[3:], array[3:, :, :3])
    # With another way of hiding, transparent pixels become white.
    result = seen(array, Hole(half="right"))
    assert result.notes == ("the image has transparent pixels: they are shown on white",)


def test_random_holes_depend_on_the_seed_and_the_picture() -> None:
    one = seen(levels(8, 8), Hole(random=True)).known
    assert np.array_equal(one, seen(levels(8, 8), Hole(random=True)).known)
    others = [seen(levels(8, 8), Hole(random=True), seed=i).known for i in range(1, 5)]
    others += [seen(levels(8, 8, seed=i), Hole(random=True)).known for i in range(1, 5)]
    assert sum(np.array_equal(one, other) for other in others) <= 1
    with pytest.raises(ValueError, match="does not record what it was trained to observe"):
        seen(levels(8, 8), Hole(random=True), model=small_conditional())


@pytest.mark.parametrize(("height", "width"), [(20, 26), (8, 8), (5, 3), (40, 33), (1, 7)])
@pytest.mark.parametrize("channels", [1, 3])
def test_pasting_changes_only_hidden_pixels(height: int, width: int, channels: int) -> None:
    array = levels(height, width, channels)
    hidden = np.random.default_rng(0).random((height, width)) < 0.3
    result = seen(array, Hole(hole=hidden))
    new = np.asarray(result.pasted(255 - result.levels))
    assert new.shape == (height, width, 3)
    side = min(height, width)
    top, left = (height - side) // 2, (width - side) // 2
    inside = np.zeros_like(hidden)
    inside[top : top + side, left : left + side] = True
    assert np.array_equal(new[~(hidden & inside)], np.broadcast_to(array, new.shape)[~(hidden & inside)])
    if (hidden & inside).sum() > 10:
        assert (new != array)[hidden & inside].any(axis=-1).mean() > 0.8
    outside = int((hidden & ~inside).sum())
    expected = f"outside its middle square stay as they are ({outside:,} in all)"
    assert any(expected in note for note in result.notes) == (outside > 0)


def test_the_completion_is_pasted() -> None:
    array = levels(32, 32)
    result = seen(array, Hole(half="left"))
    flat = np.full((8, 8, 3), 77, dtype=np.uint8)
    new = np.asarray(result.pasted(flat, blend=False))
    assert (new[:, :16] == 77).all() and np.array_equal(new[:, 16:], array[:, 16:])
    new = np.asarray(result.pasted(flat))
    assert (new[:, :4] == 77).all() and not (new[:, 12:16] == 77).all() and np.array_equal(new[:, 16:], array[:, 16:])


def test_a_grey_model_completes_a_colour_picture() -> None:
    model = small_conditional(preset("tiny", channels=1))
    result = seen(levels(16, 16), Hole(half="left"), model=model)
    assert result.levels.shape == (8, 8, 1)
    new = np.asarray(result.pasted(result.levels))
    assert new.shape == (16, 16, 3) and np.array_equal(new[:, 8:], levels(16, 16)[:, 8:])


def test_models_that_do_not_complete_holes_refuse_a_hole() -> None:
    edges = ConditionalVAE(small_vae(), PartialConfig(channels=3), process=Edges())
    result = seen(levels(8, 8), Hole(), model=edges)
    assert not result.known.any() and result.observation.y.shape == (1, 3, 8, 8)
    for hole in (Hole(half="left"), Hole(box=(0, 0, 2, 2)), Hole(random=True)):
        with pytest.raises(ValueError, match="observes edges and does not complete holes"):
            seen(levels(8, 8), hole, model=edges)
    grey = ConditionalVAE(small_vae(), PartialConfig(channels=1), process=Grey())
    clear = np.dstack([levels(8, 8), np.zeros((8, 8), dtype=np.uint8)])
    assert (seen(clear, Hole(), model=grey).levels == 255).all()
    labels = ConditionalVAE(small_vae(), PartialConfig(channels=10), process=Label())
    with pytest.raises(ValueError, match="needs a class label or findings, which cannot be read from a picture"):
        seen(levels(8, 8), Hole(), model=labels)
    with pytest.raises(ValueError, match="does not record what it observes"):
        seen(levels(8, 8), Hole(), model=ConditionalVAE(small_vae(), PartialConfig(channels=1)))


def test_a_hole_of_no_pixels_is_explained() -> None:
    start = "nothing is hidden in the image: "
    hidden, known = (f"the picture of the {what} pixels" for what in ("hidden", "known"))
    red, grey = np.zeros((8, 8, 3), dtype=np.uint8), np.full((8, 8), 200, dtype=np.uint8)
    red[2:5, 2:5, 0] = 255
    nothing = np.zeros((8, 8), dtype=bool)
    for hole, why in (
        (Hole(hole=nothing), f"{hidden} is False everywhere: set the hidden pixels to True"),
        (Hole(known=~nothing), f"{known} is True everywhere: set the hidden pixels to False"),
        (Hole(hole=0 * grey), f"{hidden} is black everywhere: paint the hidden pixels white"),
        (Hole(known=0 * grey + 255), f"{known} is white everywhere: paint the hidden pixels black"),
        (
            Hole(hole=red),
            f"the brightest pixel of {hidden} has level 76, and levels of 128 or more count as white: paint the hidden "
            "pixels white",
        ),
        (
            Hole(known=grey),
            f"the darkest pixel of {known} has level 200, and levels of 128 or more count as white: paint the hidden "
            "pixels black",
        ),
    ):
        assert seen(levels(8, 8), hole).nothing_hidden == start + why
    outside = (
        "all hidden pixels are outside its middle 8 x 8 square, which is all that the model sees: hide pixels inside"
    )
    for hole in (Hole(box=(0, 0, 3, 3)), Hole(hole=np.indices((8, 20))[1] == 19)):
        assert (seen(levels(8, 20), hole).nothing_hidden or "").startswith(start + outside)
    nothing[0, 0] = True
    for hole in (Hole(hole=nothing), Hole(half="left"), Hole(random=True), Hole(hole=np.ones((8, 8), dtype=bool))):
        assert seen(levels(8, 8), hole).nothing_hidden is None


def test_a_picture_of_known_pixels_that_is_nowhere_white_is_noted() -> None:
    red = np.zeros((8, 8, 3), dtype=np.uint8)
    red[2:5, 2:5, 0] = 255
    (note,) = seen(levels(8, 8), Hole(known=red)).notes
    assert note.startswith(
        "no pixel is known, because the brightest pixel of the picture of the known pixels has level 76"
    )
    assert seen(levels(8, 8), Hole(known=0 * red)).notes == ()


def test_masked_pixels_of_an_array_are_hidden() -> None:
    array = levels(20, 20)
    masked = np.zeros((20, 20), dtype=bool)
    masked[3:9, 5:15] = True
    expected = seen(array, Hole(hole=masked))
    three = np.dstack([masked] * 3)
    for mask in (three, three & [False, True, False]):  # one masked channel hides the pixel
        result = seen(np.ma.array(array, mask=mask), Hole())
        assert np.array_equal(result.known, expected.known) and np.array_equal(result.levels, expected.levels)
        assert result.hole.way == "hole"
    with pytest.raises(
        ValueError, match=r"in 2 ways, the mask of the array and half: give only one; numpy\.ma\.getdata"
    ):
        seen(np.ma.array(array, mask=three), Hole(half="left"))
    alpha = np.dstack([array, np.where(masked, 0, 255).astype(np.uint8)])
    with pytest.raises(ValueError, match="in 2 ways, the mask of the array and transparency"):
        seen(np.ma.array(alpha, mask=np.dstack([masked] * 4)), Hole())
    for nothing in (np.ma.nomask, np.zeros_like(array, dtype=bool)):
        plain = seen(np.ma.array(array, mask=nothing), Hole(hole=masked))
        assert np.array_equal(plain.known, expected.known)


PROFILE = bytes(16) + b"RGB " + bytes(16) + b"acsp" + bytes(88)


def with_profile(array: np.ndarray, space: bytes = b"RGB ") -> Picture:
    image = Image.fromarray(array)
    image.info["icc_profile"] = PROFILE.replace(b"RGB ", space)
    return read_picture(image)


def test_colour_profiles_are_kept_if_they_fit() -> None:
    rgb, grey = levels(20, 20), levels(20, 20, 1)[:, :, 0]
    grey_model = small_conditional(preset("tiny", channels=1))
    for model, picture, kept, note in (
        (MODEL, with_profile(rgb), True, ""),
        (MODEL, with_profile(grey), True, ""),  # it is written as RGB
        (grey_model, with_profile(grey, b"GRAY"), True, ""),
        (grey_model, with_profile(rgb), True, ""),
        (MODEL, with_profile(grey, b"GRAY"), False, "its colour profile is for GRAY pictures, so the RGB pictures are"),
        (grey_model, with_profile(grey), False, "its colour profile is for RGB pictures, so the grey pictures are"),
        (MODEL, with_profile(rgb, b"CMYK"), False, "its colour profile is for CMYK pictures"),
        (MODEL, replace(with_profile(rgb), icc_profile=b"nonsense"), False, "its colour profile is damaged"),
        (MODEL, read_picture(rgb), False, ""),
    ):
        result = make_view(model, picture, Hole(half="left"), seed=0, keep_size=True)
        pasted = result.pasted(result.levels)
        assert (pasted.info.get("icc_profile") == picture.icc_profile is not None) == kept
        assert ("icc_profile" in pasted.info) == kept
        assert (
            any(note in line for line in result.notes) if note else not any("profile" in line for line in result.notes)
        )
    assert make_view(MODEL, with_profile(rgb, b"CMYK"), Hole(half="left"), seed=0, keep_size=False).notes == (
        "the image is 20 x 20: it is resized to 8 x 8",
    )
