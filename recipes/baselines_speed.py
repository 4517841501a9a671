r"""Measure how fast the methods of the comparison draw completions, and how good their completions are if all methods
have the same time for them.

    python recipes/baselines.py --data cifar10 --out out/baselines --minutes 4
    python recipes/baselines_speed.py --data cifar10 --out out/baselines

The numbers are in out/baselines/speed.json. Speed does not depend on training: a method that has no finished model in
the folder is measured with random weights. IPA has the network of the embedded model, which is measured in its place.
Quality in equal time is measured for trained models only.
"""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from condvae import weights
from condvae.completers import Completer
from condvae.completers.by_place import complete_at
from condvae.completers.learned_baselines import make_completer, named_config
from condvae.data import Dataset, open_data
from condvae.data.order import spread
from condvae.experiments.evaluation.methods import check_fit
from condvae.experiments.evaluation.plan import PROJECTIONS, EvaluationSettings
from condvae.experiments.evaluation.problems import Problems
from condvae.experiments.named_completers import CompleterLike, open_completers
from condvae.metrics import HOLE_BINS, LPIPS
from condvae.metrics.coverage import projection_ranks
from condvae.metrics.estimate import Estimate
from condvae.metrics.samples import sample_distances
from condvae.runtime.atomic import write_text
from condvae.runtime.checks import check_whole
from condvae.runtime.devices import resolve_device, time_at
from condvae.runtime.scripts import run_script
from condvae.runtime.versions import device_name

sys.path.insert(0, str(Path(__file__).parents[1]))
from recipes.baselines import EMBEDDED
from recipes.baselines_pictures import problem_in
from recipes.baselines_training import BASELINES, IPA, LONG, model_of, models_of
from recipes.evaluation_results import estimate
from recipes.pages import DIGITS, compact, markdown, rounded

FORMAT = "condvae baselines speed"
COMPLETIONS = 100
"""How many completions of an image the reference method draws."""
MOST = 400
"""No method draws more completions of an image than this."""
SPEED_IMAGES = 50
"""How many images are completed to measure speed."""
_COMPLETIONS_AT_ONCE = 20_000
_HOLE = len(HOLE_BINS) // 2
"""The bin of the hidden share in which speed is measured. It changes no method's work, except that of RFR."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """Measure the speed of all methods, and the quality in equal time of those that are trained."""

    data: tuple[Path, ...]
    """Data with test images of 32 x 32 pixels."""
    out: Path
    """Folder of recipes/baselines.py with the run folders of trained methods. speed.json is written into it."""
    model: str = EMBEDDED
    """An embedded model, or another finished conditional model. Its time for 100 completions is the time of all."""
    images: int = 200
    """How many test images are completed for the quality in equal time."""
    device: str = "auto"
    """Where to compute. auto uses a GPU if there is one."""
    seed: int = 0


def main(options: Options) -> None:
    check_whole(options.images, "--images", least=2)
    device, data = resolve_device(options.device), open_data(options.data)
    images = max(options.images, SPEED_IMAGES * COMPLETIONS)
    problems = Problems.choose(data, EvaluationSettings(images=images, deep_images=2, seed=options.seed))
    check_fit(weights.load_conditional(options.model), options.model, problems)
    lpips = LPIPS.load(trunk="alex").to(device)
    finished = weights.title_of(options.model, weights.locate(options.model))
    given, trained = completers_in(options.out, data)
    if not trained:
        raise ValueError(f"{options.out} has no trained method: give the --out folder of recipes/baselines.py")
    completers = open_completers(
        {**given, finished: options.model}, size=data.test.size, channels=data.test.channels, device=device
    )
    trained.add(finished)
    timed = [name for name in completers if name not in LONG.values()]
    speeds = {name: {**speed_of(completers[name], problems, device), "trained": name in trained} for name in timed}
    for name, longer in LONG.items():  # the same network
        speeds |= {longer: {**speeds[name], "trained": True}} if longer in trained else {}
    equal = {
        name: of_completions(completers[name], k, problems, lpips, device, images=options.images)
        for name, k in in_equal_time(speeds, finished).items()
        if speeds[name]["trained"] and completers[name].varies
    }
    result = {
        "format": FORMAT,
        "device": device_name(device),
        "methods": speeds,
        "equal_time": {"images": min(options.images, len(problems)), "reference": finished, "methods": equal},
    }
    write_text(options.out / "speed.json", compact(rounded(result, DIGITS)) + "\n")
    print(f"wrote {options.out / 'speed.json'}")


def completers_in(out: Path, data: Dataset) -> tuple[dict[str, CompleterLike], set[str]]:
    """Return all methods by name, and the names of those that are trained. The others have random weights."""
    found: dict[str, CompleterLike] = {}
    for name in models_of((IPA, *BASELINES)):
        if (path := model_of(name, out)).is_file():
            found[name] = path
    trained = set(found)
    for name in BASELINES:
        if name not in found:
            config = named_config(name, image_size=data.test.size, channels=data.test.channels)
            found[name] = make_completer(config)
    return found, trained


def speed_of(
    completer: Completer, problems: Problems, device: torch.device, *, images: int | None = None
) -> dict[str, Any]:
    """Measure how many different completions a method draws per second, `COMPLETIONS` of each image.

    A method that does not vary draws one completion of each of as many images. The first of four passes is not
    measured; of the others, the median is taken. images: `SPEED_IMAGES` if not given.
    """
    images = SPEED_IMAGES if images is None else images
    k = COMPLETIONS if completer.varies else 1
    count = images if completer.varies else images * COMPLETIONS
    positions = spread(len(problems), min(count, len(problems)))
    _, observation = problem_in(problems, _HOLE, positions, device)
    seconds = []
    for _ in range(4):
        begin = time_at(device)
        complete_at(completer, observation, k, seed=problems.seed, places=positions.tolist())
        seconds.append(time_at(device) - begin)
    taken = sorted(seconds[1:])[1]
    config = getattr(completer, "config", None)
    return {
        "completions_per_second": len(positions) * k / taken,
        "milliseconds": 1000 * taken / (len(positions) * k),
        "network_evaluations": float(getattr(config, "evaluations", 1)),
    }


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
        for rows in np.array_split(np.arange(len(positions)), -(-len(positions) * k // _COMPLETIONS_AT_ONCE)):
            some = positions[rows]
            truth, observation = problem_in(problems, hole, some, device)
            assert observation.known is not None
            made = complete_at(completer, observation, k, seed=problems.seed, places=some.tolist())
            parts["lpips_gt"].append(sample_distances(lpips, truth, made).closest())
            for kind in ("white", "smooth"):
                first = int(rows[0])  # so that the projections of an image do not depend on k
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


def speed_table(result: Mapping[str, Any], titles: Mapping[str, str]) -> str:
    """Return a table of how fast the methods draw completions. titles: the names on the page, by model."""
    speeds = result["methods"]
    reference = speeds[result["equal_time"]["reference"]]["milliseconds"]
    rows = []
    for name, title in titles.items():
        if (found := speeds.get(name)) is None:
            continue
        rows.append(
            [
                title,
                f"{found['completions_per_second']:,.0f}",
                f"{found['milliseconds']:.3f}",
                f"{found['milliseconds'] / reference:.2f}",
                f"{found['network_evaluations']:.0f}",
            ]
        )
    head = ["", "completions/s", "milliseconds per completion", "times the time of IPA"]
    return markdown([*head, "evaluations of the network"], rows)


def equal_time_table(result: Mapping[str, Any], titles: Mapping[str, str]) -> str:
    """Return a table of the quality of completions that all methods draw in the same time."""
    rows = []
    for name, title in titles.items():
        found = result["equal_time"]["methods"].get(name)
        if found is None:  # a method with one completion
            continue
        inside = ", ".join(f"{100 * found[kind]['mean']:.1f} %" for kind in ("white", "smooth"))
        k = f"{found['k']} (the limit)" if found["k"] == MOST else str(found["k"])
        rows.append([title, k, estimate(found["lpips_gt"], 4), inside, f"{100 * found['calibrated']:.1f} %"])
    head = ["", f"completions in the time of {COMPLETIONS} by IPA", "LPIPS-GT ↓"]
    return markdown([*head, "original in their range, white, smooth", "the same, if calibrated"], rows)


if __name__ == "__main__":
    run_script(main, Options, __doc__)
