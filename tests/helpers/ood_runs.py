"""Small experiments for tests, with smooth images and untrained models.

Also a script: `python ood_runs.py OUT [I/N]` runs one process of such an experiment, alone or under torchrun.
"""

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from helpers.ood_models import observing, plain_data
from helpers.resumed_runs import one_process, without_clock

from condvae.conditional import ConditionalVAE
from condvae.data import Dataset
from condvae.experiments.ood import OODSettings, experiment, figures
from condvae.runtime.messages import silent

TESTS, OTHERS = 3, 2
SMALL = OODSettings(
    scores=("gradient", "parts-2", "likelihood-2"),
    baselines=("completed-ipa", "completed-nearest"),
    sets=("noise", "flip"),
    images=TESTS,
    fit_images=6,
    regret_images=2,
    resamples=40,
)


def small_models() -> dict[str, ConditionalVAE]:
    """Return two models with the same artifact."""
    ours, other = observing(), observing()
    with torch.no_grad():
        for parameter in other.partial.parameters():
            parameter.mul_(0.9)
    return {"ipa": ours, "other": other}


def digits() -> Dataset:
    """Return a data set of fewer, different smooth images."""
    return plain_data(train=0, validation=0, test=OTHERS, seed=7)


def small_experiment(out: Path, **options: Any) -> dict[str, Any] | None:
    """Run an experiment; the options replace its default inputs and settings."""
    settings = replace(options.pop("settings", SMALL), **options.pop("change", {}))
    given: dict[str, Any] = {
        "models": small_models(),
        "data": plain_data(),
        "foreign": {"digits": digits()},
        "block": 4,
        "say": silent,
        **options,
    }
    return experiment(out=out, settings=settings, **given)


def numbers(result: dict[str, Any] | None) -> dict[str, Any]:
    """Return a result without its times."""
    return without_clock(result, "readings")


if __name__ == "__main__":
    one_process(small_experiment, figures, sys.argv[1:])
