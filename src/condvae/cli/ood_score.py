"""The sub-verb `condvae ood score`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from condvae.cli import shared
from condvae.cli.help_text import explained
from condvae.cli.shared import HoleOptions
from condvae.weights.model_names import DEFAULT_MODEL


@explained()
@dataclass(frozen=True, kw_only=True)
class OODScore(HoleOptions):
    """Print how strange each image is to a model.

    The result is a percentile: the percentage of held-out images that are at least as strange. These were not used for
    training, and have about the same known share as the image. An image at 1 or less is called strange; this also
    happens to about one in a hundred ordinary images. Say which pixels are hidden with one of --known, --hole, --box,
    --half and --random, or make them transparent in the image. If no pixels are hidden, the whole image is scored.
    """

    images: shared.Images = ()
    model: shared.Model = DEFAULT_MODEL
    fit: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """The fit that `condvae ood fit` wrote for this model. If not given, the fit next to the model file is used."""
    out: shared.OutFile = None
    """Also write the results to this .json or .csv file. An existing file is replaced only if it is such a report."""
    seed: shared.Seed = 0
    white: shared.White = None
    device: shared.Device = "auto"
    quiet: shared.Quiet = False

    def run(self) -> None:
        hole = self.as_hole()
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
            white=self.white,
            say=shared.say,
            result=shared.result,
        )
        if self.out is not None:
            shared.say(f"wrote {self.out}")
