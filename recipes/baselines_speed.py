"""How fast the methods of the comparison draw completions, and how good they are if all have the same time for it."""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

import condvae
from condvae.completers import Completer
from condvae.completers.by_place import complete_at
from condvae.data import Dataset
from condvae.data.order import spread
from condvae.experiments.evaluation.plan import EvaluationSettings
from condvae.experiments.evaluation.problems import Problems
from condvae.metrics import HOLE_BINS
from recipes.baselines_pictures import problem_in

COMPLETIONS = 100
"""How many completions of an image the reference method draws."""
MOST = 400
"""No method draws more completions of an image than this."""
_HOLE = len(HOLE_BINS) // 2
"""The bin of the hidden share in which speed is measured. It changes no method's work, except that of RFR."""


def speed_of(completer: Completer, problems: Problems, device: torch.device, *, images: int = 50) -> dict[str, float]:
    """Measure how many different completions a method draws per second, `COMPLETIONS` of each image.

    A method that does not vary draws one completion of each of as many images. The first of four passes is not
    measured; of the others, the median is taken.
    """
    k = COMPLETIONS if completer.varies else 1
    count = images if completer.varies else images * COMPLETIONS
    positions = spread(len(problems), min(count, len(problems)))
    _, observation = problem_in(problems, _HOLE, positions, device)
    seconds = []
    for _ in range(4):
        _wait_for(device)
        begin = time.perf_counter()
        complete_at(completer, observation, k, seed=problems.seed, places=positions.tolist())
        _wait_for(device)
        seconds.append(time.perf_counter() - begin)
    taken = sorted(seconds[1:])[1]
    config = getattr(completer, "config", None)
    return {
        "completions_per_second": len(positions) * k / taken,
        "milliseconds": 1000 * taken / (len(positions) * k),
        "network_evaluations": float(getattr(config, "evaluations", 1)),
    }


def _wait_for(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def in_equal_time(speeds: Mapping[str, Mapping[str, float]], reference: str) -> dict[str, int]:
    """Return how many completions of an image each method draws in the time in which the reference draws 100."""
    own = speeds[reference]["completions_per_second"]
    return {
        name: min(MOST, max(1, round(COMPLETIONS * found["completions_per_second"] / own)))
        for name, found in speeds.items()
    }


def measure_in_equal_time(
    models: Mapping[str, Any],
    counts: Mapping[str, int],
    data: Dataset,
    out: Path,
    *,
    images: int,
    seed: int,
    device: str,
) -> dict[str, Any]:
    """Measure LPIPS-GT and coverage with the number of completions that each method draws in the same time.

    The result has, for each model, the number of completions (k) and, in the mixture of bins and in each bin, LPIPS-GT
    and the coverage.
    """
    found: dict[str, Any] = {}
    for name, model in models.items():
        settings = EvaluationSettings(
            images=images, deep_images=images, n=counts[name], seed=seed, metrics=("lpips", "coverage")
        )
        report = condvae.evaluate(
            None, data, against={name: model}, out=out / name, settings=settings, baselines=(), device=device
        )
        if report is None:
            continue
        (method,) = report["methods"].values()
        found[name] = {
            "k": counts[name],
            "lpips_gt": method["metrics"]["lpips_gt"],
            "coverage": {kind: method["coverage"][kind] for kind in ("white", "smooth")},
        }
    return found
