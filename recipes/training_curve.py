"""Measure LPIPS-GT against training time, from the snapshots of a partial encoder's run.

    python recipes/embedded.py cifar10 --data cifar10 --out cifar10 --snapshot-at 500 1000 2500 5000 11000
    python recipes/training_curve.py --run cifar10/partial --data cifar10 --out curve

At a snapshot, the learning rate has not yet decayed to its final value. So a run whose --minutes end there reaches a
better value than the curve shows.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from condvae import weights
from condvae.data import open_data
from condvae.experiments.evaluation.methods import Method, Subject, methods_of, subject_of
from condvae.experiments.evaluation.plan import MIXTURE, EvaluationSettings
from condvae.experiments.evaluation.run import experiment
from condvae.metrics import LPIPS
from condvae.metrics.feature_networks import FeatureNetworks
from condvae.runtime.ranks import join
from condvae.runtime.scripts import run_script


@dataclass(frozen=True, kw_only=True)
class Options:
    """Measure LPIPS-GT of the snapshots and of the finished model of a run."""

    run: Path
    """Run folder of `condvae train --snapshot-at`."""
    data: Path
    """The data set of the run."""
    out: Path
    """Folder for curve.json, and for evaluation/ with all numbers of the evaluation."""
    images: int = 200
    """How many test images to use."""
    n: int = 100
    """How many completions to draw of each image."""
    seed: int = 0
    device: Literal["auto", "cpu", "cuda"] = "auto"
    lpips: Path | None = None
    """The file lpips_alex.safetensors. Default: the one that `condvae fetch metrics` downloaded."""


def main(options: Options) -> None:
    snapshots = sorted((options.run / "snapshots").glob("*.safetensors"))
    if not snapshots:
        raise ValueError(f"{options.run} has no snapshots: train with --snapshot-at")
    with join(options.device) as world:
        subjects: list[Subject] = []
        minutes: dict[str, float] = {}
        for file in (*snapshots, options.run / "model.safetensors"):
            record = weights.describe(file).record
            name = "finished" if file.stem == "model" else f"step {record['steps']}"
            subjects.append(subject_of(weights.load_conditional(file).to(world.device), name, record=record))
            minutes[name] = float(record["minutes"])
        methods: list[Method] = [m for subject in subjects for m in methods_of(subject, ["1"], ["mean"], k=options.n)]
        result = experiment(
            methods,
            open_data(options.data),
            options.out / "evaluation",
            settings=EvaluationSettings(
                images=options.images, deep_images=options.images, n=options.n, seed=options.seed, metrics=("lpips",)
            ),
            networks=FeatureNetworks(lpips=LPIPS.load(options.lpips).to(world.device)),
            data_name=options.data.name,
            world=world,
        )
    if result is not None:
        curve = as_curve(result, minutes)
        (options.out / "curve.json").write_text(json.dumps(curve, indent=1) + "\n")
        for row in curve["points"]:
            print(f"{row['minutes']:6.2f} min  LPIPS-GT {row['lpips_gt']:.4f} ±{row['standard_error']:.4f}")


def as_curve(result: dict[str, Any], minutes: dict[str, float]) -> dict[str, Any]:
    """Return the curve as plain data: the training minutes and the LPIPS-GT, in the mixture of bins, of every point."""
    points = []
    for name, spent in minutes.items():
        found = result["methods"][f"{name}, t 1"]["metrics"]["lpips_gt"][MIXTURE]
        points.append({"minutes": spent, "lpips_gt": found["mean"], "standard_error": found["standard_error"]})
    return {"settings": result["settings"], "device": result["device"], "points": points}


if __name__ == "__main__":
    run_script(main, Options, __doc__)
