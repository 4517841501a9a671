"""The solvers converge with order 2 to the exact solution, where the score is known."""

import itertools
import math

import pytest
import torch
from torch import Tensor

from condvae.completers.diffusion.ode_solvers import SOLVERS, Denoise, evaluations, noise_levels

MEAN, STD = 0.3, 0.6
LEAST, MOST = 0.05, 20.0


def gaussian(x: Tensor, level: float) -> Tensor:
    """The denoiser of data from N(MEAN, STD^2): the posterior mean of the clean value."""
    return (STD**2 * x + level**2 * MEAN) / (STD**2 + level**2)


def exact(start: Tensor, most: float, level: float) -> Tensor:
    """The solution of the ODE: noisy data of the level most has become noisy data of another level."""
    return MEAN + (start - MEAN) * math.sqrt((STD**2 + level**2) / (STD**2 + most**2))


def start() -> Tensor:
    return MOST * torch.randn(1000, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


@pytest.mark.parametrize("solver", SOLVERS)
def test_the_error_falls_with_the_square_of_the_step(solver: str) -> None:
    errors = []
    for steps in (20, 40, 80, 160):
        levels = noise_levels(steps, least=LEAST, most=MOST)[:-1]  # the last step, to 0, has an error of its own
        errors.append(float((SOLVERS[solver](gaussian, start(), levels) - exact(start(), MOST, LEAST)).abs().max()))
    orders = [math.log2(one / other) for one, other in itertools.pairwise(errors)]
    assert min(orders[1:]) > 1.8 and max(orders) < 2.6, (errors, orders)


def test_the_solvers_beat_the_method_of_first_order() -> None:
    levels = noise_levels(20, least=LEAST, most=MOST)

    def euler(denoise: Denoise, x: Tensor) -> Tensor:
        for now, then in itertools.pairwise(levels):
            x = x + (then - now) * (x - denoise(x, now)) / now
        return x

    target = exact(start(), MOST, 0.0)
    of_euler = (euler(gaussian, start()) - target).abs().max()
    for solver in SOLVERS.values():
        assert (solver(gaussian, start(), levels) - target).abs().max() < 0.2 * of_euler


@pytest.mark.parametrize("solver", SOLVERS)
def test_samples_have_the_law_of_the_data(solver: str) -> None:
    made = SOLVERS[solver](gaussian, start(), noise_levels(20, least=0.002, most=MOST))
    assert float(made.mean()) == pytest.approx(MEAN, abs=0.06)
    assert float(made.std()) == pytest.approx(STD, rel=0.06)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("steps", [1, 2, 7])
def test_the_network_is_evaluated_as_often_as_stated(solver: str, steps: int) -> None:
    seen: list[float] = []

    def denoise(x: Tensor, level: float) -> Tensor:
        seen.append(level)
        return gaussian(x, level)

    SOLVERS[solver](denoise, start(), noise_levels(steps, least=LEAST, most=MOST))
    assert len(seen) == evaluations(solver, steps)
    assert min(seen) > 0 and seen[0] == pytest.approx(MOST)


def test_noise_levels_are_those_of_edm() -> None:
    levels = noise_levels(5, least=0.002, most=80.0)
    assert levels[0] == pytest.approx(80) and levels[-2] == pytest.approx(0.002) and levels[-1] == 0
    roots = [level ** (1 / 7) for level in levels[:-1]]
    steps = [one - other for one, other in itertools.pairwise(roots)]
    assert steps == pytest.approx([steps[0]] * 4)
    assert noise_levels(1, least=0.002, most=80.0) == [80.0, 0.0]
