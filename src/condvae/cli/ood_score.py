"""condvae ood score."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from condvae.cli import shared
from condvae.cli.shared import HoleOptions
from condvae.weights.model_names import DEFAULT_MODEL


@dataclass(frozen=True, kw_only=True)
class OODScore(HoleOptions):
    """Say how strange images are to a model: a line for each.

    The percentile says how many in a hundred held-out training images, with about as much known, are as strange or
    stranger: 1 or less is the strangest 1 %, where about one in a hundred ordinary images is too. Say what is hidden
    as for condvae complete; where nothing is said, and nothing is transparent, the whole image is judged.
    """

    images: shared.Images = ()
    model: shared.Model = DEFAULT_MODEL
    fit: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """What `condvae ood fit` wrote for this model; what lies beside the model if not given."""
    out: shared.OutFile = None
    """Write a report too: a name that ends in .json or .csv."""
    seed: shared.Seed = 0
    device: shared.Device = "auto"

    def run(self) -> None:
        hole = self.said()
        from condvae.ood.score_files import score_files
        from condvae.runtime.devices import resolve_device

        score_files(
            self.images,
            hole,
            model=self.model,
            fit=self.fit,
            seed=self.seed,
            device=str(resolve_device(self.device)),
            out=self.out,
            say=shared.say,
        )
        if self.out is not None:
            print(f"wrote {self.out}")
