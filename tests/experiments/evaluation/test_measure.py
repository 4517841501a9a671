"""What completers do to their question, and answers that are none."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers.evaluation_runs import FACES
from torch import Tensor

from condvae.data import open_data
from condvae.experiments.evaluation import EvaluationSettings, FeatureNetworks, Method, experiment
from condvae.observe import Observation


class Answers:
    name, varies = "odd", True

    def __init__(self, answer: Callable[[Observation, int], Any]) -> None:
        self.answer = answer

    def complete(self, observation: Observation, k: int, seed: int) -> Tensor:
        answer: Tensor = self.answer(observation, k)
        return answer


def blank(observation: Observation, k: int) -> Tensor:
    return torch.zeros(len(observation), k, 3, 32, 32, dtype=torch.uint8)


def forgets(observation: Observation, k: int) -> Tensor:
    """Says that nothing was known."""
    assert observation.known is not None and observation.pixels is not None
    observation.known[:] = False
    observation.pixels[:] = -1
    return blank(observation, k)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (forgets, "odd has changed known pixels"),
        (lambda o, k: None, "odd gave a NoneType, expected a tensor"),
        (lambda o, k: blank(o, k).tolist(), "odd gave a list"),
        (lambda o, k: blank(o, k).numpy(), "odd gave a ndarray"),
        (lambda o, k: blank(o, k).float() * float("nan"), "odd gave torch.float32"),
        (lambda o, k: blank(o, k)[:, :1], r"of shape \(1, 1, 3, 32, 32\), expected"),
    ],
)
def test_an_answer_that_is_none_is_refused(
    tmp_path: Path, answer: Callable[[Observation, int], Any], message: str
) -> None:
    settings = EvaluationSettings(images=4, deep_images=2, n=2, metrics=("pixels",))
    with pytest.raises(ValueError, match=message):
        experiment(
            [Method.of(Answers(answer))],
            open_data(FACES),
            tmp_path,
            settings=settings,
            networks=FeatureNetworks(),
            say=lambda text: None,
        )
