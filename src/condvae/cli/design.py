"""The verb `condvae design`. Each of its sub-verbs has its own file."""

from dataclasses import dataclass
from typing import Annotated

import tyro

from condvae.cli.design_experiment import DesignExperiment
from condvae.cli.design_scan import DesignScan
from condvae.cli.design_train import DesignTrain


@dataclass(frozen=True, kw_only=True)
class Design:
    """Choose the most informative location of an image to scan next (Bayesian experimental design)."""

    job: Annotated[
        Annotated[DesignScan, tyro.conf.subcommand("scan", prefix_name=False)]
        | Annotated[DesignTrain, tyro.conf.subcommand("train", prefix_name=False)]
        | Annotated[DesignExperiment, tyro.conf.subcommand("experiment", prefix_name=False)],
        tyro.conf.arg(name=""),
    ]

    def run(self) -> None:
        self.job.run()
