"""Thinning keeps how strokes are connected, and leaves lines one pixel wide."""

import numpy as np
import pytest

from condvae.images.holes import Flags
from condvae.images.thinning import any_in_squares, centre_lines, opened, thinned, without_specks


def parts(flags: Flags, *, diagonal: bool) -> int:
    """The number of connected parts, found by painting one after the other."""
    left, count = {tuple(at) for at in np.argwhere(flags).tolist()}, 0
    steps = [(y, x) for y in (-1, 0, 1) for x in (-1, 0, 1) if (y or x) and (diagonal or 0 in (y, x))]
    while left:
        count, ends = count + 1, [left.pop()]
        while ends:
            y, x = ends.pop()
            near = {(y + dy, x + dx) for dy, dx in steps} & left
            left -= near
            ends += near
    return count


def blots(seed: int) -> Flags:
    """Random thick strokes, with holes and ends."""
    rng, flags = np.random.default_rng(seed), np.zeros((40, 50), dtype=bool)
    for _ in range(12):
        y, x, height, width = (*rng.integers(0, 34, 2), *rng.integers(2, 16, 2))
        flags[y : y + height, x : x + width] ^= True
    return flags


@pytest.mark.parametrize("seed", range(20))
def test_thinning_keeps_the_parts_and_the_holes(seed: int) -> None:
    strokes = blots(seed)
    lines = thinned(strokes)
    assert not (lines & ~strokes).any() and not opened(lines, 3).any()
    assert parts(lines, diagonal=True) == parts(strokes, diagonal=True)
    framed = [np.pad(~flags, 1, constant_values=True) for flags in (lines, strokes)]
    assert parts(framed[0], diagonal=False) == parts(framed[1], diagonal=False)
    assert np.array_equal(thinned(lines), lines)


def test_a_bar_becomes_its_middle_line_and_a_wide_area_its_outline() -> None:
    bar = np.zeros((30, 60), dtype=bool)
    bar[10:15, 10:50] = True
    line = centre_lines(bar, widest=8)
    assert set(np.flatnonzero(line.any(axis=1))) == {12} and 35 <= line.sum() <= 40
    bar[5:25, 10:50] = True
    outline = centre_lines(bar, widest=8)
    assert outline[6:24, 15].sum() == 0 and outline[5, 20] and outline[24, 20] and outline[12, 10] and outline[12, 49]
    assert parts(~np.pad(outline, 1), diagonal=False) == 2


def test_opening_keeps_what_a_square_fits_into() -> None:
    for seed in range(5):
        strokes = blots(seed)
        for side in (2, 3, 5):
            expected = np.zeros_like(strokes)
            for y in range(40 - side + 1):
                for x in range(50 - side + 1):
                    if strokes[y : y + side, x : x + side].all():
                        expected[y : y + side, x : x + side] = True
            assert np.array_equal(opened(strokes, side), expected)
    assert not opened(np.ones((4, 9), dtype=bool), 5).any()


def test_specks_are_removed_and_long_strokes_stay_whole() -> None:
    strokes = np.zeros((64, 64), dtype=bool)
    strokes[20, 3:60] = strokes[20:50, 30] = True
    diagonal = np.arange(12)
    strokes[40 + diagonal, 45 + diagonal] = True
    dirt = np.zeros_like(strokes)
    dirt[5:8, 5:8] = dirt[60, 10:14] = True
    for least in (6, 8, 10):
        assert np.array_equal(without_specks(strokes | dirt, least), strokes)
    assert np.array_equal(without_specks(strokes | dirt, 2), strokes | dirt)


@pytest.mark.parametrize(("shape", "side"), [((6, 9), 1), ((6, 9), 3), ((7, 7), 7), ((40, 30), 5)])
def test_squares_with_a_flag_are_found(shape: tuple[int, int], side: int) -> None:
    flags = np.random.default_rng(side).random(shape) < 0.05
    windows = np.lib.stride_tricks.sliding_window_view(flags, (side, side))
    assert flags.any() and np.array_equal(any_in_squares(flags, side), windows.any(axis=(2, 3)))
