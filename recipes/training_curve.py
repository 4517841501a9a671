"""What training time buys: LPIPS-GT of a partial encoder after so many minutes, from the checkpoints of its run.

    python recipes/embedded.py cifar10 --data cifar10 --out cifar10 --snapshots 500
    python recipes/training_curve.py --run cifar10/partial --data cifar10 --out curve

The weights measured are the averaged ones of each checkpoint, at a learning rate that has not yet decayed, so a run
planned for fewer minutes would do better than the curve says.
"""

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
import tyro

from condvae import weights
from condvae.conditional import ConditionalVAE
from condvae.data import open_data
from condvae.experiments.evaluation.methods import Method, Subject, methods_of, subject_of
from condvae.experiments.evaluation.plan import MIXTURE, EvaluationSettings
from condvae.experiments.evaluation.run import experiment
from condvae.metrics import LPIPS
from condvae.metrics.feature_networks import FeatureNetworks
from condvae.runtime.ranks import join
from condvae.training.checkpoint import Checkpoints


@dataclass(frozen=True, kw_only=True)
class Options:
    """Measure a run at several of its checkpoints."""

    run: Path
    """Run folder of `condvae train` with model.safetensors and checkpoints."""
    data: Path
    """The data of the run."""
    out: Path
    """Folder for curve.json, and evaluation/ with all numbers."""
    points: int = 7
    """Checkpoints to measure, evenly over the logarithm of time; and the finished model."""
    images: int = 200
    n: int = 100
    seed: int = 0
    device: Literal["auto", "cpu", "cuda"] = "auto"
    lpips: Path | None = None
    """lpips_alex.safetensors; the fetched one if not given."""


def main(options: Options) -> None:
    file = options.run / "model.safetensors"
    model = weights.load_conditional(str(file))
    checkpoints = Checkpoints(options.run / "checkpoints")
    paths = [checkpoints.path(step) for step in checkpoints.steps() if step]
    if not paths:
        raise ValueError(f"{options.run} has no checkpoints: train with --checkpoint-every and --keep")
    paths = paths[:-1] or paths  # the last is the finished model
    chosen = np.unique(np.geomspace(1, len(paths), options.points).round().astype(int)) - 1
    with join(options.device) as world:
        subjects: list[Subject] = []
        minutes: dict[str, float] = {}
        for number in chosen:
            position, tensors = Checkpoints.read(paths[number])
            subject = subject_of(at(model, tensors).to(world.device), f"step {position.step}")
            subjects.append(subject)
            minutes[subject.name] = position.elapsed / 60
        record = weights.describe(file).record
        subjects.append(subject_of(model.to(world.device), "finished", record=record))
        minutes["finished"] = max(*minutes.values(), float(record["minutes"]))  # a record rounds to hundredths
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


def at(model: ConditionalVAE, tensors: dict[str, torch.Tensor]) -> ConditionalVAE:
    """The model with a checkpoint's averaged weights."""
    prefix = "average/"
    average = {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}
    other = ConditionalVAE(model.artifact, model.partial_config, process=model.process)
    other.load_state_dict({**model.state_dict(), **average})
    return other.eval()


def as_curve(result: dict[str, Any], minutes: dict[str, float]) -> dict[str, Any]:
    """Minutes of the partial encoder's training, and LPIPS-GT in the mixture of hole sizes."""
    points = []
    for name, spent in minutes.items():
        found = result["methods"][f"{name}, t 1"]["metrics"]["lpips_gt"][MIXTURE]
        points.append({"minutes": spent, "lpips_gt": found["mean"], "standard_error": found["standard_error"]})
    return {"settings": result["settings"], "device": result["device"], "points": points}


if __name__ == "__main__":
    try:
        main(tyro.cli(Options, description=__doc__))
    except (ValueError, OSError) as error:
        print(f"training_curve: {error}", file=sys.stderr)
        sys.exit(2)
