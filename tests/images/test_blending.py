"""Blending hides the edge of the hole. It changes only the hole, near its edge, and uses no hidden colours."""

import numpy as np
import numpy.typing as npt
import pytest
from PIL import Image
from PIL.Image import Resampling

from condvae.images.blending import blend_edges

Levels = npt.NDArray[np.uint8]
Flags = npt.NDArray[np.bool_]


def textured(height: int, width: int, seed: int = 0) -> Levels:
    """A picture with slow changes and with texture, [H, W, 3]."""
    rng = np.random.default_rng(seed)
    slow = Image.fromarray(rng.integers(60, 200, (5, 5, 3), dtype=np.uint8)).resize((width, height), Resampling.BICUBIC)
    return np.clip(np.asarray(slow) + rng.normal(0, 12, (height, width, 3)), 0, 255).astype(np.uint8)


def completion_of(page: Levels, hole: Flags, size: int, *, error: int = 0) -> Levels:
    """The middle square as a model would complete it: at a small size, with an error in the hole, enlarged again."""
    side = min(page.shape[:2])
    top, left = (page.shape[0] - side) // 2, (page.shape[1] - side) // 2
    square = page[top : top + side, left : left + side]
    small = np.asarray(Image.fromarray(square).resize((size, size), Resampling.BOX)).astype(int)
    flags = (
        Image.fromarray(hole[top : top + side, left : left + side]).convert("L").resize((size, size), Resampling.BOX)
    )
    small[np.asarray(flags) > 0] += error
    enlarged = Image.fromarray(np.clip(small, 0, 255).astype(np.uint8)).resize((side, side), Resampling.BICUBIC)
    return np.asarray(enlarged)


def blended(page: Levels, square: Levels, hidden: Flags, size: int = 16) -> Levels:
    side, (height, width) = len(square), hidden.shape
    top, left = (height - side) // 2, (width - side) // 2
    around = ((top, height - side - top), (left, width - side - left))
    completion = np.pad(square if square.ndim == 3 else square[:, :, None], (*around, (0, 0)), mode="edge")
    hole = np.zeros_like(hidden)
    hole[top : top + side, left : left + side] = hidden[top : top + side, left : left + side]
    new = page.copy()
    blend_edges(new, hole, hidden, lambda at: completion[at.top : at.bottom, at.left : at.right], scale=side / size)
    return new


def holes(height: int, width: int) -> dict[str, Flags]:
    found = {name: np.zeros((height, width), dtype=bool) for name in ("box", "border", "pixel", "corner", "nothing")}
    found["box"][height // 3 : height // 2 + 1, width // 3 : width // 2 + 1] = True
    found["border"][:, width // 2 :] = True
    found["pixel"][height // 2, width // 2] = True
    found["corner"][:2, :2] = True
    found["all"] = np.ones((height, width), dtype=bool)
    found["freeform"] = np.random.default_rng(1).random((height, width)) < 0.4
    found["all but one"] = found["all"] & ~found["pixel"]
    return found


@pytest.mark.parametrize(("height", "width"), [(1, 1), (1, 9), (7, 5), (16, 16), (40, 57), (130, 90)])
@pytest.mark.parametrize("grey", [False, True])
def test_only_the_hole_changes_and_hidden_colours_are_not_used(height: int, width: int, grey: bool) -> None:
    page, side = textured(height, width), min(height, width)
    for hole in holes(height, width).values():
        square = completion_of(page, hole, 16, error=30)
        inside = np.zeros_like(hole)
        top, left = (height - side) // 2, (width - side) // 2
        inside[top : top + side, left : left + side] = hole[top : top + side, left : left + side]
        one = page[:, :, 0] if grey else page
        same = square[:, :, 0] if grey else square
        other = one.copy()
        other[hole] = 255 - other[hole]
        first, second = blended(one, same, hole), blended(other, same, hole)
        assert np.array_equal(first[~inside], one[~inside]) and np.array_equal(second[~inside], other[~inside])
        assert np.array_equal(first[inside], second[inside])
        if hole.all():
            assert np.array_equal(first[inside], same[(inside[top : top + side, left : left + side])])


def step(image: Levels, hole: Flags) -> float:
    """The mean difference between the two pixels on both sides of the edge of the hole."""
    steps = [
        np.abs(np.diff(image.astype(int), axis=axis))[np.diff(hole.astype(int), axis=axis) != 0] for axis in (0, 1)
    ]
    return float(np.concatenate(steps).mean())


@pytest.mark.parametrize(("side", "hole"), [(96, "box"), (96, "border"), (96, "ellipse"), (1100, "ellipse")])
def test_the_edge_does_not_show_and_the_picture_is_not_worse(side: int, hole: str) -> None:
    page, hidden = textured(side, side), holes(side, side).get(hole)
    if hidden is None:
        y, x = np.mgrid[:side, :side] / side - 0.5
        hidden = x**2 + 2 * y**2 < 0.2
    square = completion_of(page, hidden, 16, error=40)
    hard = np.where(hidden[:, :, None], square, page)
    soft = blended(page, square, hidden)  # with cells of one pixel, or of several if the picture is large
    assert step(hard, hidden) > 1.3 * step(page, hidden)  # the edge shows
    assert step(soft, hidden) < 1.05 * step(page, hidden)
    off = [np.abs(image[hidden].astype(int) - page[hidden]).mean() for image in (hard, soft)]
    assert off[1] <= off[0]
    # Away from the edge, by three pixels of the model or more, nothing changes.
    far = np.asarray(Image.fromarray(~hidden).convert("L").resize((16, 16), Resampling.BOX)) == 0
    padded = np.pad(far, 3, mode="edge")
    far = np.all([padded[3 + i : 19 + i, 3 + j : 19 + j] for i in range(-3, 4) for j in range(-3, 4)], axis=0)
    far = np.asarray(Image.fromarray(far).resize((side, side), Resampling.NEAREST))
    assert np.array_equal(soft[far], square[far]) and far.any() == (hole != "box")


def test_texture_is_not_drawn_out_into_the_hole() -> None:
    page = np.full((128, 128, 3), 128, dtype=np.uint8)
    page[::2] = 168  # stripes across the edge, which the completion does not have
    square = np.full((128, 128, 3), 148, dtype=np.uint8)
    hidden = holes(128, 128)["border"]
    stripes = [np.ptp(blended(page, square, hidden)[8:-8, 64 + depth]) for depth in (0, 2, 4, 8)]
    assert stripes[0] <= 40 and stripes[1] <= 4 and stripes[2] <= 2 and stripes[3] <= 1


def test_levels_stay_valid() -> None:
    page, square = np.full((64, 64, 3), 255, dtype=np.uint8), np.zeros((64, 64, 3), dtype=np.uint8)
    square[:, 34:] = 200  # the difference of 255 at the edge is added to this
    hidden = holes(64, 64)["border"]
    new = blended(page, square, hidden)
    assert (new[:, 34:38] >= 200).all() and (new[:, 34] == 255).all()
    assert (blended(255 - page, 255 - square, hidden)[:, 34] == 0).all()


def test_the_border_of_the_middle_square_is_blended_too() -> None:
    page = np.full((64, 100, 3), 200, dtype=np.uint8)
    hidden = np.zeros((64, 100), dtype=bool)
    hidden[:, 18:82] = True  # all of the middle square
    new = blended(page, np.full((64, 64, 3), 100, dtype=np.uint8), hidden)
    assert (new[:, [18, 81]] > 180).all() and (new[:, 40:60] == 100).all()
    hidden[:] = True  # hidden pixels outside the square are not used
    assert (blended(page, np.full((64, 64, 3), 100, dtype=np.uint8), hidden)[:, 18:82] == 100).all()
