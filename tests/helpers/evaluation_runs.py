"""Small evaluations for tests: a random model, networks that take milliseconds, and faces at 32 x 32.
Also a script: `python evaluation_runs.py OUT [I/N]` is one process of such an evaluation, alone or under torchrun.
"""

import functools
import sys
from pathlib import Path
from typing import Any

import torch
from helpers.fixtures import FIXTURES
from helpers.lpips_networks import random_lpips
from helpers.models import randomise
from helpers.resumed_runs import one_process, without_clock
from torch import Tensor, nn

from condvae import VDVAE, ConditionalVAE, PartialConfig, preset
from condvae.data import Dataset, open_data
from condvae.experiments.evaluation import (
    EvaluationSettings,
    FeatureNetworks,
    Method,
    Subject,
    UnitSizes,
    baselines,
    experiment,
    figures,
    methods_of,
    subject_of,
)
from condvae.runtime.messages import silent
from condvae.vdvae import Stage

FACES = FIXTURES / "faces32.zip"
SMALL = EvaluationSettings(images=8, deep_images=4, n=4, bits_images=6)
DEEP_ONLY = EvaluationSettings(images=4, deep_images=2, n=2, metrics=("lpips", "coverage"))
UNIT_SIZES = UnitSizes(wide=4, deep=2)


class SmallInception(nn.Module):
    """A random network in place of Inception, with 16 features."""

    def __init__(self, seed: int = 0) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(16, 3, 4, 4, generator=torch.Generator().manual_seed(seed)))

    @property
    def device(self) -> torch.device:
        return self.weight.device

    @torch.no_grad()
    def features(self, images: Tensor) -> Tensor:
        x = images.float().expand(-1, 3, -1, -1) / 255
        return nn.functional.conv2d(x, self.weight, stride=4).relu().mean(dim=(2, 3))


@functools.cache
def small_networks() -> FeatureNetworks:
    return FeatureNetworks(lpips=random_lpips(), inception=SmallInception())


def small_model(seed: int = 0) -> ConditionalVAE:
    torch.manual_seed(seed)
    table = ((32, 8, 4, 0), (8, 16, 8, 1), (1, 16, 8, 1))  # two latent groups
    stages = tuple(
        Stage(resolution=r, width=width, inner=inner, encoder_blocks=1, decoder_blocks=1, latent_blocks=latent)
        for r, width, inner, latent in table
    )
    model = ConditionalVAE(VDVAE(preset("demo32", stages=stages)), PartialConfig(channels=4))
    randomise(model, seed, scale=0.02)
    return model.eval()


def small_subject() -> Subject:
    record = {"minutes": 3.5, "device": "abacus", "artifact": {"minutes": 10}}
    return subject_of(small_model(), "small", record=record)


def small_methods(subject: Subject, data: Dataset, *, k: int = SMALL.n) -> list[Method]:
    ours = methods_of(subject, ["1", "8:0.5"], ["mean"], k=k)
    return [*ours, *baselines(["mean", "random", "nearest", "harmonic"], data)]


def numbers(result: dict[str, Any] | None) -> dict[str, Any]:
    """All measured values, without times."""
    return without_clock(result, "methods", "models")


def small_evaluation(data: Dataset, subject: Subject, out: Path, **options: Any) -> dict[str, Any] | None:
    """Evaluate all methods, or those in the options, and the bounds of the model."""
    given: dict[str, Any] = {
        "settings": SMALL,
        "networks": small_networks(),
        "unit_sizes": UNIT_SIZES,
        "models": [subject],
        "methods": small_methods(subject, data),
        **options,
    }
    return experiment(data=data, out=out, **given)


def deep_only(data: Dataset, out: Path, **options: Any) -> dict[str, Any] | None:
    """The fastest evaluation: only baselines, and only metrics of many completions per image."""
    given: dict[str, Any] = {"settings": DEEP_ONLY, "networks": small_networks(), "unit_sizes": UNIT_SIZES}
    given |= {"say": silent, **options}
    methods = given.pop("methods", None) or baselines(["mean", "random", "nearest"], data)
    return experiment(methods, data, out, **given)


def units_in(out: Path) -> list[Path]:
    """The result files of units of work, without those of final numbers."""
    return [path for path in (out / "parts").rglob("*.safetensors") if path.stem != "final"]


if __name__ == "__main__":
    faces, small = open_data(FACES), small_subject()
    few = small_methods(small, faces)[1:4]  # methods with and without random completions
    one_process(functools.partial(small_evaluation, faces, small, methods=few), figures, sys.argv[1:])
