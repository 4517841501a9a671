r"""Draw contact sheets of a conditional model, with test images of different people or classes.

A model that completes holes gets four sheets: freeform holes of all five sizes, a box over the eyes or the mouth, a
half hidden, and a few images without any known pixel. Another model, such as one that is given edges, gets one sheet,
and a second one of drawings if some are given.

The sheets in the README and in docs were made by

    python recipes/sheets.py --data lfw64.zip --images 6 --format webp --out docs/results/faces64
    python recipes/sheets.py --model cifar10 --data cifar10 --images 5 --format webp --out out/cifar10
    python recipes/sheets.py --model shoes64 --data shoes64.zip bags64.zip --images 6 --format webp \
        --drawings tests/fixtures/drawings/*.png --out docs/results/edges
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from condvae import weights
from condvae.completion import complete, sheet_of
from condvae.completion.settings import CompletionSettings
from condvae.conditional import ConditionalVAE
from condvae.data import open_data
from condvae.data.order import spread
from condvae.images.model_sheets import conditional_sheet, visible
from condvae.metrics import HOLE_BINS, known_in_bin
from condvae.observe import Observation, PictureProcess
from condvae.observe.batch import Batch
from condvae.runtime.scripts import run_script
from condvae.sampling.sampler import Sampler
from condvae.vdvae.temperature import parse

EYES, MOUTH = (10, 18, 44, 16), (18, 40, 28, 18)
"""Boxes (x, y, width, height) around the eyes and the mouth of an aligned face, in 1/64 of the image size."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """Draw contact sheets of a conditional model."""

    data: tuple[Path, ...]
    """Data sets with test images, such as lfw64.zip."""
    model: str = "faces64"
    """A conditional model: a name or a file."""
    out: Path = Path("out/sheets")
    """Folder for the sheets: freeform, boxes, halves and nothing; or one with the name of the observation process."""
    images: int = 24
    """How many test images to use. Each has another label, and the labels are spread evenly over all labels."""
    drawings: tuple[Path, ...] = ()
    """Drawings for a model that is given edges."""
    format: Literal["png", "webp"] = "png"
    """File format of the sheets."""
    n: int = 8
    """How many completions to draw of each image."""
    temperature: str = str(CompletionSettings.temperature)
    """One temperature, or one per resolution of the latents, such as 16:0.8,32:0.7."""
    seed: int = 0


def main(options: Options) -> None:
    model = weights.load_conditional(options.model)
    temperature = parse(options.temperature, model.artifact.config)
    size = model.artifact.config.image_size
    test = open_data(options.data, size=size).test
    first_of_each = np.arange(len(test)) if test.labels is None else np.unique(test.labels[test.rows], True)[1]
    batch = test.take(np.sort(first_of_each)[spread(len(first_of_each), options.images)]).batch()
    options.out.mkdir(parents=True, exist_ok=True)
    for name, observation in observations(model, batch, options.seed).items():
        made = Sampler(model)(observation, options.n, seed=options.seed, temperature=temperature)
        sheet = options.out / f"{name}.{options.format}"
        conditional_sheet(Batch(x=batch.x[: len(made)]), visible(observation, model.artifact.config), made).save(
            sheet, quality=80
        )
        print(f"wrote {sheet}")
    if options.drawings:
        answered = complete(
            list(options.drawings),
            model=model,
            n=options.n,
            seed=options.seed,
            temperature=temperature,
            judge=False,
            image_is="drawing",
        )
        sheet = options.out / f"drawings.{options.format}"
        sheet_of(answered).save(sheet, quality=80)
        print(f"wrote {sheet}")


def observations(model: ConditionalVAE, batch: Batch, seed: int) -> dict[str, Observation]:
    """Return what the model sees of the images on each sheet, by the sheet's name. A sheet may have fewer images."""
    if isinstance(model.process, PictureProcess):
        pictures = model.process.pictures_of(batch)
        return {model.process.name: model.process.show(pictures, normalise=model.artifact.normalise)}
    known = regions(len(batch), batch.x.shape[-1], seed)
    return {name: model.observe(batch.x[: len(region)], region) for name, region in known.items()}


def regions(n: int, size: int, seed: int) -> dict[str, Tensor]:
    """Return the known pixels of the images on each sheet, by the sheet's name: [n, 1, size, size] bool, True where
    known.

    Successive images of a sheet have different holes: freeform holes of five sizes, a box over the eyes or the mouth,
    or one of four halves.
    """
    freeform = torch.cat([known_in_bin(HOLE_BINS[i % 5], n, size, seed=seed)[i : i + 1] for i in range(n)])
    boxes, halves = torch.ones(2, n, 1, size, size, dtype=torch.bool)
    for i in range(n):
        x, y, width, height = (part * size // 64 for part in (EYES, MOUTH)[i % 2])
        boxes[i, :, y : y + height, x : x + width] = False
        side = halves[i] if i % 4 < 2 else halves[i].mT
        side[..., slice(size // 2, size) if i % 2 else slice(0, size // 2)] = False
    return {"freeform": freeform, "boxes": boxes, "halves": halves, "nothing": torch.zeros_like(boxes[:4])}


if __name__ == "__main__":
    run_script(main, Options, __doc__)
