"""Small experiments for tests, in which findings are bright patches at known locations.

As a script, `python design_runs.py OUT [I/N]` is one process of such an experiment, alone or under torchrun.
"""

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from helpers.models import SMALLEST, small_conditional
from helpers.resumed_runs import one_process, without_clock
from torch import Tensor, nn

from condvae.data import Dataset, ImageSet
from condvae.experiments.design import DesignSettings, experiment, figures
from condvae.runtime.messages import silent

FINDINGS = ("Edema", "Effusion", "Infiltration", "Atelectasis")
CORNERS = ((0, 0), (0, 6), (6, 0), (6, 6))
"""Upper left corners of the 2 x 2 patches that show the findings."""
SIZE, TESTS, TRAININGS = 8, 24, 40
SMALL = DesignSettings(
    tasks=("edema", "effusion", "no finding"),
    policies=("eig-ipa", "epe-ipa", "eig-nearest", "random", "uncond", "non-greedy", "full"),
    steps=3,
    n=3,
    first_n=8,
    points=4,
    repeats=2,
    resamples=60,
)


class PatchClassifier(nn.Module):
    """Predicts a finding from the known brightness of its patch; without known pixels, a constant."""

    def __init__(self, names: Sequence[str] = (*FINDINGS, "any finding"), *, sharpness: float = 1.0) -> None:
        super().__init__()
        self.names, self.outcomes = tuple(names), 2
        templates = torch.zeros(len(FINDINGS), SIZE, SIZE)
        for template, (row, column) in zip(templates, CORNERS, strict=True):
            template[row : row + 2, column : column + 2] = sharpness
        self.register_buffer("templates", torch.cat((templates, templates.sum(dim=0, keepdim=True)))[: len(names)])

    def log_posterior(self, pixels: Tensor, known: Tensor) -> Tensor:
        assert isinstance(self.templates, Tensor)
        shown = torch.where(known, pixels, 0.0).mean(dim=1)
        logits = torch.einsum("bhw,vhw->bv", shown, self.templates) - 0.5
        return torch.stack((F.logsigmoid(-logits), F.logsigmoid(logits)), dim=2)


def small_data(*, without: Sequence[str] = ()) -> Dataset:
    """Data with two images per patient; no image has the findings in `without`."""
    dice = np.random.default_rng(0)
    count = TESTS + TRAININGS
    labels = (dice.random((count, len(FINDINGS))) < 0.4).astype(np.uint8)
    labels[:, [FINDINGS.index(name) for name in without]] = 0
    images = dice.integers(0, 100, (count, SIZE, SIZE, 3), dtype=np.uint8)
    for i, (row, column) in enumerate(CORNERS):
        images[labels[:, i] > 0, row : row + 2, column : column + 2] += 130
    both = ImageSet(images=images, labels=labels, groups=np.arange(count) // 2, rows=np.arange(count))
    return Dataset(
        kind="patches",
        train=both.subset(np.arange(TESTS, count)),
        validation=both.subset(np.arange(0)),
        test=both.subset(np.arange(TESTS)),
        label_names=FINDINGS,
        flips=False,
        skipped=(),
    )


def small_experiment(out: Path, **options: Any) -> dict[str, Any] | None:
    """Run a small experiment with all policies; options change its settings and arguments."""
    settings = replace(options.pop("settings", SMALL), **options.pop("change", {}))
    given: dict[str, Any] = {
        "model": small_conditional(SMALLEST).eval(),
        "classifier": PatchClassifier(),
        "data": small_data(),
        "block": 10,
        "say": silent,
        **options,
    }
    return experiment(out=out, settings=settings, **given)


def numbers(result: dict[str, Any] | None) -> dict[str, Any]:
    """The measured numbers of a report, without times."""
    return without_clock(result, "policies")


if __name__ == "__main__":
    one_process(small_experiment, figures, sys.argv[1:])
