"""The sub-verb that judges image files: ood score."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from condvae.cli.complete import box_of
from condvae.weights.embedded import DEFAULT_MODEL


@dataclass(frozen=True, kw_only=True)
class OODScore:
    """Say how strange images are to a model: a line for each.

    The percentile says how many in a hundred held-out training images, with about as much known, are as strange or
    stranger: 1 or less is the strangest 1 %, where about one in a hundred ordinary images is too. Say what is hidden
    as for condvae complete; where nothing is said, and nothing is transparent, the whole image is judged.
    """

    images: Annotated[tuple[Path, ...], tyro.conf.Positional] = ()
    """Image files, or folders of them; their middle square is resized to the model's size."""
    known: Annotated[Path | None, tyro.conf.arg(metavar="PICTURE")] = None
    """A picture of the image's size, or a folder of them with the images' names: white (128 and lighter) is known."""
    hole: Annotated[Path | None, tyro.conf.arg(metavar="PICTURE")] = None
    """Likewise, but white is hidden."""
    box: Annotated[str | None, tyro.conf.arg(metavar="X,Y,W,H")] = None
    """Hide this box, in pixels of the upright image."""
    half: Literal["left", "right", "top", "bottom"] | None = None
    """Hide this half of the middle square."""
    random: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """Hide at random what the model was trained on, by the seed."""
    model: Annotated[str, tyro.conf.arg(metavar="NAME|FILE")] = DEFAULT_MODEL
    """A model by name, file, run folder, or owner/name on the hub."""
    fit: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """What `condvae ood fit` wrote for this model; what lies beside the model if not given."""
    out: Annotated[Path | None, tyro.conf.arg(aliases=["-o"], metavar="REPORT")] = None
    """Write a report too: a name that ends in .json or .csv."""
    seed: int = 0
    """Decides what is drawn; what an image gets does not depend on the others."""
    device: Literal["cpu", "cuda"] = "cpu"
    """Where to compute."""

    def run(self) -> None:
        box = None if self.box is None else box_of(self.box)
        from condvae.images.holes import Hole
        from condvae.ood.score_files import score_files

        score_files(
            self.images,
            Hole(known=self.known, hole=self.hole, box=box, half=self.half, random=self.random),
            model=self.model,
            fit=self.fit,
            seed=self.seed,
            device=self.device,
            out=self.out,
            say=lambda line: print(line, flush=True),
        )
        if self.out is not None:
            print(f"wrote {self.out}")
