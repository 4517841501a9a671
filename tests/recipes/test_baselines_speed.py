"""Completions in equal time: LPIPS-GT, and how often the original lies in the range of completions."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pytest
import torch
from helpers.pretraining_runs import PixelDistance, small_data
from torch import Tensor

from condvae.completers import RandomTrainingImage
from condvae.data import open_data
from condvae.experiments.evaluation.plan import EvaluationSettings
from condvae.experiments.evaluation.problems import Problems
from condvae.observe import Observation
from recipes.baselines_speed import COMPLETIONS, MOST, in_equal_time, of_completions, speed_of

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_data(tmp_path_factory.mktemp("data") / "noise", train=200, test=40, size=16)


@pytest.fixture(scope="module")
def problems(folder: Path) -> Problems:
    return Problems.choose(open_data(folder), EvaluationSettings(images=40, deep_images=40, n=2))


@dataclass(frozen=True)
class Narrow:
    """Always the same completion, which is not the original."""

    name: ClassVar[str] = "narrow"
    varies: bool = True

    def complete(self, observation: Observation, k: int, seed: int, *, places: Sequence[int] | None = None) -> Tensor:
        assert observation.pixels is not None
        noise = torch.randint(0, 2, (len(observation), k, 1, 1, 1), generator=torch.Generator().manual_seed(seed))
        return (128 + noise).to(torch.uint8).expand(-1, -1, *observation.pixels.shape[1:])


def test_draws_from_the_distribution_of_the_originals_cover_as_they_should(folder: Path, problems: Problems) -> None:
    """All images of this data set are independent noise, so that a random training image is a calibrated completion."""
    random = RandomTrainingImage(images=open_data(folder).train)
    distances = []
    for k in (2, 5, 20):
        found = of_completions(random, k, problems, PixelDistance(), CPU, images=40)
        assert found["k"] == k and found["calibrated"] == (k - 1) / (k + 1)
        for kind in ("white", "smooth"):
            assert found[kind]["mean"] == pytest.approx(found["calibrated"], abs=0.06), (k, kind)
        distances.append(found["lpips_gt"]["mean"])
    assert distances == sorted(distances, reverse=True)  # the nearest of more completions is nearer


def test_narrow_completions_hardly_cover(problems: Problems) -> None:
    found = of_completions(Narrow(), 20, problems, PixelDistance(), CPU, images=20)
    assert found["white"]["mean"] < 0.3 < found["calibrated"]


def test_the_number_of_completions_follows_the_speed() -> None:
    rates = {"ours": 50.0, "slow": 1.0, "slowest": 0.01, "fast": 200.0, "fastest": 1e6}
    counts = in_equal_time({name: {"completions_per_second": rate} for name, rate in rates.items()}, "ours")
    assert counts == {"ours": COMPLETIONS, "slow": 2, "slowest": 1, "fast": 400, "fastest": 2_000_000}


def test_the_number_of_completions_is_limited(problems: Problems, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("recipes.baselines_speed.MOST", 3)
    assert of_completions(Narrow(), MOST, problems, PixelDistance(), CPU, images=2)["k"] == 3


def test_a_method_that_does_not_vary_is_timed_with_one_completion(problems: Problems) -> None:
    for varies in (True, False):
        found = speed_of(Narrow(varies=varies), problems, CPU, images=2)
        assert found["milliseconds"] * found["completions_per_second"] == pytest.approx(1000)
        assert found["network_evaluations"] == 1
