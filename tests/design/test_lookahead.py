from collections.abc import Callable
from typing import Any

import pytest
import torch
from helpers.factor_worlds import linear_classifier
from helpers.models import images, some_known
from torch import Tensor

from condvae.design import Candidates, look_ahead
from condvae.design.lookahead import check_probabilities, log_posteriors
from condvae.runtime.pixels import from_uint8, to_uint8

LEVELS = to_uint8(images(6, channels=1)).view(2, 3, 1, 8, 8)
KNOWN = some_known(2)
GRID = Candidates.grid(8, side=3, points=4)


def test_every_image_is_predicted_after_every_scan() -> None:
    g = linear_classifier()
    everything = look_ahead(g, LEVELS, KNOWN, GRID)
    assert everything.shape == (2, 3, 16, 2, 3) and everything.dtype == torch.float32
    for b, n, scan in ((0, 0, 0), (0, 2, 5), (1, 1, 15)):
        known = KNOWN[b : b + 1] | GRID.windows[scan : scan + 1]
        pixels = torch.where(known, from_uint8(LEVELS[b, n : n + 1]), 0.0)
        assert torch.equal(everything[b, n, scan], g.log_posterior(pixels, known)[0])
    assert torch.equal(look_ahead(g, LEVELS, KNOWN, GRID, variable=1), everything[..., 1, :])


@pytest.mark.parametrize("at_once", [1, 7, 16, 96, 1000])
def test_chunks_change_nothing_and_bound_what_the_classifier_is_given(at_once: int) -> None:
    g = linear_classifier()
    expected = look_ahead(g, LEVELS, KNOWN, GRID)
    g.calls.clear()
    assert torch.equal(look_ahead(g, LEVELS, KNOWN, GRID, at_once=at_once), expected)
    assert max(g.calls) <= at_once and sum(g.calls) == 96


def test_the_default_chunk_is_bounded_in_pixels() -> None:
    g = linear_classifier(size=64)
    levels = torch.zeros(1, 5, 1, 64, 64, dtype=torch.uint8)
    look_ahead(g, levels, torch.zeros(1, 1, 64, 64, dtype=torch.bool), Candidates.grid(64, side=16, points=8))
    assert max(g.calls) == 2**18 // 64**2 < sum(g.calls) == 320


def test_pixels_outside_the_scan_do_not_matter() -> None:
    scan = Candidates.at(8, [(2, 2)], side=3)
    shown = (KNOWN | scan.windows)[:, None]
    other = torch.where(shown, LEVELS, 255 - LEVELS)
    assert not torch.equal(other, LEVELS)
    assert torch.equal(
        look_ahead(linear_classifier(), other, KNOWN, scan), look_ahead(linear_classifier(), LEVELS, KNOWN, scan)
    )


def test_predictions_in_chunks() -> None:
    g, levels = linear_classifier(), LEVELS.flatten(0, 1)
    known = some_known(6, seed=3)
    expected = g.log_posterior(torch.where(known, from_uint8(levels), 0.0), known)
    assert torch.equal(log_posteriors(g, levels, known, at_once=4), expected)


def test_arguments_that_do_not_fit_are_refused() -> None:
    g = linear_classifier()
    with pytest.raises(ValueError, match="expected uint8 of"):
        look_ahead(g, from_uint8(LEVELS), KNOWN, GRID)
    with pytest.raises(ValueError, match="images of 4 x 4"):
        look_ahead(g, LEVELS, KNOWN, Candidates.grid(4, side=2, points=2))
    with pytest.raises(ValueError, match="known has shape"):
        look_ahead(g, LEVELS, KNOWN[:1], GRID)
    with pytest.raises(ValueError, match="the number of evaluations at once is 0"):
        look_ahead(g, LEVELS, KNOWN, GRID, at_once=0)


class Odd:
    """Returns something that is not a classifier's prediction."""

    names, outcomes = ("one", "other"), 3

    def __init__(self, answer: Callable[[Tensor], Any]) -> None:
        self.answer = answer

    def log_posterior(self, pixels: Tensor, known: Tensor) -> Tensor:
        found: Tensor = self.answer(linear_classifier().log_posterior(pixels, known))
        return found


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (lambda log_p: log_p[:, 0], r"returned a tensor of shape \[\d+, 3\]"),
        (lambda log_p: log_p[:-1], r"returned a tensor of shape \[\d+, 2, 3\]"),
        (lambda log_p: log_p[..., :2].log_softmax(dim=-1), r"returned a tensor of shape \[\d+, 2, 2\]"),
        (lambda log_p: log_p.numpy(), "returned a ndarray"),
        (lambda log_p: None, "returned a NoneType"),
        (lambda log_p: log_p.exp(), "did not return log-probabilities"),
        (lambda log_p: log_p * torch.nan, "did not return log-probabilities"),
        (lambda log_p: torch.full_like(log_p, -torch.inf), "did not return log-probabilities"),
        (lambda log_p: torch.zeros_like(log_p), "did not return log-probabilities"),
    ],
)
def test_invalid_predictions_are_refused(answer: Callable[[Tensor], Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        look_ahead(Odd(answer), LEVELS, KNOWN, GRID)
    with pytest.raises(ValueError, match=words):
        log_posteriors(Odd(answer), LEVELS[:, 0], KNOWN)


def test_probabilities_may_be_certain_or_rounded() -> None:
    certain = torch.tensor([0.0, -torch.inf]).expand(2, 3, 2)
    check_probabilities(certain)
    check_probabilities(torch.randn(5, 4).mul(9).log_softmax(dim=1).half())
