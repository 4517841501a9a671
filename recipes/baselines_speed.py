"""How fast the methods of the comparison draw completions, and how good they are if all have the same time for it."""

import time
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from condvae.completers import Completer
from condvae.completers.by_place import complete_at
from condvae.data.order import spread
from condvae.experiments.evaluation.plan import PROJECTIONS
from condvae.experiments.evaluation.problems import Problems
from condvae.metrics import HOLE_BINS, LPIPS
from condvae.metrics.coverage import projection_ranks
from condvae.metrics.estimate import Estimate
from condvae.metrics.samples import sample_distances
from recipes.baselines_pictures import problem_in

COMPLETIONS = 100
"""How many completions of an image the reference method draws."""
MOST = 400
"""No method draws more completions of an image than this."""
_COMPLETIONS_AT_ONCE = 20_000
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
    return {name: max(1, round(COMPLETIONS * found["completions_per_second"] / own)) for name, found in speeds.items()}


@torch.inference_mode()
def of_completions(
    completer: Completer, k: int, problems: Problems, lpips: LPIPS, device: torch.device, *, images: int
) -> dict[str, Any]:
    """Measure k completions of test images: LPIPS-GT, and how often the original lies in the range of completions.

    The range is that of random projections, white and smooth, as for coverage. If completions are calibrated, the
    original lies in the range of k of them with the probability (k - 1) / (k + 1). All numbers are for the mixture of
    bins, with standard errors over images.
    """
    k = min(k, MOST)
    positions = spread(len(problems), images)
    found: dict[str, list[Tensor]] = {"lpips_gt": [], "white": [], "smooth": []}
    for hole in range(len(HOLE_BINS)):
        parts: dict[str, list[Tensor]] = {name: [] for name in found}
        for some in np.array_split(positions, -(-len(positions) * k // _COMPLETIONS_AT_ONCE)):
            truth, observation = problem_in(problems, hole, some, device)
            assert observation.known is not None
            made = complete_at(completer, observation, k, seed=problems.seed, places=some.tolist())
            parts["lpips_gt"].append(sample_distances(lpips, truth, made).closest())
            for kind in ("white", "smooth"):
                first = int(some[0])
                ranks = projection_ranks(
                    truth, made, ~observation.known, projections=PROJECTIONS, seed=problems.seed, first=first, kind=kind
                )
                inside = (ranks > 1 / (k + 1)) & (ranks < k / (k + 1))
                parts[kind].append(inside.float().mean(dim=1))
        for name, one in parts.items():
            found[name].append(torch.cat(one))
    # All bins have the same images, so that their errors are not independent.
    means = {name: Estimate.of(torch.stack(one).mean(dim=0)) for name, one in found.items()}
    cells = {name: {"mean": one.mean, "standard_error": one.standard_error} for name, one in means.items()}
    return {"k": k, "calibrated": (k - 1) / (k + 1), **cells}
