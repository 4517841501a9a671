from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from helpers.factor_worlds import LinearClassifier, linear_classifier
from helpers.models import images
from torch import Tensor

from condvae.completers import RandomTrainingImage
from condvae.data import ImageSet
from condvae.design import Candidates, Choice, Completions, Greedy, Policy, Random, full_image, scan
from condvae.observe import Observation
from condvae.runtime.pixels import from_uint8, to_uint8

TRAIN = ImageSet(images=np.random.default_rng(0).integers(0, 256, (60, 8, 8, 1), dtype=np.uint8), rows=np.arange(60))
GRID = Candidates.grid(8, side=3, points=4)
LEVELS = to_uint8(images(5, channels=1))


def greedy() -> Greedy:
    return Greedy(
        name="greedy",
        classifier=linear_classifier(),
        candidates=GRID,
        variable=0,
        source=Completions(completer=RandomTrainingImage(images=TRAIN)),
        n=3,
    )


def test_scans_become_known_one_by_one() -> None:
    g, steps = linear_classifier(), []

    def on_step(step: int, before: Observation, choice: Choice, after: Observation) -> None:
        assert before.known is not None and after.known is not None
        assert torch.equal(after.known, before.known | GRID.windows[choice.index])
        steps.append(step)

    done = scan(LEVELS, greedy(), g, GRID, steps=3, on_step=on_step)
    assert done.chosen.shape == (5, 3) and done.log_p.shape == (5, 4, 2, 3) and done.log_p.dtype == torch.float32
    assert steps == [0, 1, 2]
    for t in range(4):
        known = torch.zeros(5, 1, 8, 8, dtype=torch.bool)
        for i in range(t):
            known = known | GRID.windows[done.chosen[:, i]]
        expected = g.log_posterior(torch.where(known, from_uint8(LEVELS), 0.0), known)
        assert torch.equal(done.log_p[:, t], expected)


@pytest.mark.parametrize("policy", [greedy(), Random(candidates=GRID)])
def test_an_image_gets_the_same_scans_alone_and_in_a_batch(policy: Policy) -> None:
    everything = scan(LEVELS, policy, linear_classifier(), GRID, steps=3, seed=4, places=range(50, 55))
    some = scan(LEVELS[[3, 1]], policy, linear_classifier(), GRID, steps=3, seed=4, places=[53, 51])
    assert torch.equal(some.chosen, everything.chosen[[3, 1]]) and torch.equal(some.log_p, everything.log_p[[3, 1]])
    first, other = (scan(LEVELS, policy, linear_classifier(), GRID, steps=3, seed=seed).chosen for seed in (4, 5))
    assert not torch.equal(first, other) and not torch.equal(first, everything.chosen)


def test_hidden_pixels_never_reach_the_policy() -> None:
    """Images that differ only in hidden pixels get the same scans and the same predictions."""
    done = scan(LEVELS, greedy(), linear_classifier(), GRID, steps=3)
    known = GRID.windows[done.chosen].any(dim=1)
    other = torch.where(known, LEVELS, 255 - LEVELS)
    seen: list[Tensor] = []

    def on_step(step: int, before: Observation, choice: Choice, after: Observation) -> None:
        assert before.pixels is not None and before.known is not None
        assert (
            not before.pixels.masked_select(~before.known).any()
            and not before.y[:, :1].masked_select(~before.known).any()
        )
        seen.append(before.y)

    again = scan(other, greedy(), linear_classifier(), GRID, steps=3, on_step=on_step)
    assert len(seen) == 3
    assert torch.equal(again.chosen, done.chosen) and torch.equal(again.log_p, done.log_p)


def test_full_image_uses_all_pixels() -> None:
    g = linear_classifier()
    whole = full_image(LEVELS, g)
    assert torch.equal(whole, g.log_posterior(from_uint8(LEVELS), torch.ones(5, 1, 8, 8, dtype=torch.bool)))
    everywhere = Candidates(windows=torch.ones(1, 1, 8, 8, dtype=torch.bool))
    done = scan(LEVELS, Random(candidates=everywhere), g, everywhere, steps=1)
    assert torch.equal(done.log_p[:, 1], whole)
    with pytest.raises(ValueError, match="nothing is left to scan"):
        scan(LEVELS, Random(candidates=everywhere), g, everywhere, steps=2)


def test_arguments_that_do_not_fit_are_refused() -> None:
    g, policy = linear_classifier(), Random(candidates=GRID)
    with pytest.raises(ValueError, match="expected a uint8 tensor"):
        scan(from_uint8(LEVELS), policy, g, GRID)
    with pytest.raises(ValueError, match="make candidates for the size of the images"):
        scan(LEVELS[..., :4, :4], policy, g, GRID)
    with pytest.raises(ValueError, match=r"there are 2 places, .* for 5 images"):
        scan(LEVELS, policy, g, GRID, places=[0, 1])
    with pytest.raises(ValueError, match="the number of scans is 0"):
        scan(LEVELS, policy, g, GRID, steps=0)
    with pytest.raises(ValueError, match="the seed is -1"):
        scan(LEVELS, policy, g, GRID, seed=-1)


class Stubborn:
    """Always makes the same choice."""

    name = "stubborn"

    def __init__(self, index: Any) -> None:
        self.index = index

    def choose(self, observation: Observation, step: int, *, seed: int, places: Sequence[int]) -> Choice:
        return Choice(index=self.index)


@pytest.mark.parametrize(
    ("index", "words"),
    [
        (torch.full((5,), -1), "stubborn chose an index outside 0 to 15"),
        (torch.full((5,), 16), "stubborn chose an index outside 0 to 15"),
        (torch.zeros(4, dtype=torch.int64), r"chose torch.int64 of shape \[4\]"),
        (torch.zeros(5), r"chose torch.float32 of shape \[5\]"),
        ([0] * 5, "chose list"),
    ],
)
def test_invalid_choices_are_refused(index: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        scan(LEVELS, Stubborn(index), linear_classifier(), GRID, steps=2)


def test_scans_end_early_on_request() -> None:
    halves = Candidates.at(8, [(0, 0), (0, 4), (4, 0), (4, 4), (0, 0)], side=4)
    policy, g = Random(candidates=halves), linear_classifier()
    done = scan(LEVELS, policy, g, halves, steps=9, ends_early=True)
    assert done.chosen.shape == (5, 4) and done.log_p.shape[:2] == (5, 5)
    assert torch.equal(done.log_p[:, -1], full_image(LEVELS, g))


def test_invalid_predictions_are_noticed_with_any_policy() -> None:
    class Broken(LinearClassifier):
        def log_posterior(self, pixels: Tensor, known: Tensor) -> Tensor:
            said = super().log_posterior(pixels, known)
            return torch.where(known.any(), said * torch.nan, said)

    with pytest.raises(ValueError, match="the classifier did not return log-probabilities"):
        scan(LEVELS, Random(candidates=GRID), Broken(calls=[]), GRID, steps=2)
