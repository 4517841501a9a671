"""condvae ood: a sub-verb for each of its jobs."""

from dataclasses import dataclass
from typing import Annotated

import tyro

from condvae.cli.ood_experiment import OODExperiment
from condvae.cli.ood_fit import OODFit
from condvae.cli.ood_score import OODScore


@dataclass(frozen=True, kw_only=True)
class OOD:
    """Say how strange images are to a model, partly hidden or whole (out-of-distribution detection).

    score judges image files, fit prepares a model for it, experiment measures how well it can be done.
    """

    job: Annotated[
        Annotated[OODScore, tyro.conf.subcommand("score", prefix_name=False)]
        | Annotated[OODFit, tyro.conf.subcommand("fit", prefix_name=False)]
        | Annotated[OODExperiment, tyro.conf.subcommand("experiment", prefix_name=False)],
        tyro.conf.arg(name=""),
    ]

    def run(self) -> None:
        self.job.run()
