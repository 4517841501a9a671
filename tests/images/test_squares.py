"""Squares of any place, size and angle are cut out without aliasing and hidden colours, and put back in place."""

import math

import numpy as np
import numpy.typing as npt
import pytest
from helpers.pictures_to_complete import levels
from PIL import Image

from condvae.images.decode import fit
from condvae.images.placement import Placement
from condvae.images.squares import (
    Region,
    box_around,
    completed_region,
    cut_out,
    described,
    in_picture,
    in_square,
    middle_square,
    on_picture,
    whole_box,
)

SIZE = 16
TURNED = [
    Placement(100.3, 81.8, 90, 0),
    Placement(100, 80, 110, 17),
    Placement(92.5, 84.25, 70.7, -38),
    Placement(97.1, 77.7, 20, 90),  # enlarged at most a little
    Placement(101, 79, 9.3, 12),  # enlarged
    Placement(99, 80, 105, 180),
]


def smooth(height: int = 160, width: int = 200) -> npt.NDArray[np.uint8]:
    """A picture that changes slowly, differently in both directions and in the three channels."""
    y, x = np.mgrid[:height, :width] + 0.5
    waves = [np.sin(x / 31 + y / 77 + 1), np.cos(y / 29 - x / 91), np.sin((x + 2 * y) / 53)]
    return np.asarray(np.rint(128 + 100 * np.dstack(waves)), dtype=np.uint8)


def at_model_size(page: npt.NDArray[np.uint8], placement: Placement, size: int = SIZE) -> npt.NDArray[np.uint8]:
    return fit(cut_out(Image.fromarray(page), placement, size)[0], channels=3, size=size)


def test_the_middle_square_is_a_box_of_whole_pixels() -> None:
    for size in ((20, 26), (26, 20), (21, 8), (7, 7), (1, 4)):
        box = whole_box(middle_square(size), size)
        assert box is not None and box.right - box.left == box.bottom - box.top == min(size)
        assert (box.left, box.top) == tuple((length - min(size)) // 2 for length in size)
    for other in ((10, 10, 8, 1), (10.2, 10, 8, 0), (10, 10, 7, 0), (3, 10, 8, 0), (17, 10, 8, 0), (10, 17, 8, 0)):
        assert whole_box(Placement(*other), (20, 20)) is None
    assert whole_box(Placement(9.5, 10.5, 7), (20, 20)) == (6, 7, 13, 14)
    assert box_around(Placement(10, 20, 10, 45)) == (2, 12, 18, 28)


def test_a_square_is_turned_clockwise() -> None:
    # At 90 degrees clockwise, the upper edge of the square is on the right, and its left edge on the top.
    at = Placement(50, 60, 20, 90)
    assert np.allclose(in_picture([(0, 0), (1, 0), (0, 1)], at), [(60, 50), (60, 70), (40, 50)])
    at = Placement(50, 60, 20, 33)
    points = np.random.default_rng(0).random((5, 2))
    assert np.allclose(in_square(in_picture(points, at), at), points)
    right = in_picture((1, 0.5), at) - in_picture((0, 0.5), at)
    assert math.degrees(math.atan2(right[1], right[0])) == pytest.approx(33)  # y points down
    assert described(at) == "at 40,50,20,20 (x, y, width and height, turned clockwise by 33 degrees)"
    assert described(Placement(50, 60, 20)) == "at 40,50,20,20 (x, y, width and height)"


@pytest.mark.parametrize("side", [16, 48, 50, 100, 150])
def test_a_square_on_whole_pixels_is_cropped_and_one_beside_it_is_nearly_the_same(side: int) -> None:
    page = smooth()
    middle = Placement(90 + side % 2 / 2, 80 + side % 2 / 2, side)
    left, top = int(middle.x - side / 2), int(middle.y - side / 2)
    square, hidden = cut_out(Image.fromarray(page), middle, SIZE)
    assert np.array_equal(np.asarray(square), page[top : top + side, left : left + side]) and not hidden.any()
    expected = at_model_size(page, middle).astype(int)
    tiny = 1e-7
    for near in (
        middle._replace(degrees=tiny),
        middle._replace(x=middle.x + tiny),
        middle._replace(y=middle.y - tiny),
        middle._replace(side=side - tiny),
    ):
        assert np.abs(at_model_size(page, near) - expected)[1:-1, 1:-1].max() <= 2


@pytest.mark.parametrize("at", TURNED)
def test_the_square_shows_what_is_there(at: Placement) -> None:
    y, x = np.mgrid[:160, :200] + 0.5
    page = np.rint(np.dstack([x, y, (x + y) / 2])).astype(np.uint8)  # the colours are the place
    middles = (np.arange(SIZE) + 0.5) / SIZE
    places = in_picture(np.stack(np.meshgrid(middles, middles), axis=-1), at)
    found = at_model_size(page, at)[2:-2, 2:-2, :2]
    assert np.abs(found - places[2:-2, 2:-2]).max() < 1


@pytest.mark.parametrize("side", [33.3, 64.0, 127.7, 150.0, 511.9])
def test_details_do_not_alias(side: int) -> None:
    page = np.indices((700, 700)).sum(axis=0) % 2 * np.uint8(255)  # a chequerboard of single pixels
    page = np.dstack([page.astype(np.uint8)] * 3)
    for degrees in (0, 20, 45):
        seen = at_model_size(page, Placement(350.3, 349.9, side, degrees))
        assert np.abs(seen[2:-2, 2:-2].astype(int) - 127.5).max() < 26


@pytest.mark.parametrize("at", TURNED)
@pytest.mark.parametrize("seed", range(3))
def test_known_pixels_have_no_hidden_colours(at: Placement, seed: int) -> None:
    rng = np.random.default_rng(seed)
    one = levels(160, 200, seed=seed)
    hidden = np.zeros((160, 200), dtype=bool)
    for _ in range(4):
        x, y = in_picture(rng.random(2), at).astype(int)
        hidden[y : y + rng.integers(1, 9), x : x + rng.integers(1, 9)] = True
    other = one.copy()
    other[hidden] = 255 - other[hidden]
    (first, covered), (second, same) = (cut_out(Image.fromarray(page), at, SIZE, hidden) for page in (one, other))
    assert np.array_equal(covered, same) and 0 < covered.sum() < covered.size
    assert np.array_equal(np.asarray(first)[~covered], np.asarray(second)[~covered])
    # A pixel that covers a hidden pixel is hidden, and hidden pixels are near hidden pixels of the picture.
    count = len(covered)
    fine = (np.arange(4 * count) + 0.5) / (4 * count)
    places = in_picture(np.stack(np.meshgrid(fine, fine), axis=-1), at).astype(int)
    below = hidden[places[..., 1], places[..., 0]].reshape(count, 4, count, 4)
    assert covered[below.any(axis=(1, 3))].all()
    away = hidden.copy()
    for axis in (0, 1):
        away |= np.roll(away, 1, axis) | np.roll(away, -1, axis) | np.roll(away, 2, axis) | np.roll(away, -2, axis)
    near = away[places[..., 1], places[..., 0]].reshape(count, 4, count, 4).any(axis=(1, 3))
    assert near[covered].all()


def test_what_is_outside_the_picture_is_hidden() -> None:
    page = smooth()
    for at in (Placement(0, 0, 80, 10), Placement(200.5, 80, 90, 0), Placement(100.5, 150, 60, -30)):
        square, covered = cut_out(Image.fromarray(page), at, SIZE)
        middles = (np.arange(len(covered)) + 0.5) / len(covered)
        x, y = np.moveaxis(in_picture(np.stack(np.meshgrid(middles, middles), axis=-1), at), -1, 0)
        beyond = np.minimum(np.minimum(x, 200 - x), np.minimum(y, 160 - y))  # distance to the edge, from inside
        assert covered[beyond < 0].all() and not covered[beyond > 1.5].any() and (beyond < 0).any()
        # Their colours are not used, either: the same picture on a larger page gives the same known pixels.
        larger = np.pad(page, ((50, 50), (60, 60), (0, 0)), constant_values=200)
        hidden = np.pad(np.zeros((160, 200), dtype=bool), ((50, 50), (60, 60)), constant_values=True)
        moved = at._replace(x=at.x + 60, y=at.y + 50)
        again, same = cut_out(Image.fromarray(larger), moved, SIZE, hidden)
        assert np.array_equal(covered, same)
        assert np.array_equal(np.asarray(square)[~covered], np.asarray(again)[~covered])


@pytest.mark.parametrize("at", TURNED)
@pytest.mark.parametrize("size", [16, 64])
def test_putting_the_square_back_gives_the_picture(at: Placement, size: int) -> None:
    page = smooth()
    region = Region(*box_around(at))
    back = completed_region(at_model_size(page, at, size), at, (200, 160), region)
    part = (slice(region.top, region.bottom), slice(region.left, region.right))
    flags = np.zeros((size, size), dtype=bool)
    flags[1:-1, 1:-1] = True  # the outermost pixels are repeated beyond their centres
    error = np.abs(back.astype(int) - page[part])[on_picture(flags, at, (200, 160))[part]]
    assert error.max() <= 4 and error.mean() < 0.5


def test_flags_are_spread_over_the_picture() -> None:
    flags = np.zeros((8, 8), dtype=bool)
    flags[:, 4:] = True
    for at in (Placement(40, 30, 20, 0), Placement(40.4, 30, 20.3, 25), Placement(2, 3, 20, 100)):
        found = on_picture(flags, at, (70, 50))
        y, x = np.mgrid[:50, :70] + 0.5
        u, v = np.moveaxis(in_square(np.dstack([x, y]), at), -1, 0)
        assert np.array_equal(found, (u >= 0.5) & (u < 1) & (v >= 0) & (v < 1))


def test_a_square_in_a_huge_picture_needs_no_larger_one() -> None:
    # Pillow refuses crops of more than 179 million pixels, and warns above 89 million.
    page = Image.new("L", (9000, 9000), 77)
    square, hidden = cut_out(page, Placement(4500, 4500, 9000, 30), 8)
    assert (np.asarray(square) == 77)[~hidden].all() and hidden.any() and not hidden[len(hidden) // 2].all()
