r"""Draw contact sheets of a conditional model, with test images of different people or classes.

A model that completes holes gets four sheets: freeform holes of all five sizes, a box over the eyes or the mouth, a
half hidden, and a few images without any known pixel. Another model, such as one that is given edges, gets one sheet,
and a second one of drawings if some are given.

To count something by eye, such as eyes that do not match, write numbered pages of 6 people each:

    python recipes/sheets.py --data faces64-c.zip --names 'lfw-*_0001.*' --hide eyes sides --per-page 6 --out out/count

With --photos, further pages show photos of the test set, to find out how often those who count see a flaw in a photo.

The sheets in the README and in docs were made by

    python recipes/sheets.py --data faces64-c.zip --names 'lfw-*_0001.*' --images 6 --format webp \
        --out docs/results/faces64
    python recipes/sheets.py --model cifar10 --data cifar10 --images 5 --format webp --out out/cifar10
    python recipes/sheets.py --model shoes64 --data shoes64.zip bags64.zip --images 6 --format webp \
        --drawings tests/fixtures/drawings/*.png --out docs/results/edges
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from condvae import weights
from condvae.completion import complete, sheet_of
from condvae.completion.settings import CompletionSettings
from condvae.conditional import ConditionalVAE
from condvae.data import ImageSet, open_data
from condvae.faces import Framing
from condvae.images.model_sheets import conditional_sheet, visible
from condvae.observe import Observation, PictureProcess
from condvae.observe.batch import Batch
from condvae.runtime.pixels import to_uint8
from condvae.runtime.scripts import run_script
from condvae.sampling.sampler import Sampler
from condvae.vdvae.temperature import parse

sys.path.insert(0, str(Path(__file__).parents[1]))
from recipes.sheet_pages import chosen, write_pages
from recipes.sheet_regions import FRAMINGS, FramingName, Hidden, regions


@dataclass(frozen=True, kw_only=True)
class Options:
    """Draw contact sheets of a conditional model."""

    data: tuple[Path, ...]
    """Data sets with test images, such as faces64-c.zip."""
    model: str = "faces64"
    """A conditional model: a name or a file."""
    out: Path = Path("out/sheets")
    """Folder for the sheets: freeform, boxes, halves and nothing; or one with the name of the observation process."""
    images: int = 24
    """How many test images to use, spread evenly. Each has another label if there are enough labels."""
    names: tuple[str, ...] = ()
    """Patterns of file names, such as 'lfw-*_0001.*' 'utk-*'. Each gets an equal share of the images."""
    framing: FramingName = "faces64"
    """Where faces have their eyes and mouths: as in the packs faces64-*.zip or as in lfw64.zip."""
    hide: tuple[Hidden, ...] = ("freeform", "boxes", "halves", "nothing")
    """What to hide: a sheet for each."""
    per_page: int | None = None
    """Write pages of so many numbered rows, enlarged and without statistics, to count something by eye."""
    tile: int = 128
    """The size of an image on a numbered page, in pixels."""
    photos: bool = False
    """Also write numbered pages of test images without completions, n in a row. Needs --per-page."""
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
    if options.photos and options.per_page is None:
        raise ValueError("--photos needs --per-page, since photos are shown on numbered pages only")
    model = weights.load_conditional(options.model)
    config = model.artifact.config
    temperature = parse(options.temperature, config)
    test = open_data(options.data, size=config.image_size).test
    batch = test.take(chosen(test, options.images, options.names)).batch()
    options.out.mkdir(parents=True, exist_ok=True)
    shown = observations(model, batch, options.seed, FRAMINGS[options.framing], options.hide)
    for name, observation in shown.items():
        made = Sampler(model)(observation, options.n, seed=options.seed, temperature=temperature)
        sheet, seen = options.out / f"{name}.{options.format}", visible(observation, config)
        if options.per_page is None:
            conditional_sheet(Batch(x=batch.x[: len(made)]), seen, made).save(sheet, quality=80)
            print(f"wrote {sheet}")
            continue
        rows = [[*pair, *some] for *pair, some in zip(to_uint8(batch.x), to_uint8(seen), made, strict=False)]
        columns = ["original", "observed", *(f"{i + 1}" for i in range(options.n))]
        labels = [f"{i + 1}" for i in range(len(rows))]
        for page in write_pages(rows, columns, labels, sheet, per_page=options.per_page, tile=options.tile):
            print(f"wrote {page}")
    if options.photos:
        write_photos(test, options)
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


def write_photos(test: ImageSet, options: Options) -> None:
    """Write numbered pages with as many test images as there are completions on the pages of one kind of hole."""
    images = to_uint8(test.take(chosen(test, options.images * options.n, options.names)).batch().x)
    rows = [list(images[first : first + options.n]) for first in range(0, len(images), options.n)]
    columns, labels = [f"{i + 1}" for i in range(options.n)], [f"{i + 1}" for i in range(len(rows))]
    assert options.per_page is not None
    path = options.out / f"photos.{options.format}"
    for page in write_pages(rows, columns, labels, path, per_page=options.per_page, tile=options.tile):
        print(f"wrote {page}")


def observations(
    model: ConditionalVAE, batch: Batch, seed: int, framing: Framing, hide: Sequence[Hidden]
) -> dict[str, Observation]:
    """Return what the model sees of the images on each sheet, by the sheet's name. A sheet may have fewer images."""
    if isinstance(model.process, PictureProcess):
        pictures = model.process.pictures_of(batch)
        return {model.process.name: model.process.show(pictures, normalise=model.artifact.normalise)}
    known = regions(len(batch), batch.x.shape[-1], seed, framing)
    return {name: model.observe(batch.x[: len(known[name])], known[name]) for name in hide}


if __name__ == "__main__":
    run_script(main, Options, __doc__)
