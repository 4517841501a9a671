"""Results of experiments on pretraining with known answers: each metric is linear in the logarithm of time."""

import math
from collections.abc import Sequence
from typing import Any

from condvae.experiments.pretraining.report import REPORT
from condvae.experiments.pretraining.summary import over_seeds

Values = list[list[float]]
"""For each snapshot, the values of all trainings."""


def falling(minutes: Sequence[float], start: float, slope: float, between: float = 0.01) -> Values:
    """Return start - slope * log(minutes) for three trainings, which differ by `between`."""
    return [[start - slope * math.log(time) + k * between for k in (-1, 0, 1)] for time in minutes]


def arm_of(
    minutes: Sequence[float],
    bits: Values,
    fid: Values,
    pretraining: float = 0.0,
    hidden: Sequence[float] = (700.0, 600.0, 500.0),
) -> dict[str, Any]:
    points = [
        {
            "steps": round(1000 * time),
            "minutes": time,
            "total_minutes": time + pretraining,
            "bits_per_dim": over_seeds(bits[i]),
            "fid": over_seeds(fid[i]),
            "p_ids": over_seeds([1.0, 2.0, 3.0]),
            "lpips_gt": over_seeds([0.1, 0.1, 0.1]),
        }
        for i, time in enumerate(minutes)
    ]
    record = {"data": "npz: 7 training images", "steps": 1234, "images_seen": 99, "device": "cpu"}
    return {
        "pretraining_minutes": pretraining,
        "pretraining": record if pretraining else None,
        "seconds_per_step": 0.0064 if pretraining else 0.016,
        "points": points,
        "held_out": {"hidden_nats": over_seeds(hidden), "whole_nats": over_seeds([nats + 300 for nats in hidden])},
    }


def condition_of(ipa: float, scratch: float, error: float, **information: tuple[float, float]) -> dict[str, Any]:
    """Return the results for one condition. information: the mean and standard error of each estimate of I*."""

    def curve(nats: float) -> list[dict[str, Any]]:
        found = {"mean": nats, "standard_error": 30.0}
        return [{"steps": 9, "minutes": 0.75, "total_minutes": 0.75, "nats": found}]

    return {
        "arms": {"scratch": curve(scratch), "ipa": curve(ipa)},
        "ipa_minus_scratch_nats": {"mean": ipa - scratch, "standard_error": error},
        "information_nats": {
            name: {"mean": mean} if name == "most" else {"mean": mean, "standard_error": one}
            for name, (mean, one) in information.items()
        },
    }


def edges_result_of(arms: dict[str, Any]) -> dict[str, Any]:
    """Return a result for edges, of arms from `arm_of`, whose KID is a tenth of their FID."""
    for arm in arms.values():
        for point in arm["points"]:
            del point["p_ids"]
            point["kid"] = over_seeds([value / 10 for value in point["fid"]["values"]])
            point["diversity"] = over_seeds([0.2, 0.25, 0.3])
    settings = {"preset": "faces64", "batch": 64, "seeds": 3, "condition": "edges", "lr": 0.001, "validation": 200}
    settings |= {"images": 847, "bound_images": 500, "deep_images": 100, "n": 50}
    images = {"training": 7891, "test": 847}
    return {"format": REPORT.format, "images": images, "settings": settings, "arms": arms, "conditions": {}}


def result_of(arms: dict[str, Any], conditions: dict[str, Any] | None = None) -> dict[str, Any]:
    settings = {"preset": "cifar10-small", "batch": None, "seeds": 3}
    return {"format": REPORT.format, "settings": settings, "arms": arms, "conditions": conditions or {}}
