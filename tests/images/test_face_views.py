"""A model sees the squares around faces, and completions are put back there: only hidden pixels in a square change."""

import numpy as np
import pytest
import torch
from helpers.models import small_conditional
from helpers.pictures_to_complete import Levels, levels

from condvae.images.face_parts import FaceSquare, face_in
from condvae.images.holes import Flags, Hole
from condvae.images.model_view import ModelView, make_view, make_views, pasted
from condvae.images.placement import Placement
from condvae.images.reading import read_picture
from condvae.images.squares import in_picture, in_square, middle_square
from condvae.observe import Boxes
from condvae.vdvae import preset

MODEL = small_conditional()
MODEL.process = Boxes()
TURNED = [Placement(40.3, 31.7, 33, 20), Placement(33, 28, 17.5, -75), Placement(44, 37.5, 8, 3)]
OVER_THE_EDGE = [Placement(4, 50, 30, 12), Placement(70, 2, 25, 0), Placement(35, 30, 120, -8)]


def face(placement: Placement) -> FaceSquare:
    return face_in(placement, [(0.3, 0.3), (0.7, 0.3), (0.5, 0.54), (0.34, 0.74), (0.66, 0.74)])


def views(array: Levels, hole: Hole, *placements: Placement, seed: int = 0) -> list[ModelView]:
    faces = [face(placement) for placement in placements]
    return make_views(MODEL, read_picture(array), hole, faces, seed=seed, keep_size=True)


def inside(placement: Placement, height: int = 60, width: int = 75) -> Flags:
    y, x = np.mgrid[:height, :width] + 0.5
    places = in_square(np.dstack([x, y]), placement)
    return np.asarray(((places >= 0) & (places < 1)).all(axis=-1))


@pytest.mark.parametrize("hole", [Hole(half="top"), Hole(box=(20, 12, 9, 17)), Hole(random=True), Hole(part="eyes")])
def test_the_middle_square_is_a_special_case(hole: Hole) -> None:
    picture, usual = read_picture(levels(40, 57)), face(middle_square((57, 40)))
    (middle,) = make_views(MODEL, picture, hole, [None], seed=0, keep_size=True, usual=usual)
    (framed,) = make_views(MODEL, picture, hole, [usual], seed=0, keep_size=True)
    if hole.part is None:
        plain = make_view(MODEL, picture, hole, seed=0, keep_size=True)
        assert np.array_equal(plain.levels, middle.levels) and np.array_equal(plain.known, middle.known)
    assert np.array_equal(framed.levels, middle.levels) and np.array_equal(framed.known, middle.known)
    assert torch.equal(framed.observation.y, middle.observation.y)
    for blend in (True, False):
        made = [np.asarray(view.pasted(255 - view.levels, blend=blend)) for view in (framed, middle)]
        assert np.array_equal(made[0], made[1])


@pytest.mark.parametrize("at", TURNED + OVER_THE_EDGE)
@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("blend", [True, False])
def test_only_hidden_pixels_inside_the_square_change(at: Placement, channels: int, blend: bool) -> None:
    array = levels(60, 75, channels)
    hidden = np.random.default_rng(0).random((60, 75)) < 0.1
    for hole in (Hole(hole=hidden), Hole(half="left"), Hole(part="mouth"), Hole(random=True)):
        (view,) = views(array, hole, at)
        new = np.asarray(view.pasted(255 - view.levels, blend=blend))
        assert view.surroundings is not None
        change = view.surroundings.hidden & inside(at)
        assert np.array_equal(new[~change], np.broadcast_to(array, new.shape)[~change])
        if change.sum() > 10:
            assert (new != array)[change].any(axis=-1).mean() > 0.8


@pytest.mark.parametrize("at", TURNED + OVER_THE_EDGE)
def test_hidden_colours_reach_neither_the_model_nor_the_result(at: Placement) -> None:
    one = levels(60, 75)
    for seed in range(4):
        hidden = np.zeros((60, 75), dtype=bool)
        y, x = np.random.default_rng(seed).integers((5, 10), (45, 55))
        hidden[y : y + 9, x : x + 7] = True
        other = one.copy()
        other[hidden] = 255 - other[hidden]
        (first,), (second,) = (views(array, Hole(hole=hidden), at) for array in (one, other))
        assert torch.equal(first.observation.y, second.observation.y)
        assert np.array_equal(first.levels[first.known], second.levels[second.known])
        completion = levels(8, 8, seed=9)
        made = [np.asarray(view.pasted(completion)) for view in (first, second)]
        change = hidden & inside(at)
        assert np.array_equal(made[0][change], made[1][change])


@pytest.mark.parametrize("at", OVER_THE_EDGE)
def test_what_is_outside_the_picture_is_completed_but_not_pasted(at: Placement) -> None:
    (view,) = views(levels(60, 75), Hole(box=(30, 20, 4, 4) if at.side > 100 else (0, 0, 75, 60)), at)
    places = (np.arange(8) + 0.5) / 8
    x, y = np.moveaxis(in_picture(np.stack(np.meshgrid(places, places), axis=-1), at), -1, 0)
    outside = (x < 0) | (y < 0) | (x > 75) | (y > 60)
    assert outside.any() and not view.known[outside].any()
    assert view.pasted(view.levels).size == (75, 60)


@pytest.mark.parametrize("degrees", [0.0, 15, -40, 90, 170])
@pytest.mark.parametrize("side", [12, 30, 45.5])
def test_pasting_the_original_gives_the_picture(degrees: float, side: float) -> None:
    y, x = np.mgrid[:60, :75] + 0.5
    waves = [np.sin(x / 17 + y / 41 + 1), np.cos(y / 15 - x / 50), np.sin((x + 2 * y) / 29)]
    page = np.rint(128 + 90 * np.dstack(waves)).astype(np.uint8)
    model = small_conditional(preset("tiny"))
    at = Placement(37.2, 30.4, side, degrees)
    (view,) = make_views(model, read_picture(page), Hole(part="nose"), [face(at)], seed=0, keep_size=True)
    assert view.surroundings is not None
    hidden = view.surroundings.hidden
    for blend, mean in ((True, 1.0), (False, 1.5)):
        error = np.abs(np.asarray(view.pasted(view.levels, blend=blend)).astype(int) - page)[hidden]
        # A square that is turned the other way, or shifted by a pixel, has errors of several levels.
        assert error.mean() < mean, error.mean()


def test_pixels_hidden_in_one_face_are_hidden_in_all() -> None:
    one, other = Placement(30, 30, 24, 5), Placement(40, 33, 22, -5)
    array = levels(60, 75)
    first, second = views(array, Hole(part="right"), one, other)
    (alone,) = views(array, Hole(part="right"), one)
    assert first.surroundings is not None and second.surroundings is not None and alone.surroundings is not None
    assert np.array_equal(first.surroundings.hidden, second.surroundings.hidden)
    assert alone.surroundings.hidden.sum() < first.surroundings.hidden.sum() and alone.known.sum() > first.known.sum()
    # The first face counts where squares overlap, and all hidden pixels of both are filled.
    flat = [np.full((8, 8, 3), level, dtype=np.uint8) for level in (50, 200)]
    new = np.asarray(pasted([first, second], flat, blend=False))
    hidden = first.surroundings.hidden
    assert (new[hidden & inside(one)] == 50).all() and (new[hidden & inside(other) & ~inside(one)] == 200).all()
    assert np.array_equal(new[~hidden], array[~hidden]) and (hidden & inside(one) & inside(other)).any()


def test_a_hole_beside_the_face_says_where_the_face_is() -> None:
    (view,) = views(levels(60, 75), Hole(box=(60, 45, 10, 10)), Placement(30, 30, 20, 7))
    assert view.nothing_hidden == (
        "nothing is hidden in the image: all hidden pixels are outside the square around its face, which is at "
        "20,20,20,20 (x, y, width and height, turned clockwise by 7 degrees): hide pixels inside this square"
    )
    (view,) = views(levels(60, 75), Hole(box=(35, 25, 20, 10)), Placement(30, 30, 20))
    assert view.notes == (
        "the image: the square around its face, at 20,20,20,20 (x, y, width and height), is resized to 8 x 8",
        "the image: hidden pixels outside the square around its face stay as they are (150 in all)",
    )
