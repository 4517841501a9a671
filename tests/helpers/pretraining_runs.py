"""Small experiments on pretraining for tests. They really train, but a network of 8 x 8 pixels for a few steps.
Also a script: `python pretraining_runs.py OUT [I/N]` is one process of such an experiment.
"""

import atexit
import copy
import functools
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
import torch
from helpers.evaluation_runs import SmallInception
from helpers.models import small_vae
from helpers.resumed_runs import one_process
from PIL import Image
from torch import Tensor, nn

from condvae import weights
from condvae.experiments.pretraining import PretrainingSettings, experiment, figures, measure
from condvae.experiments.pretraining.summary import over_seeds
from condvae.likelihood import GaussianPixels
from condvae.metrics import LPIPS
from condvae.metrics.feature_networks import FeatureNetworks
from condvae.runtime.messages import silent
from condvae.runtime.ranks import World
from condvae.training.presets import PRETRAIN_PRESETS, TRAIN_PRESETS
from condvae.vdvae import Normalisation, preset, presets

ALONE = World(0, 1, torch.device("cpu"))
SIZE, TRAIN, TEST = 8, 24, 17
MINUTES = {"ipa": 7.5, "transfer": 3.25}
"""How long the training of each artifact took, according to its record."""
_STAGES = [(SIZE, 8, 4, 1, 1), (4, 8, 4, 1, 1)]
_NETWORK = {"scales": "softplus", "likelihood": GaussianPixels(noise_floor=0.1), "latent_channels": 4}
_OPTIONS = {"lr": 1e-2, "batch": 4, "warm_up": 1, "ema": 0.5, "schedule": "cosine"}
SMALL: dict[str, Any] = {
    "preset": "tiny",
    "seeds": 2,
    "steps": (2, 4),
    "scratch_steps": (1, 3),
    "conditions": ("grey", "label,classes=10"),
    "condition_steps": (1, 2),
    "scratch_condition_steps": (2,),
    "pace_steps": 4,
    "validation": 4,
    "images": 12,
    "deep_images": 5,
    "n": 3,
    "bound_images": 10,
}


class PixelDistance(LPIPS):
    """The squared distance of pixels in place of LPIPS, which needs larger images."""

    def __init__(self) -> None:
        nn.Module.__init__(self)
        self.trunk = "alex"
        self.register_buffer("shift", torch.zeros(1))

    def features(self, images: Tensor) -> Tensor:
        return (images / 127.5 - 1 if images.dtype == torch.uint8 else images).flatten(1)

    def position_weights(self, height: int, width: int) -> Tensor:
        return torch.ones(3 * height * width)


@contextmanager
def small_presets() -> Iterator[None]:
    """Let the preset tiny be the smallest possible network, and draw no contact sheets of trainings.

    Images are measured in batches of 5, so that there are several.
    """
    with (
        mock.patch.dict(measure._IMAGES_AT_ONCE, cpu=5),
        mock.patch.dict(presets._TABLES, tiny=_STAGES),
        mock.patch.dict(presets._OURS_BY_NAME, tiny=_NETWORK),
        mock.patch.dict(PRETRAIN_PRESETS, tiny={**_OPTIONS, "network": "tiny"}),
        mock.patch.dict(TRAIN_PRESETS, tiny={**_OPTIONS, "form": "relative", "observe": ("halves",)}),
        mock.patch("condvae.training.training_run._sheet", return_value=Image.new("RGB", (8, 8))),
    ):
        yield


def small_networks() -> FeatureNetworks:
    return FeatureNetworks(lpips=PixelDistance(), inception=SmallInception())


def small_data(folder: Path, *, train: int = TRAIN, test: int = TEST, size: int = SIZE, labelled: bool = True) -> Path:
    """Write a data set of noise with ten classes."""
    folder.mkdir()
    for split, count in (("train", train), ("test", test)):
        rng = np.random.default_rng(count)
        arrays: dict[str, Any] = {"images": rng.integers(0, 256, (count, size, size, 3), dtype=np.uint8)}
        if labelled:
            arrays["labels"] = np.arange(count) % 10
        np.savez(folder / f"{split}.npz", **arrays)
    return folder


def artifact(path: Path, *, seed: int = 0, minutes: float | None = 1.0, **changes: Any) -> Path:
    """Write a random VAE with the network tiny, and a training record. changes: other values of its configuration."""
    record = {"data": "noise", "steps": 9, "device": "cpu", "secret": 1}
    vae = small_vae(preset("tiny", **changes), seed=seed)
    weights.save(vae, path, record=record if minutes is None else {**record, "minutes": minutes})
    return path


class Inputs(NamedTuple):
    data: Path
    artifacts: dict[str, Path]


@functools.cache
def inputs() -> Inputs:
    """The data and both artifacts, which differ in their weights and in their normalisation."""
    folder = Path(tempfile.mkdtemp(prefix="condvae-tests-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    artifacts = {}
    with small_presets():
        for seed, (name, minutes) in enumerate(MINUTES.items()):
            normalisation = Normalisation(shift=-120.0 - seed, scale=1 / 70)
            path = folder / f"{name}.safetensors"
            artifacts[name] = artifact(path, seed=seed, minutes=minutes, normalisation=normalisation)
    return Inputs(small_data(folder / "noise"), artifacts)


def small_settings(**changes: Any) -> PretrainingSettings:
    return replace(PretrainingSettings(**SMALL), **changes)


def small_experiment(out: Path, **options: Any) -> dict[str, Any] | None:
    """Run an experiment; the options replace its default inputs. change: other values of its settings."""
    given: dict[str, Any] = {
        "artifacts": inputs().artifacts,
        "data": inputs().data,
        "networks": small_networks(),
        "world": ALONE,
        "say": silent,
        "settings": small_settings(**options.pop("change", {})),
        **options,
    }
    return experiment(out=out, **given)


def numbers(result: dict[str, Any] | None) -> dict[str, Any]:
    """A result without its times."""
    assert result is not None
    found = copy.deepcopy(result)
    curves = []
    for arm in found["arms"].values():
        del arm["seconds_per_step"]
        curves.append(arm["points"])
    for condition in found["conditions"].values():
        curves.extend(condition["arms"].values())
    for point in (point for curve in curves for point in curve):
        del point["minutes"], point["total_minutes"]
    return found


def first_seed(value: Any) -> Any:
    """A part of a result as if the experiment had only the seed 0."""
    if isinstance(value, dict):
        if "values" in value:
            return over_seeds(value["values"][:1])
        return {name: first_seed(found) for name, found in value.items()}
    return [first_seed(found) for found in value] if isinstance(value, list) else value


if __name__ == "__main__":
    with small_presets():
        one_process(small_experiment, figures, sys.argv[1:])
