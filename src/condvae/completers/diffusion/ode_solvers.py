"""Solvers of the probability-flow ODE of a diffusion model, dx / dsigma = (x - D(x; sigma)) / sigma.

D(x; sigma) is the denoiser: the mean of the clean image, given the image x with noise of standard deviation sigma. Both
solvers have order 2. They start at the highest noise level and end at 0.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise
from math import expm1, log

from torch import Tensor

Denoise = Callable[[Tensor, float], Tensor]
"""Returns D(x; sigma) for a batch x and one noise level sigma."""


def noise_levels(steps: int, *, least: float, most: float, rho: float = 7.0) -> list[float]:
    """Return the noise levels of a number of steps, from `most` down to `least`, and then 0.

    Karras et al. 2022, "Elucidating the design space of diffusion-based generative models" (EDM), equation 5.
    """
    if steps == 1:
        return [most, 0.0]
    first, last = most ** (1 / rho), least ** (1 / rho)
    return [*((first + i / (steps - 1) * (last - first)) ** rho for i in range(steps)), 0.0]


def heun(denoise: Denoise, x: Tensor, levels: Sequence[float]) -> Tensor:
    """Solve the ODE by Heun's method, as in EDM's algorithm 1. n steps evaluate the denoiser 2 n - 1 times."""
    for now, then in pairwise(levels):
        slope = (x - denoise(x, now)) / now
        moved = x + (then - now) * slope
        if then > 0:
            moved = x + (then - now) / 2 * (slope + (moved - denoise(moved, then)) / then)
        x = moved
    return x


def dpm_solver(denoise: Denoise, x: Tensor, levels: Sequence[float]) -> Tensor:
    """Solve the ODE by DPM-Solver++(2M), which evaluates the denoiser once in each step.

    Lu et al. 2022, "DPM-Solver++: fast solver for guided sampling of diffusion probabilistic models", algorithm 2, for
    x = clean image + noise. With lambda = -log sigma and a step h of lambda, the solution is
    x(then) = (then / now) x(now) - (exp(-h) - 1) D, where D is extrapolated from the last two evaluations. The first
    step and the step to sigma = 0 use one evaluation.
    """
    before: tuple[Tensor, float] | None = None  # the last evaluation, and the step of lambda that followed it
    for now, then in pairwise(levels):
        clean = denoise(x, now)
        if then == 0:
            return clean
        h = log(now / then)
        used = clean
        if before is not None:
            used = clean + (clean - before[0]) * (h / (2 * before[1]))
        x = then / now * x - expm1(-h) * used
        before = clean, h
    return x


SOLVERS: dict[str, Callable[[Denoise, Tensor, Sequence[float]], Tensor]] = {"heun": heun, "dpm++": dpm_solver}
"""The solvers by name."""


def evaluations(solver: str, steps: int) -> int:
    """Return how often a solver evaluates the denoiser."""
    return 2 * steps - 1 if solver == "heun" else steps
