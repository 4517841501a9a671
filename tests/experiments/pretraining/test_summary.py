"""The report contains every arm, seed and point, and derives minutes, means and differences from stored numbers."""

import json
import math
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import numpy as np
import pytest
from helpers.pretraining_runs import MINUTES, SIZE, SMALL
from safetensors.torch import load_file

from condvae.experiments.pretraining.plan import COMPLETION, metrics_for
from condvae.experiments.pretraining.summary import over_seeds
from condvae.metrics import Estimate
from condvae.runtime.fingerprints import slug_of


def stored(folder: Path, run: str, step: int) -> dict[str, Any]:
    """The numbers of a snapshot, by the name of its run."""
    (path,) = (folder / "runs").glob(f"{run}-{24 * '[0-9a-f]'}/step-{step:09}-*.safetensors")
    return load_file(path)


def test_every_arm_seed_and_point_is_there(whole: dict[str, Any]) -> None:
    assert list(whole["arms"]) == ["scratch", "ipa", "transfer"]
    for name, arm in whole["arms"].items():
        assert (
            tuple(point["steps"] for point in arm["points"]) == SMALL["scratch_steps" if name == "scratch" else "steps"]
        )
        assert all(
            len(point[metric]["values"]) == SMALL["seeds"]
            for point in arm["points"]
            for metric in metrics_for(COMPLETION)
        )
    assert tuple(whole["conditions"]) == SMALL["conditions"]
    for found in whole["conditions"].values():
        steps = {name: tuple(point["steps"] for point in points) for name, points in found["arms"].items()}
        assert steps == {"scratch": SMALL["scratch_condition_steps"], "ipa": SMALL["condition_steps"]}


def test_minutes_count_the_steps_of_the_arm_and_the_training_of_its_artifact(
    folder: Path, whole: dict[str, Any]
) -> None:
    def pace(name: str, condition: str) -> float:
        kind = "scratch" if name == "scratch" else "artifact"
        (path,) = (folder / "runs").glob(f"{kind}-{condition}pace-*/training.safetensors")
        return float(load_file(path)["seconds_per_step"])

    assert pace("scratch", "") != pace("ipa", "") != pace("ipa", "grey-")
    curves = [(name, "", arm["points"]) for name, arm in whole["arms"].items()]
    for condition, found in whole["conditions"].items():
        curves += [(name, f"{slug_of(condition)}-", points) for name, points in found["arms"].items()]
    for name, condition, points in curves:
        for point in points:
            assert point["minutes"] == pytest.approx(point["steps"] * pace(name, condition) / 60)
            assert point["total_minutes"] == point["minutes"] + {**MINUTES, "scratch": 0.0}[name]
    for name, arm in whole["arms"].items():
        assert arm["pretraining_minutes"] == MINUTES.get(name, 0.0)
        kept = None if name == "scratch" else {"data": "noise", "steps": 9, "device": "cpu"}
        assert arm["pretraining"] == kept


def test_a_curve_has_the_stored_numbers_of_each_seed(folder: Path, whole: dict[str, Any]) -> None:
    for name, arm in whole["arms"].items():
        for point in arm["points"]:
            seeds = [stored(folder, f"{name}-seed-{seed}", point["steps"]) for seed in range(SMALL["seeds"])]
            expected = {
                "bits_per_dim": [float(one["nats"].mean()) / (3 * SIZE**2) / math.log(2) for one in seeds],
                "fid": [float(one["fid"][0]) for one in seeds],
                "p_ids": [100 * float(one["p_ids"][0]) for one in seeds],
                "lpips_gt": [float(one["lpips_gt"].mean()) for one in seeds],
            }
            for metric, values in expected.items():
                assert point[metric]["values"] == pytest.approx(values)
                assert point[metric]["mean"] == pytest.approx(fmean(values))
                assert point[metric]["std"] == pytest.approx(stdev(values), abs=1e-12)
            assert point["bits_per_dim"]["std"] > 0


def test_held_out_images_are_measured_after_the_last_step_of_each_seed(folder: Path, whole: dict[str, Any]) -> None:
    for name, arm in whole["arms"].items():
        for seed in range(SMALL["seeds"]):
            (log,) = (folder / "runs").glob(f"{name}-seed-{seed}-*/training/log.jsonl")
            lines = map(json.loads, log.read_text().splitlines())
            events = [line for line in lines if line["event"] == "evaluation"]
            (event,) = (event for event in events if event["step"] == arm["points"][-1]["steps"])
            assert len(events) > 1 and event["images"] == SMALL["validation"]
            for key in ("hidden_nats", "whole_nats"):
                assert arm["held_out"][key]["values"][seed] == event[key]
        assert arm["held_out"]["hidden_nats"]["mean"] < arm["held_out"]["whole_nats"]["mean"]


def test_one_seed_has_no_standard_deviation() -> None:
    assert over_seeds([3.0]) == {"mean": 3.0, "std": None, "values": [3.0]}
    assert over_seeds([1.0, 2.0, 6.0]) == {"mean": 3.0, "std": pytest.approx(math.sqrt(7)), "values": [1.0, 2.0, 6.0]}


def test_conditions_compare_the_last_bounds_image_by_image(folder: Path, whole: dict[str, Any]) -> None:
    for condition, slug in zip(SMALL["conditions"], ("grey", "label-classes=10"), strict=True):
        found = whole["conditions"][condition]
        scratch = stored(folder, f"scratch-{slug}-seed-0", SMALL["scratch_condition_steps"][-1])["nats"].double()
        ipa = stored(folder, f"ipa-{slug}-seed-0", SMALL["condition_steps"][-1])["nats"].double()
        assert found["ipa_minus_scratch_nats"] == Estimate.of(ipa - scratch)._asdict()
        assert found["arms"]["ipa"][-1]["nats"] == Estimate.of(ipa)._asdict()
        (path,) = (folder / "runs").glob(f"information-{slug}-*/information.safetensors")
        values = load_file(path)
        assert found["information_nats"].keys() == values.keys()
        for name, nats in values.items():
            assert found["information_nats"][name]["mean"] == pytest.approx(float(np.mean(nats.double().numpy())))
