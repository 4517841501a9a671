"""Small evaluations for tests: a random model, networks that take milliseconds, faces at 32 x 32. Also a script:
`python evaluation_runs.py OUT [I/N]` is one process of such an evaluation, alone or under torchrun.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from helpers.fixtures import FIXTURES
from helpers.lpips_networks import random_lpips
from helpers.models import randomise
from torch import Tensor, nn

from condvae import VDVAE, ConditionalVAE, PartialConfig, preset
from condvae.data import Dataset, open_data
from condvae.experiments.evaluation import (
    Blocks,
    EvaluationSettings,
    FeatureNetworks,
    Method,
    Subject,
    baselines,
    evaluate,
    figures,
    methods_of,
    subject_of,
)
from condvae.experiments.resumable_work import Shard
from condvae.runtime.messages import silent
from condvae.runtime.ranks import join

FACES = FIXTURES / "faces32.zip"
SMALL = EvaluationSettings(images=8, deep_images=4, k=4, bits_images=6)
BLOCKS = Blocks(wide=4, deep=2)


class SmallInception(nn.Module):
    """16 features of images: some that see, none that know."""

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


def small_networks() -> FeatureNetworks:
    return FeatureNetworks(lpips=random_lpips(), inception=SmallInception())


def small_model() -> ConditionalVAE:
    torch.manual_seed(0)
    model = ConditionalVAE(VDVAE(preset("demo32")), PartialConfig(channels=4))
    randomise(model, 0, scale=0.02)
    return model.eval()


def small_subject() -> Subject:
    record = {"minutes": 3.5, "device": "abacus", "artifact": {"minutes": 10}}
    return subject_of(small_model(), "small", record=record)


def small_methods(subject: Subject, data: Dataset, *, k: int = SMALL.k) -> list[Method]:
    ours = methods_of(subject, ["1", "8:0.5"], ["mean"], k=k)
    return [*ours, *baselines(["mean", "random", "nearest", "harmonic"], data)]


def numbers(result: dict[str, Any] | None) -> dict[str, Any]:
    """All that was measured, without what a clock put into it."""
    assert result is not None
    kept = {group: {} for group in ("methods", "models")}  # type: ignore[var-annotated]
    for group, found in kept.items():
        for name, about in result[group].items():
            found[name] = {key: value for key, value in about.items() if key != "seconds"}
    return kept


def small_evaluation(data: Dataset, subject: Subject, out: Path, **options: Any) -> dict[str, Any] | None:
    """Every method in every way."""
    given: dict[str, Any] = {"settings": SMALL, "networks": small_networks(), "blocks": BLOCKS, "models": [subject]}
    return evaluate(small_methods(subject, data), data, out, **given, **options)


def deep_only(data: Dataset, out: Path, **options: Any) -> dict[str, Any] | None:
    """The quickest of evaluations, that of the fillers."""
    settings = EvaluationSettings(images=8, deep_images=4, k=4, metrics=("lpips", "coverage"))
    given: dict[str, Any] = {"settings": settings, "networks": small_networks(), "blocks": BLOCKS, **options}
    methods = given.pop("methods", None) or baselines(["mean", "random", "nearest"], data)
    return evaluate(methods, data, out, say=silent, **given)


def units_in(out: Path) -> list[Path]:
    """Parts that are not final numbers."""
    return [path for path in (out / "parts").rglob("*.safetensors") if path.stem != "final"]


def main(arguments: Sequence[str]) -> None:
    """One process of the whole."""
    out, shard = Path(arguments[0]), Shard.parse(arguments[1]) if len(arguments) > 1 else None
    torch.set_num_threads(1)
    figures.draw = lambda result, folder: []  # they take longer than the rest
    with join("cpu") as world:
        small_evaluation(open_data(FACES), small_subject(), out, world=world, shard=shard)


if __name__ == "__main__":
    main(sys.argv[1:])
