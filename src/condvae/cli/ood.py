"""The verb `condvae ood`. Each of its sub-verbs has its own file."""

from dataclasses import dataclass
from typing import Annotated

import tyro

from condvae.cli.ood_experiment import OODExperiment
from condvae.cli.ood_fit import OODFit
from condvae.cli.ood_score import OODScore


@dataclass(frozen=True, kw_only=True)
class OOD:
    """Measure how strange images are to a model, whole or partly hidden (out-of-distribution detection)."""

    job: Annotated[
        Annotated[OODScore, tyro.conf.subcommand("score", prefix_name=False)]
        | Annotated[OODFit, tyro.conf.subcommand("fit", prefix_name=False)]
        | Annotated[OODExperiment, tyro.conf.subcommand("experiment", prefix_name=False)],
        tyro.conf.arg(name=""),
    ]

    def run(self) -> None:
        self.job.run()
