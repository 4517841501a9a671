import numpy as np
import torch

from condvae.design.candidates import Candidates
from condvae.design.heatmap import colours, layer

SIZE, SCALE = 9, 3
GRID = Candidates.grid(SIZE, side=3, points=7)
"""All 3 x 3 windows. Their centres are pixels 1 to 7 along both sides; centre c is enlarged pixel 3 c + 1."""


def drawn(values: torch.Tensor, candidates: Candidates = GRID, *, low: float = 0.0, high: float = 1.0) -> np.ndarray:
    return np.asarray(layer(values, candidates, SIZE * SCALE, low=low, high=high)).astype(int)


def at(share: float) -> list[int]:
    return colours(np.array(share)).tolist()  # type: ignore[no-any-return]


def test_a_value_is_at_the_centre_of_its_window_and_fades_linearly() -> None:
    values = torch.zeros(7, 7)
    values[2, 4] = 1
    picture = drawn(values.flatten())
    row, column = 3 * (2 + 1) + 1, 3 * (4 + 1) + 1
    assert picture[row, column, :3].tolist() == at(1)
    assert picture[..., 3].argmax() == row * SIZE * SCALE + column
    for step, share in ((1, 2 / 3), (2, 1 / 3)):
        for place in ((row, column + step), (row, column - step), (row + step, column), (row - step, column)):
            assert picture[place][:3].tolist() == at(share)
    assert picture[row + 1, column + 1, :3].tolist() == at(4 / 9)
    assert picture[row + 3, column, 3] == picture[row, column + 3, 3] == 0  # 0 is transparent


def test_the_layer_ends_at_the_outermost_centres() -> None:
    picture = drawn(torch.ones(49))
    covered = picture[..., 3] > 0
    inside = slice(3 * 1 + 1, 3 * 7 + 2)
    assert covered[inside, inside].all()
    assert covered.sum() <= (6 * SCALE + 3) ** 2  # plus the enlarged pixels that the outermost lines cross
    assert not covered[: 3 * 1 - 1].any() and not covered[:, 3 * 8 :].any()


def test_a_grid_finer_than_the_pixels_looks_like_a_grid_of_pixels() -> None:
    fine = Candidates.grid(SIZE, side=3, points=13)
    values = torch.rand(49, generator=torch.Generator().manual_seed(0))
    assert fine.corners is not None
    rows, columns = fine.corners.unbind(1)
    assert (drawn(values[rows * 7 + columns], fine) == drawn(values)).all()


def test_a_grid_of_unequal_steps_draws_every_value_in_its_place() -> None:
    few = Candidates.grid(SIZE, side=3, points=5)  # corners 0, 2, 3, 4, 6
    values = torch.rand(25, generator=torch.Generator().manual_seed(0)) / 2 + 0.5
    picture = drawn(values, few)
    assert few.corners is not None
    for value, (row, column) in zip(values.tolist(), few.corners.tolist(), strict=True):
        assert picture[3 * (row + 1) + 1, 3 * (column + 1) + 1, :3].tolist() == at(value)


def test_without_a_grid_a_pixel_gets_the_mean_of_its_windows() -> None:
    windows = torch.zeros(2, 1, SIZE, SIZE, dtype=torch.bool)
    windows[0, :, :, :4], windows[1, :, :, 3:6] = True, True
    picture = drawn(torch.tensor([0.25, 0.75]), Candidates(windows=windows))
    for column, share in ((0, 0.25), (3, 0.5), (5, 0.75)):
        assert picture[:, 3 * column : 3 * column + 3, :3].reshape(-1, 3).tolist() == [at(share)] * 27 * 3
    assert (picture[:, 3 * 6 :, 3] == 0).all()


def test_excluded_locations_get_the_lowest_value() -> None:
    values = torch.rand(49, generator=torch.Generator().manual_seed(0))
    ruled_out, least = values.clone(), values.clone()
    ruled_out[5], least[5] = -torch.inf, -2.0
    assert (drawn(ruled_out, low=-2.0) == drawn(least, low=-2.0)).all()


def test_constant_values_are_transparent() -> None:
    assert (drawn(torch.zeros(49), high=0.0)[..., 3] == 0).all()


def test_colours_grow_lighter() -> None:
    ramp = colours(np.linspace(-1, 2, 301)).astype(float) @ [0.3, 0.6, 0.1]
    assert (np.diff(ramp) >= -1).all()
    assert ramp[100] == ramp[0] < 50 < 200 < ramp[200] == ramp[-1]
