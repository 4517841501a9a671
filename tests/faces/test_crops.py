import math

import numpy as np
import pytest
import torch
from torch import Tensor

from condvae.faces.crops import CropSource, in_picture, squares_of


def square(x: float, y: float, side: float, degrees: float = 0) -> Tensor:
    return torch.tensor([[x, y, side, math.radians(degrees)]], dtype=torch.float64)


def noise(height: int, width: int) -> Tensor:
    return torch.rand(3, height, width, generator=torch.Generator().manual_seed(1))


def test_a_square_on_the_pixel_grid_is_cut_exactly() -> None:
    picture = noise(40, 50)
    cut = CropSource(picture).cut(squares_of(torch.tensor([[5.0, 7, 29, 31], [10, 3, 34, 27]]).double()), 24)
    assert torch.allclose(cut[0], picture[:, 7:31, 5:29], atol=1e-4)
    assert torch.allclose(cut[1], picture[:, 3:27, 10:34], atol=1e-4)


def test_squares_are_turned_clockwise() -> None:
    picture = noise(40, 40)
    cut = CropSource(picture).cut(square(20, 20, 24, 90), 24)[0]
    # What is right in the picture is above in a square that was turned clockwise by 90 degrees.
    assert torch.allclose(cut, torch.rot90(picture[:, 8:32, 8:32], 1, (1, 2)), atol=1e-4)


def test_beyond_the_edge_the_last_pixels_are_repeated() -> None:
    picture = noise(24, 24)
    cut = CropSource(picture).cut(square(0, 12, 24), 24)[0]
    assert torch.allclose(cut[:, :, :12], picture[:, :, :1].expand(-1, -1, 12), atol=1e-4)


@pytest.mark.parametrize("side", [10, 24, 60, 200, 260])
def test_large_squares_are_averaged_and_none_is_shifted(side: float) -> None:
    """A slope has the same values at every size of the picture."""
    at = torch.arange(400) + 0.5
    slope = torch.stack([at.expand(400, 400), at[:, None].expand(400, 400), torch.ones(400, 400)])
    cut = CropSource(slope).cut(square(210, 190, side, 30), 24)[0]
    shares = (torch.arange(24).double() + 0.5) / 24
    points = torch.stack([shares.expand(24, 24), shares[:, None].expand(24, 24)], dim=-1).reshape(1, -1, 2)
    expected = in_picture(points, square(210, 190, side, 30))[0].T.reshape(2, 24, 24)
    assert torch.allclose(cut[:2].double(), expected, atol=0.02)
    checkers = torch.from_numpy(np.indices((400, 400)).sum(0) % 2).float()[None]
    if side >= 60:
        assert CropSource(checkers).cut(square(200, 200, side), 24).std() < 0.25


def test_no_squares_give_no_crops() -> None:
    assert CropSource(noise(9, 5)).cut(torch.empty(0, 4).double(), 24).shape == (0, 3, 24, 24)
