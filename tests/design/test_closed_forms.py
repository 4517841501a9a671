"""The EIG and EPE estimates agree with closed forms, for exact completions and an exact classifier."""

import pytest
import torch
from helpers.factor_worlds import SIZE, BinaryWorld, FactorWorld, GaussianWorld, uneven
from torch import Tensor

from condvae.design import Candidates, Completions, Greedy, expected_posterior_entropy, look_ahead, next_location
from condvae.observe import Observation
from condvae.observe.observation import observe_levels
from condvae.runtime.pixels import to_uint8

WORLDS = [GaussianWorld, BinaryWorld]


def world_of(kind: type[GaussianWorld] | type[BinaryWorld]) -> FactorWorld:
    loads, stds = uneven()
    return kind(loads=loads, stds=stds)


def seen(known: Tensor) -> Observation:
    """An image with these known pixels, which are faint enough to leave a binary v uncertain."""
    levels = to_uint8(0.03 * torch.randn(1, 1, SIZE, SIZE, generator=torch.Generator().manual_seed(5)))
    return observe_levels(levels, known)


def known_corner() -> Tensor:
    known = torch.zeros(1, 1, SIZE, SIZE, dtype=torch.bool)
    known[..., :2, :2] = True
    return known


def true_eig(world: FactorWorld, observation: Observation, candidates: Candidates) -> Tensor:
    assert observation.known is not None and observation.pixels is not None
    if isinstance(world, BinaryWorld):
        return world.eig(observation.pixels, observation.known, candidates.windows)
    assert isinstance(world, GaussianWorld)
    return world.eig(observation.known, candidates.windows)


@pytest.mark.parametrize("kind", WORLDS)
@pytest.mark.parametrize("known", [torch.zeros(1, 1, SIZE, SIZE, dtype=torch.bool), known_corner()])
def test_eig_agrees_with_its_closed_form(kind: type[GaussianWorld] | type[BinaryWorld], known: Tensor) -> None:
    world, candidates = world_of(kind), Candidates.grid(SIZE, side=2, points=3)
    observation = seen(known)
    place = next_location(observation, world, world, candidates, variable="v", n=4000)
    expected = true_eig(world, observation, candidates)
    assert expected.max() - expected.min() > 0.1  # locations differ enough for a meaningful test
    assert (place.eig - expected).abs().max() < 0.02
    assert expected[place.index] > expected.max() - 0.01


@pytest.mark.parametrize("kind", WORLDS)
def test_eig_and_expected_posterior_entropy_agree_up_to_a_constant(
    kind: type[GaussianWorld] | type[BinaryWorld],
) -> None:
    world, candidates = world_of(kind), Candidates.grid(SIZE, side=2, points=3)
    observation = seen(known_corner())
    assert observation.known is not None and observation.pixels is not None
    images = world.complete(observation, 4000, seed=1)
    log_p = look_ahead(world, images, observation.known, candidates, variable=0)[0]
    now = world.log_posterior(observation.pixels, observation.known)[0, 0].double()
    before = -(now.exp() * now).nan_to_num(0.0).sum()
    # eq:old-eig, with its constant, against the closed form
    assert (before - expected_posterior_entropy(log_p) - true_eig(world, observation, candidates)).abs().max() < 0.02
    found = [
        Greedy(
            name=estimator,
            classifier=world,
            candidates=candidates,
            variable=0,
            source=Completions(completer=world),
            n=4000,
            estimator=estimator,
        ).choose(observation, 1, seed=3, places=[0])
        for estimator in ("eig", "epe")
    ]
    assert found[0].scores is not None and found[1].scores is not None
    difference = found[0].scores - found[1].scores
    assert (difference - before).abs().max() < 0.02
    assert torch.equal(found[0].index, found[1].index)


def test_a_scan_of_known_pixels_has_no_gain() -> None:
    world, candidates = world_of(BinaryWorld), Candidates.at(SIZE, [(0, 0), (2, 2)], side=2)
    place = next_location(seen(known_corner()), world, world, candidates, n=10)
    assert place.eig[0] == 0 < place.eig[1] and place.index == 1
