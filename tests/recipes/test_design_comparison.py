"""Means, standard errors and paired differences of policies equal a computation by hand."""

import json
import time
from collections.abc import Sequence

import pytest
import torch

from condvae.observe import Observation
from condvae.observe.observation import observe_levels
from recipes.design_comparison import Scanned, TimedSource, numbers, summarise

LABELS = torch.tensor([0, 1, 0])
P = torch.tensor([0.8, 0.3, 0.6])
"""The probability of class 0 for each of three pictures."""


def scanned(*sequences: torch.Tensor) -> Scanned:
    """Make the results of a policy from the probability of class 0 in each sequence of one scan."""
    known = torch.stack([torch.stack((p, 1 - p), dim=-1) for p in sequences])
    return Scanned(
        torch.stack((torch.full_like(known, 0.5), known), dim=2).log(), seconds=1.5, drawn=7, drawing_seconds=0.5
    )


class Slow:
    """Needs a hundredth of a second for each observation."""

    name = "slow"

    def imagine(self, observation: Observation, n: int, seed: int, places: Sequence[int]) -> torch.Tensor:
        time.sleep(0.01 * len(observation))
        return torch.full((len(observation), n, 1, 8, 8), seed + sum(places), dtype=torch.uint8)


def test_a_timed_source_draws_the_same_images() -> None:
    timed = TimedSource(source=Slow())
    nothing = observe_levels(torch.zeros(3, 1, 8, 8, dtype=torch.uint8), torch.zeros(3, 1, 8, 8, dtype=torch.bool))
    assert torch.equal(timed.imagine(nothing, 2, 4, [1, 2, 3]), Slow().imagine(nothing, 2, 4, [1, 2, 3]))
    timed.imagine(nothing[:1], 5, 0, [0])
    assert (timed.name, timed.drawn) == ("slow", 3 * 2 + 5) and 0.04 <= timed.seconds < 4


def test_differences_are_paired() -> None:
    other = torch.tensor([0.4, 0.6, 0.7])
    result = summarise({"eig-ipa": scanned(P), "eig-gan": scanned(other)}, scanned(P).log_p[:, :, 1:], LABELS)
    right = {"eig-ipa": [0.8, 0.7, 0.6], "eig-gan": [0.4, 0.4, 0.7]}
    for name, values in right.items():
        found = result["policies"][name]
        logs = torch.tensor(values, dtype=torch.float64).log()
        assert found["log_score"]["mean"][1] == pytest.approx(float(logs.mean()), abs=1e-6)
        assert found["log_score"]["standard_error"][1] == pytest.approx(float(logs.std()) / 3**0.5, abs=1e-6)
        assert (found["seconds"], found["drawing_seconds"], found["drawn"], found["sequences"]) == (1.5, 0.5, 7, 1)
    assert result["policies"]["eig-gan"]["accuracy"]["mean"] == pytest.approx([200 / 3, 100 / 3])  # ties: class 0
    assert list(result["differences"]) == ["eig-ipa - eig-gan"]
    found = result["differences"]["eig-ipa - eig-gan"]
    more = torch.tensor([0.8 / 0.4, 0.7 / 0.4, 0.6 / 0.7], dtype=torch.float64).log()
    assert found["log_score"]["mean"] == pytest.approx([0, float(more.mean())], abs=1e-6)
    assert found["log_score"]["standard_error"] == pytest.approx([0, float(more.std()) / 3**0.5], abs=1e-6)
    # Right are three pictures against one: differences of 100, 100 and 0 %, with a standard deviation of 57.7 %.
    assert found["accuracy"]["mean"] == pytest.approx([0, 200 / 3])
    assert found["accuracy"]["standard_error"] == pytest.approx([0, 100 / 3])
    assert result["whole"]["accuracy"]["mean"] == [100]


def test_sequences_of_a_picture_are_averaged_first() -> None:
    result = summarise({"eig-ipa": scanned(P), "random": scanned(P, 1 - P)}, scanned(P).log_p[:, :, 1:], LABELS)
    found = result["policies"]["random"]["accuracy"]
    assert found["mean"][1] == 50 and found["standard_error"][1] == 0  # each picture is right in half of its sequences


def test_a_single_picture_has_no_standard_error() -> None:
    result = summarise({"eig-ipa": scanned(P[:1])}, scanned(P[:1]).log_p[:, :, 1:], LABELS[:1])
    assert result["policies"]["eig-ipa"]["accuracy"] == {"mean": [100, 100], "standard_error": [None, None]}
    assert json.dumps(result, allow_nan=False)
    assert numbers([None, 1.005, -2.0]).split() == ["-", "1.00", "-2.00"]
