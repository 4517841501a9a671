"""Every method is measured in every bin, on the same problems."""

import itertools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers.evaluation_runs import numbers, small_networks, units_in
from torch import Tensor

from condvae.data import Dataset
from condvae.experiments.evaluation import EvaluationSettings, FeatureNetworks, Method, Problems, UnitSizes, experiment
from condvae.experiments.evaluation.summary import COLUMNS
from condvae.observe import Observation
from condvae.runtime.messages import silent


class Truth:
    """Cheats: returns the original images."""

    name = "truth"
    varies = True

    def __init__(self, problems: Problems) -> None:
        self.problems = problems

    def complete(self, observation: Observation, k: int, seed: int, *, places: Sequence[int] = ()) -> Tensor:
        images = self.problems.test.take(self.problems.rows[list(places)]).images
        return images[:, None].expand(-1, k, -1, -1, -1)


def test_every_method_is_measured_in_every_bin(whole: dict[str, Any]) -> None:
    assert list(whole["methods"]) == [
        *("small, t 1", "small, t 8:0.5", "training mean", "random training image"),
        *("nearest training images", "harmonic fill"),
    ]
    for name, found in whole["methods"].items():
        varies = name not in ("training mean", "harmonic fill")
        assert found["k"] == (4 if varies else 1)
        inception, deep = {"fid", "cfid", "kid", "p_ids", "u_ids"}, {"lpips_gt", "fwv@0.2", "best_mse", "ssim_of_mean"}
        assert inception | deep | {"crps_lpips", "crps_pixels"} < set(found["metrics"])
        for columns in found["metrics"].values():
            assert tuple(columns) == COLUMNS
        gt = {metric: [cell["mean"] for cell in found["metrics"][metric].values()] for metric in found["metrics"]}
        assert gt["lpips_gt"] == gt["lpips_gt@4"]
        for more, fewer in (("lpips_gt@4", "lpips_gt@2"), ("lpips_gt@2", "lpips_gt@1")):
            assert all(a <= b for a, b in zip(gt[more], gt[fewer], strict=True))
        assert (gt["lpips_gt"][5] < gt["lpips_gt@1"][5]) == varies
        assert gt["lpips_gt"][5] == pytest.approx(sum(gt["lpips_gt"][:5]) / 5)
        assert gt["lpips_gt"][0] < gt["lpips_gt"][4]
        assert all((cell > 0) == varies for cell in gt["lpips_diversity"])
        assert found["coverage"]["white"]["mixture"]["images"] == 4
        assert found["coverage"]["reference"]["mixture"]["verdict"] in ("calibrated", "miscalibrated")
        assert "leaning@white" in found["metrics"] and "leaning@reference" not in found["metrics"]
    bounds = whole["models"]["small"]["metrics"]
    assert tuple(bounds["forward_kl_nats_per_dim"]) == tuple(bounds["hidden_bits_per_dim"]) == COLUMNS
    for column, metric in itertools.product(COLUMNS, ("hidden_bits_per_dim", "hidden_nats", "whole_bits_per_dim")):
        assert bounds[f"{metric}@16"][column]["mean"] < bounds[metric][column]["mean"]
    for column in COLUMNS:
        assert bounds["hidden_nats"][column]["mean"] < bounds["whole_nats"][column]["mean"]
    assert list(bounds["bits_per_dim"]) == ["all"]
    assert whole["models"]["small"]["training_minutes"] == {"partial encoder": 3.5, "VAE": 10.0}


def test_a_method_with_one_fixed_completion_is_overconfident(whole: dict[str, Any]) -> None:
    for name in ("training mean", "harmonic fill"):
        coverage = whole["methods"][name]["coverage"]["white"]["mixture"]
        assert coverage["verdict"] == "overconfident"
        assert coverage["levels"] == [round(0.05 * i, 2) for i in range(1, 20)]
        assert coverage["coverage"][9] == 0.0  # four equal completions have no interval that contains half of them


def test_a_folder_contains_the_report_and_no_large_files(folder: Path, whole: dict[str, Any]) -> None:
    assert {path.name for path in folder.iterdir()} == {
        *("results.json", "results.csv", "results.md", "metrics.png", "coverage.png", "parts")
    }
    kept = {path.parent.name for path in units_in(folder)}  # features of test images and observations, for later calls
    assert {name.rpartition("-")[0] for name in kept} == {"test-images-truth", "test-images-observed"}
    assert all(path.stat().st_size < 50_000 for path in folder.rglob("final.safetensors"))
    assert json.loads((folder / "results.json").read_text()) == whole


def test_the_truth_has_perfect_numbers(tmp_path: Path, data: Dataset) -> None:
    settings = EvaluationSettings(images=8, deep_images=4, n=2, metrics=("inception", "lpips", "pixels"))
    cheat = Method.of(Truth(Problems.choose(data, settings)))
    result = experiment([cheat], data, tmp_path, settings=settings, networks=small_networks(), say=silent)
    metrics = numbers(result)["methods"]["truth"]["metrics"]
    for column in COLUMNS:
        assert metrics["lpips_gt"][column] == {"mean": 0.0, "standard_error": 0.0}
        assert metrics["best_mse"][column]["mean"] == 0
        assert metrics["psnr_of_mean"][column]["mean"] == 100
        assert metrics["fid"][column]["mean"] < 1e-6
        assert metrics["cfid"][column]["mean"] < 1e-6
        assert metrics["crps_pixels"][column] == {"mean": 0.0, "standard_error": 0.0}
        assert metrics["crps_lpips"][column]["mean"] == pytest.approx(0, abs=1e-4)
        assert metrics["p_ids"][column]["mean"] == 0  # no image looks more real than itself
        assert metrics["u_ids"][column]["mean"] == 0.5


def test_every_method_is_given_the_same_holes(tmp_path: Path, data: Dataset) -> None:
    seen: dict[str, list[tuple[tuple[int, ...], int, Tensor]]] = {}

    class Grey:
        varies = False

        def __init__(self, name: str) -> None:
            self.name = name

        def complete(self, observation: Observation, k: int, seed: int, *, places: Sequence[int] = ()) -> Tensor:
            assert observation.known is not None and observation.pixels is not None
            seen.setdefault(self.name, []).append((tuple(places), k, observation.known))
            grey = torch.full_like(observation.pixels, 128).to(torch.uint8)
            levels = ((observation.pixels + 1) * 127.5).round().to(torch.uint8)
            return torch.where(observation.known, levels, grey)[:, None]

    settings = EvaluationSettings(images=8, deep_images=4, n=3, metrics=("inception", "pixels"))
    methods = [Method.of(Grey("one")), Method.of(Grey("other"))]
    result = experiment(methods, data, tmp_path, settings=settings, networks=small_networks(), say=silent)
    assert numbers(result)["methods"]["one"] == numbers(result)["methods"]["other"]
    for (places, k, known), (other_places, other_k, other_known) in zip(seen["one"], seen["other"], strict=True):
        assert (places, k) == (other_places, other_k)
        assert torch.equal(known, other_known)
    hidden = [1 - known.float().mean(dim=(1, 2, 3)) for _, _, known in seen["one"]]
    for i in range(5):  # deep first, then wide, each bin by bin
        for shares in (hidden[i], hidden[5 + i]):
            assert ((shares > 0.2 * i) & (shares < 0.2 * (i + 1))).all()
    # Deep images have the same holes as in the wide measurement.
    deep, wide = seen["one"][2], seen["one"][7]
    assert torch.equal(deep[2], wide[2][list(deep[0])])


def test_a_completer_without_places_is_measured(tmp_path: Path, data: Dataset) -> None:
    class Simple:
        name = "simple"
        varies = True

        def complete(self, observation: Observation, k: int, seed: int) -> Tensor:
            assert observation.known is not None and observation.pixels is not None
            levels = ((observation.pixels + 1) * 127.5).round()[:, None]
            dice = torch.Generator().manual_seed(seed)
            noise = torch.randint(256, (len(observation), k, *levels.shape[2:]), generator=dice)
            return torch.where(observation.known[:, None], levels, noise).to(torch.uint8)

    settings = EvaluationSettings(images=8, deep_images=4, n=3, metrics=("pixels",))

    def measured(name: str, blocks: UnitSizes) -> dict[str, Any]:
        found = experiment(
            [Method.of(Simple())],
            data,
            tmp_path / name,
            settings=settings,
            networks=FeatureNetworks(),
            unit_sizes=blocks,
            say=silent,
        )
        return numbers(found)

    one = measured("one", UnitSizes(deep=4))
    mse = one["methods"]["simple"]["metrics"]["best_mse"]
    assert mse["0-0.2"]["mean"] < mse["0.8-1"]["mean"]
    assert one == measured("other", UnitSizes(deep=3))  # completions do not depend on the batch
