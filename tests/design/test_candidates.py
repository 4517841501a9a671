import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from condvae.design import Candidates


def test_the_grid_of_the_paper() -> None:
    grid = Candidates.grid(256, side=64)
    assert len(grid) == 289 and grid.shape == (17, 17) and grid.side == 64 and grid.size == 256
    assert grid.corners is not None
    assert grid.corners[:18].tolist() == [*([0, 12 * i] for i in range(17)), [12, 0]]  # row by row
    assert grid.corners[-1].tolist() == [192, 192]


@given(st.integers(1, 40), st.data())
def test_windows_are_squares_inside_the_image(size: int, data: st.DataObject) -> None:
    side = data.draw(st.integers(1, size))
    grid = Candidates.grid(size, side=side, points=data.draw(st.integers(2, 9)))
    assert grid.corners is not None
    assert (grid.windows.flatten(1).sum(dim=1) == side**2).all()
    for window, (row, column) in zip(grid.windows[:, 0], grid.corners.tolist(), strict=True):
        assert window[row : row + side, column : column + side].all()
    corners = grid.corners.float()
    torch.testing.assert_close(grid.centres, corners + (side - 1) / 2)
    # Evenly spaced: the first and the last window touch the border.
    assert corners[0].tolist() == [0, 0] and corners[-1].tolist() == [size - side] * 2


def test_a_grid_finer_than_pixels_repeats_windows() -> None:
    grid = Candidates.grid(6, side=4, points=5)
    assert grid.corners is not None
    assert sorted(set(grid.corners[:, 1].tolist())) == [0, 1, 2] and len(grid) == 25


def test_windows_outside_of_the_image_are_named() -> None:
    inside = Candidates.at(8, [(0, 0), (5, 2)], side=3)
    assert inside.windows[1, 0].nonzero().tolist() == [[r, c] for r in (5, 6, 7) for c in (2, 3, 4)]
    for corner in ((6, 2), (2, 6), (-1, 0)):
        with pytest.raises(
            ValueError, match=f"window 1 \\(3 x 3 pixels\\) at row {corner[0]}, column {corner[1]} does not fit into"
        ):
            Candidates.at(8, [(0, 0), corner, (9, 9)], side=3)
    with pytest.raises(ValueError, match="9 x 9 windows do not fit into 8 x 8 images"):
        Candidates.grid(8, side=9)
    with pytest.raises(ValueError, match="expected whole numbers"):
        Candidates.at(8, torch.tensor([[0.5, 1.0]]), side=3)
    with pytest.raises(ValueError, match="expected whole numbers"):
        Candidates.at(8, [], side=3)


def test_windows_of_any_shape() -> None:
    windows = torch.zeros(2, 1, 4, 4, dtype=torch.bool)
    windows[0, 0, 1] = True  # a line
    windows[1, 0, 0, 0] = windows[1, 0, 3, 1] = True
    lines = Candidates(windows=windows)
    assert lines.centres.tolist() == [[1.0, 1.5], [1.5, 0.5]]
    with pytest.raises(ValueError, match="window 1 contains no pixels"):
        Candidates(windows=windows & (torch.arange(4) > 1))
    with pytest.raises(ValueError, match=r"expected a bool tensor"):
        Candidates(windows=windows.float())
    with pytest.raises(ValueError, match=r"expected \[windows, 1, size, size\]"):
        Candidates(windows=windows[:, 0])
    with pytest.raises(ValueError, match="one corner per window"):
        Candidates(windows=windows, corners=torch.zeros(3, 2, dtype=torch.int64))
    with pytest.raises(ValueError, match="cannot form a grid of 2 x 2"):
        Candidates(windows=windows, shape=(2, 2))


def test_windows_with_hidden_pixels_are_new() -> None:
    grid = Candidates.grid(4, side=2, points=3)
    known = torch.zeros(3, 1, 4, 4, dtype=torch.bool)
    known[1, :, :2] = True
    known[2] = True
    assert grid.new(known).tolist() == [[True] * 9, [False] * 3 + [True] * 6, [False] * 9]


@pytest.mark.parametrize("corners", [None, "ab", [("a", "b")], [(0, 0), (1,)], [(2**64, 0)], [(True, False)]])
def test_corners_that_are_not_numbers_are_refused(corners: object) -> None:
    with pytest.raises(ValueError, match=r"expected whole numbers of shape \[L, 2\]: a row and a column"):
        Candidates.at(8, corners, side=2)  # type: ignore[arg-type]


def test_corners_outside_the_image_are_refused() -> None:
    with pytest.raises(ValueError, match="does not fit into the 8 x 8 image"):
        Candidates.at(8, [(2**63 - 1, 0)], side=2)
    windows = Candidates.at(8, [(0, 0)], side=2).windows
    with pytest.raises(ValueError, match="the corner of window 0 lies outside the image"):
        Candidates(windows=windows, corners=torch.tensor([[0, 8]]))
    with pytest.raises(ValueError, match="expected whole numbers"):
        Candidates(windows=windows, corners=[(0, 0)])  # type: ignore[arg-type]


def test_a_grid_too_large_for_memory_is_refused() -> None:
    with pytest.raises(ValueError, match="1000 x 1000 windows of a 64 x 64 image need too much memory"):
        Candidates.grid(64, side=16, points=1000)


@pytest.mark.parametrize(("size", "side", "points"), [(5, 2, 4), (5, 3, 2), (6, 2, 3), (6, 5, 2), (4, 4, 2), (7, 2, 2)])
def test_scans_needed_to_cover_the_grid(size: int, side: int, points: int) -> None:
    """Brute force: this many windows can cover all that the grid covers, and one fewer cannot."""
    grid = Candidates.grid(size, side=side, points=points)
    everything, count = grid.windows.any(dim=0), grid.scans_for_all

    def covers(number: int) -> bool:
        sets = itertools.combinations(range(len(grid)), number)
        return any(torch.equal(grid.windows[list(some)].any(dim=0), everything) for some in sets)

    assert covers(count) and not covers(count - 1)
    assert Candidates(windows=grid.windows).scans_for_all == 1  # the number is unknown without a grid
