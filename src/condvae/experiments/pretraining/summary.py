"""Compute the numbers of the report from the results of finished jobs: curves of each arm, and other conditions."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from condvae.experiments.pretraining.jobs import InformationJob, PretrainingJob, PretrainingJobs
from condvae.experiments.pretraining.plan import PretrainingSettings, metrics_for, targets_for
from condvae.experiments.pretraining.training_runs import Arm
from condvae.metrics import Estimate


def over_seeds(values: Sequence[float]) -> dict[str, Any]:
    """Return the mean of the values of several seeds, their standard deviation (None for one seed), and the values."""
    each = torch.tensor(values, dtype=torch.float64)
    std = float(each.std()) if len(values) > 1 else None
    return {"mean": float(each.mean()), "std": std, "values": list(values)}


_SCALES = {"fid": 1, "kid": 1000, "p_ids": 100}
"""The metrics that are stored with their standard errors, and their units in the report."""


def metrics_of(numbers: Mapping[str, Tensor], condition: str, dims: int) -> dict[str, float]:
    """Return the metrics of one snapshot of a main condition. dims: the number of dimensions of an image."""

    def one(name: str) -> float:
        if name == "bits_per_dim":
            return float(numbers["nats"].mean()) / (dims * math.log(2))
        values = numbers[name]
        return _SCALES[name] * float(values[0]) if name in _SCALES else float(values.mean())

    return {name: one(name) for name in metrics_for(condition)}


def arms_of(jobs: PretrainingJobs, arms: Sequence[Arm], condition: str, dims: int) -> dict[str, dict[str, Any]]:
    """Return the curve of each arm for the main condition: the metrics of every snapshot, over seeds."""

    def curve(arm: Arm) -> dict[str, Any]:
        return _arm(arm, _pace(jobs, arm, condition), _of(jobs.trainings, arm, condition), condition, dims)

    return {arm.name: curve(arm) for arm in arms}


def _pace(jobs: PretrainingJobs, arm: Arm, condition: str) -> float:
    """Return the seconds of a step. All arms with an artifact train the same weights, so they have the same pace."""
    (found,) = [
        job
        for job in jobs.pace
        if job.run.condition == condition and (job.run.arm.artifact is None) == (arm.artifact is None)
    ]
    return found.of_training("seconds_per_step")


def _of(jobs: Sequence[PretrainingJob], arm: Arm, condition: str) -> list[PretrainingJob]:
    return [job for job in jobs if job.run.arm == arm and job.run.condition == condition]


def _arm(arm: Arm, pace: float, jobs: Sequence[PretrainingJob], condition: str, dims: int) -> dict[str, Any]:
    points = []
    for step in jobs[0].run.steps:
        found = [metrics_of(job.numbers(step), condition, dims) for job in jobs]
        over = {name: over_seeds([one[name] for one in found]) for name in metrics_for(condition)}
        points.append({**_time(step, pace, arm), **over})
    return {
        "pretraining_minutes": arm.minutes,
        "pretraining": arm.pretraining,
        "seconds_per_step": pace,
        "points": points,
        "held_out": {
            target: over_seeds([job.of_training(target) for job in jobs]) for target in targets_for(condition)
        },
    }


def _time(step: int, pace: float, arm: Arm) -> dict[str, Any]:
    minutes = step * pace / 60
    return {"steps": step, "minutes": minutes, "total_minutes": minutes + arm.minutes}


def conditions_of(jobs: PretrainingJobs, arms: Sequence[Arm], dims: int) -> dict[str, dict[str, Any]]:
    """Return, for each other condition, the bounds of both arms, their last difference, and I*(x; y | z)."""
    found = {}
    for one in jobs.information:
        curves, last = {}, {}
        for arm in arms[:2]:
            (job,) = _of(jobs.trainings, arm, one.condition)
            points = []
            for step in job.run.steps:
                last[arm.name] = nats = job.numbers(step)["nats"].double()
                points.append({**_time(step, _pace(jobs, arm, one.condition), arm), "nats": _estimate(nats)})
            curves[arm.name] = points
        scratch, ipa = (last[arm.name] for arm in arms[:2])
        found[one.condition] = {
            "arms": curves,
            "ipa_minus_scratch_nats": _estimate(ipa - scratch),
            "information_nats": information_of(one),
        }
    return found


def information_of(job: InformationJob) -> dict[str, Any]:
    """Return I*(x; y | z) in nats per image: estimates of it, or an upper bound if y is a label."""
    return {
        name: {"mean": float(values)} if len(values) == 1 else _estimate(values)
        for name, values in job.numbers().items()
    }


def _estimate(values: Tensor) -> dict[str, Any]:
    return dict(Estimate.of(values)._asdict())


def settings_of(settings: PretrainingSettings) -> dict[str, Any]:
    return {name: list(value) if isinstance(value, tuple) else value for name, value in vars(settings).items()}
