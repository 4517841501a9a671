"""Speeds, and completions in equal time: LPIPS-GT, and how often the original lies in the range of completions."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from helpers.pretraining_runs import PixelDistance, small_data
from helpers.recipe_calls import run
from torch import Tensor

from condvae import weights
from condvae.completers import RandomTrainingImage
from condvae.completers.learned_baselines import make_completer, named_config
from condvae.data import open_data
from condvae.experiments.evaluation.plan import EvaluationSettings
from condvae.experiments.evaluation.problems import Problems
from condvae.observe import Observation
from recipes import baselines_speed
from recipes.baselines_speed import COMPLETIONS, MOST, Options, in_equal_time, main, of_completions, speed_of
from recipes.baselines_training import BASELINES

CPU = torch.device("cpu")
TRAINED = {
    "ce": "ce/model", "pic": "pic/model", "comodgan": "comodgan/snapshots/step-1", "comodgan-long": "comodgan/model",
    "diffusion": "diffusion/snapshots/step-7",
}  # fmt: skip
"""The model files of some trained methods. The diffusion model is not trained to the end."""


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


def test_all_methods_are_timed_and_trained_ones_that_vary_are_measured(
    tmp_path: Path, noise32: Path, finished_model: Path, small_comparison: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(baselines_speed, "COMPLETIONS", 3)
    monkeypatch.setattr(baselines_speed, "MOST", 6)
    for name, place in TRAINED.items():
        path = tmp_path / f"{place}.safetensors"
        path.parent.mkdir(parents=True, exist_ok=True)
        config = named_config(name.removesuffix("-long"), image_size=32, channels=3)
        weights.save(make_completer(config), path, record={})
    main(Options(data=(noise32,), out=tmp_path, model=str(finished_model), images=4, device="cpu"))
    measured = json.loads((tmp_path / "speed.json").read_text())
    speeds, equal = measured["methods"], measured["equal_time"]
    assert (measured["format"], measured["device"]) == ("condvae baselines speed", "cpu")
    # A method without a model is timed with random weights. The network of a longer training is the same.
    assert set(speeds) == {*BASELINES, "comodgan-long", "cifar10"}
    assert {name for name, found in speeds.items() if found["trained"]} == {*TRAINED, "cifar10"}
    assert speeds["comodgan-long"] == speeds["comodgan"]
    for name, found in speeds.items():
        assert found["milliseconds"] * found["completions_per_second"] == pytest.approx(1000, rel=1e-4)
        assert found["network_evaluations"] == {"diffusion": 3, "vqvae": 8 * 8 + 1}.get(name, 1), name
    assert (equal["images"], equal["reference"]) == (4, "cifar10")
    assert set(equal["methods"]) == {"pic", "comodgan", "comodgan-long", "diffusion", "cifar10"}
    check_equal_time(speeds, equal["methods"])


def check_equal_time(speeds: dict[str, Any], equal: dict[str, Any]) -> None:
    """All methods have the time in which the finished model draws three completions, but draw at most six."""
    assert equal["cifar10"]["k"] == 3
    for name, found in equal.items():
        ratio = 3 * speeds[name]["completions_per_second"] / speeds["cifar10"]["completions_per_second"]
        assert found["k"] == min(6, max(1, round(ratio)))
        assert found["calibrated"] == pytest.approx((found["k"] - 1) / (found["k"] + 1), rel=1e-6)
        assert found["lpips_gt"]["mean"] >= 0 and all(0 <= found[kind]["mean"] <= 1 for kind in ("white", "smooth"))
    assert equal["comodgan"]["k"] == equal["comodgan-long"]["k"]
    assert equal["comodgan"]["lpips_gt"] != equal["comodgan-long"]["lpips_gt"]  # but they have different weights


def test_bad_input_is_one_sentence(tmp_path: Path, noise32: Path, finished_model: Path, small_comparison: None) -> None:
    small = small_data(tmp_path / "small", size=8)
    for data, images, said in (
        (noise32, 1, "--images is 1"),
        (tmp_path / "none", 4, "none does not exist"),
        (small, 4, f"the data has images of 8 x 8 x 3, but {finished_model} makes 32 x 32 x 3"),
    ):
        options = {"data": data, "out": tmp_path / "out", "model": finished_model, "images": images, "device": "cpu"}
        done = run("baselines_speed.py", *(word for name, value in options.items() for word in (f"--{name}", value)))
        assert (done.returncode, len(done.stderr.strip().splitlines())) == (2, 1), done.stderr
        assert done.stderr.startswith("baselines_speed: ") and said in done.stderr
    assert not (tmp_path / "out").exists()
