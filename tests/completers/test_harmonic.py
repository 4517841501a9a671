import pytest
import torch
from helpers.models import images, some_known
from torch import Tensor

from condvae.completers import HarmonicFill
from condvae.completers.harmonic import harmonic
from condvae.metrics import HOLE_BINS, HoleBin, known_in_bin
from condvae.observe import Observation
from condvae.observe.observation import observe_pixels
from condvae.runtime.pixels import to_uint8


def dense_solution(values: Tensor, known: Tensor) -> Tensor:
    """Solve one channel [H, W] densely: a pixel equals its known value or the mean of its neighbours."""
    height, width = values.shape
    matrix = torch.zeros(height * width, height * width, dtype=torch.float64)
    right = torch.zeros(height * width, dtype=torch.float64)
    for y in range(height):
        for x in range(width):
            i = y * width + x
            matrix[i, i] = 1
            if known[y, x]:
                right[i] = values[y, x]
                continue
            around = [(y - 1, x), (y + 1, x), (y, x - 1), (y, x + 1)]
            inside = [(v, u) for v, u in around if 0 <= v < height and 0 <= u < width]
            for v, u in inside:
                matrix[i, v * width + u] = -1 / len(inside)
    solution: Tensor = torch.linalg.solve(matrix, right)
    return solution.view(height, width)


def observe(x: Tensor, known: Tensor) -> Observation:
    return observe_pixels(x, known, lambda images: images)


def test_result_equals_that_of_a_dense_solver() -> None:
    generator = torch.Generator().manual_seed(0)
    values = 255 * torch.rand(4, 2, 11, 9, generator=generator)
    known = torch.rand(4, 1, 11, 9, generator=generator) < torch.tensor([0.7, 0.3, 0.1, 0.03]).view(4, 1, 1, 1)
    known[3, 0, 0, 0] = True
    found = harmonic(values, known)
    for b in range(4):
        for c in range(2):
            torch.testing.assert_close(found[b, c], dense_solution(values[b, c], known[b, 0]), rtol=0, atol=1e-3)


@pytest.mark.parametrize("hole", HOLE_BINS, ids=str)
def test_every_hidden_pixel_is_the_mean_of_its_neighbours(hole: HoleBin) -> None:
    known = known_in_bin(hole, 4, 64, seed=0)
    u = harmonic((images(4, size=64) + 1) * 127.5, known)
    padded = torch.nn.functional.pad(u, (1, 1, 1, 1))
    inside = torch.nn.functional.pad(torch.ones_like(u), (1, 1, 1, 1))
    total, count = (
        t[..., :-2, 1:-1] + t[..., 2:, 1:-1] + t[..., 1:-1, :-2] + t[..., 1:-1, 2:] for t in (padded, inside)
    )
    assert float(torch.where(known, 0.0, total - count * u).abs().max()) < 1e-4


def test_a_ramp_is_continued_and_the_gradient_across_the_edge_is_zero() -> None:
    ramp = torch.linspace(10, 200, 20, dtype=torch.float64).expand(1, 1, 20, 20)
    known = torch.zeros(1, 1, 20, 20, dtype=torch.bool)
    known[..., 0], known[..., -1] = True, True
    torch.testing.assert_close(harmonic(ramp, known), ramp, rtol=0, atol=1e-3)
    known[..., -1] = False  # now only the left edge is known, so the solution is constant
    torch.testing.assert_close(harmonic(ramp, known), torch.full_like(ramp, 10.0), rtol=0, atol=1e-3)


def test_known_pixels_are_exact_and_hidden_ones_are_not_used() -> None:
    x, known = images(3, size=16), some_known(3, size=16)
    made = HarmonicFill().complete(observe(x, known), 4, 0)
    assert (made.shape, made.dtype) == ((3, 4, 3, 16, 16), torch.uint8)
    everywhere = known[:, None].expand_as(made)
    assert torch.equal(made[everywhere], to_uint8(x)[:, None].expand_as(made)[everywhere])
    other = torch.where(known, x, torch.nan)
    assert torch.equal(HarmonicFill().complete(observe(other, known), 4, 1), made)
    assert made.stride(1) == 0  # the four completions share memory


def test_the_fallback_is_used_where_nothing_is_known() -> None:
    x, known = images(2, size=16), some_known(2, size=16)
    known[1] = False
    fallback = to_uint8(images(1, size=16, seed=5))[0]
    made = HarmonicFill(fallback=fallback).complete(observe(x, known), 1, 0)
    assert torch.equal(made[1, 0], fallback)
    assert not torch.equal(made[0, 0], fallback)
    assert (HarmonicFill().complete(observe(x, known), 1, 0)[1] == 128).all()
    edges = Observation(y=torch.zeros(2, 5, 16, 16))
    assert torch.equal(HarmonicFill(fallback=fallback).complete(edges, 2, 0), fallback.expand(2, 2, -1, -1, -1))
    assert HarmonicFill(channels=1).complete(edges, 2, 0).shape == (2, 2, 1, 16, 16)
    whole = HarmonicFill().complete(observe(x, torch.ones_like(known)), 1, 0)
    assert torch.equal(whole[:, 0], to_uint8(x))
