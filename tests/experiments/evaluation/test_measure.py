"""Completers that change their input or return invalid completions."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers.evaluation_runs import FACES, small_subject
from torch import Tensor

from condvae.data import open_data
from condvae.experiments.evaluation import EvaluationSettings, FeatureNetworks, Method, experiment, methods_of
from condvae.experiments.evaluation.plan import Family
from condvae.observe import Observation


class Odd:
    name, varies = "odd", True

    def __init__(self, make: Callable[[Observation, int], Any]) -> None:
        self.make = make

    def complete(self, observation: Observation, k: int, seed: int) -> Tensor:
        made: Tensor = self.make(observation, k)
        return made


def blank(observation: Observation, k: int) -> Tensor:
    return torch.zeros(len(observation), k, 3, 32, 32, dtype=torch.uint8)


def forgets(observation: Observation, k: int) -> Tensor:
    """Overwrites its input as if nothing was known."""
    assert observation.known is not None and observation.pixels is not None
    observation.known[:] = False
    observation.pixels[:] = -1
    return blank(observation, k)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (forgets, "odd has changed known pixels"),
        (lambda o, k: None, "odd returned a NoneType, expected a uint8 tensor"),
        (lambda o, k: blank(o, k).tolist(), "odd returned a list"),
        (lambda o, k: blank(o, k).numpy(), "odd returned a ndarray"),
        (lambda o, k: blank(o, k).float() * float("nan"), "odd returned a torch.float32 tensor"),
        (lambda o, k: blank(o, k)[:, :1], r"torch.uint8 tensor of shape \(1, 1, 3, 32, 32\), expected"),
    ],
)
def test_invalid_completions_are_rejected(
    tmp_path: Path, make: Callable[[Observation, int], Any], message: str
) -> None:
    settings = EvaluationSettings(images=4, deep_images=2, n=2, metrics=("pixels",))
    with pytest.raises(ValueError, match=message):
        experiment(
            [Method.of(Odd(make))],
            open_data(FACES),
            tmp_path,
            settings=settings,
            networks=FeatureNetworks(),
            say=lambda text: None,
        )


@pytest.mark.parametrize("metric", ["pixels", "bounds"])
def test_a_model_with_nan_yields_no_numbers(tmp_path: Path, metric: Family) -> None:
    subject = small_subject()
    with torch.no_grad():
        subject.model.artifact.decoder.bias.fill_(torch.nan)
    with pytest.raises(ValueError, match="use another model file, because the weights of this one are damaged"):
        experiment(
            methods_of(subject, ["1"], ["mean"], k=2),
            open_data(FACES),
            tmp_path,
            models=[subject],
            settings=EvaluationSettings(images=4, deep_images=2, n=2, bits_images=2, metrics=(metric,)),
            networks=FeatureNetworks(),
            say=lambda text: None,
        )
    assert not (tmp_path / "results.json").exists()
