r"""Draw the completions of two models next to each other, for the same people: a row for each model.

Both models may have been trained on other framings of a face. The test images of LFW, for example, are in lfw64.zip as
test/NAME.jpg and in faces64-c.zip as test/lfw-NAME.webp. Both models get the same people, the same parts of a face
hidden in their own framing, the same freeform holes and the same seeds:

    python recipes/sheets_side_by_side.py --model old.safetensors --data lfw64.zip --framing lfw64 \
        --against faces64 --against-data faces64-c.zip --against-framing faces64 --out out/side_by_side

Or compare a model with itself at another temperature:

    python recipes/sheets_side_by_side.py --model faces64 --data faces64-c.zip --framing faces64 --labels t1 t0.7 \
        --against faces64 --against-data faces64-c.zip --against-temperature 0.7 --out out/temperatures

To count something by eye without knowing which model drew what, add --blind: the rows of both models are shuffled and
numbered, and key.json says which is which.
"""

import random
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
from torch import Tensor

from condvae import weights
from condvae.completion.settings import CompletionSettings
from condvae.conditional import ConditionalVAE
from condvae.data import ImageSet, open_data
from condvae.data.image_set import Indices
from condvae.data.order import spread
from condvae.experiments.evaluation.groups import matching
from condvae.faces import Framing
from condvae.images.model_sheets import visible
from condvae.runtime.atomic import write_text
from condvae.runtime.formats import json_text
from condvae.runtime.pixels import to_uint8
from condvae.runtime.scripts import run_script
from condvae.sampling.sampler import Sampler
from condvae.vdvae.temperature import TemperatureLike, parse

sys.path.insert(0, str(Path(__file__).parents[1]))
from recipes.sheet_pages import write_pages
from recipes.sheet_regions import FRAMINGS, FramingName, Hidden, regions


@dataclass(frozen=True, kw_only=True)
class Options:
    """Draw the completions of two models next to each other."""

    model: str
    """The first model: a name or a file."""
    data: tuple[Path, ...]
    """Its data, with the test images."""
    against: str
    """The second model."""
    against_data: tuple[Path, ...]
    """Its data, with test images of the same names. A prefix such as lfw- and the file extension may differ."""
    framing: FramingName = "lfw64"
    """Where the data of the first model has eyes and mouths."""
    against_framing: FramingName = "faces64"
    """Where the data of the second model has eyes and mouths."""
    labels: tuple[str, str] = ("old", "new")
    """Labels of the rows of both models."""
    prefix: str = "lfw-"
    """A prefix of file names that is ignored when images are paired."""
    names: str = "*_0001"
    """A pattern of the names that are used, without prefix and extension. This one gives each person of LFW once."""
    images: int = 24
    """How many people to draw, spread evenly over all that are in both data sets."""
    hide: tuple[Hidden, ...] = ("freeform", "eyes", "mouth", "halves")
    """What to hide: pages for each."""
    n: int = 8
    """How many completions to draw of each image."""
    temperature: str = str(CompletionSettings.temperature)
    """One temperature, or one per resolution of the latents, such as 16:0.8,32:0.7."""
    against_temperature: str | None = None
    """That of the second model. None: the same."""
    seed: int = 0
    out: Path = Path("out/side_by_side")
    """Folder for the pages, such as eyes-1.png."""
    format: Literal["png", "webp"] = "png"
    blind: bool = False
    """Number the rows of both models in random order, on pages page-1.png, page-2.png, ..., and write key.json."""
    per_page: int = 6
    """How many people are on a page."""
    tile: int = 128
    """The size of an image on a page, in pixels."""


class Side(NamedTuple):
    """One of the two models, with its test images."""

    model: ConditionalVAE
    test: ImageSet
    framing: Framing
    temperature: TemperatureLike

    @classmethod
    def open(cls, model: str, data: tuple[Path, ...], framing: FramingName, temperature: str) -> "Side":
        opened = weights.load_conditional(model)
        config = opened.artifact.config
        test = open_data(data, size=config.image_size).test
        return cls(opened, test, FRAMINGS[framing], parse(temperature, config))


class Row(NamedTuple):
    """The original, the observation and the completions of one person by one model."""

    label: str
    about: dict[str, str]
    """The model, what is hidden and the person."""
    tiles: list[Tensor]


def main(options: Options) -> None:
    temperature = options.temperature
    sides = (
        Side.open(options.model, options.data, options.framing, temperature),
        Side.open(
            options.against, options.against_data, options.against_framing, options.against_temperature or temperature
        ),
    )
    tests = [side.test for side in sides]
    people, positions = same_people(tests, prefix=options.prefix, names=options.names, count=options.images)
    options.out.mkdir(parents=True, exist_ok=True)
    drawn = [rows_of(side, where, options) for side, where in zip(sides, positions, strict=True)]
    sheets: dict[str, list[Row]] = {
        hidden: [
            Row(f"{i + 1} {label}", {"model": label, "hidden": hidden, "person": people[i]}, side[hidden][i])
            for i in range(len(drawn[0][hidden]))
            for label, side in zip(options.labels, drawn, strict=True)
        ]
        for hidden in options.hide
    }
    if options.blind:
        sheets = {"page": shuffled([row for rows in sheets.values() for row in rows], options.seed)}
        key = {row.label: row.about for row in sheets["page"]}
        write_text(options.out / "key.json", json_text(key))
    columns = ["original", "observed", *(f"{i + 1}" for i in range(options.n))]
    for name, rows in sheets.items():
        tiles, labels = [row.tiles for row in rows], [row.label for row in rows]
        path = options.out / f"{name}.{options.format}"
        for page in write_pages(tiles, columns, labels, path, per_page=2 * options.per_page, tile=options.tile):
            print(f"wrote {page}")
    print(f"people: {', '.join(f'{i + 1} {name}' for i, name in enumerate(people))}")


def shuffled(rows: Sequence[Row], seed: int) -> list[Row]:
    """Return the rows in random order, with their numbers as labels."""
    order = random.Random(seed).sample(range(len(rows)), len(rows))
    return [rows[old]._replace(label=f"{new + 1}") for new, old in enumerate(order)]


def same_people(sets: list[ImageSet], *, prefix: str, names: str, count: int) -> tuple[list[str], tuple[Indices, ...]]:
    """Choose people who are in all sets; return their names, and the positions of their images in each set."""
    found = [_by_name(one, prefix) for one in sets]
    common = sorted(set(found[0]).intersection(*found[1:]))
    chosen = [name for name, matches in zip(common, matching(names, common), strict=True) if matches]
    if not chosen:
        raise ValueError(
            f"no name that matches {names} is in all data sets, of {len(common):,} that are: check --names and --prefix"
        )
    people = [chosen[i] for i in spread(len(chosen), count)]
    return people, tuple(np.array([one[name] for name in people]) for one in found)


def _by_name(test: ImageSet, prefix: str) -> dict[str, int]:
    """Return the positions of the test images, by the names of their files without prefix and extension."""
    if test.names is None:
        raise ValueError("the test images have no names: give a folder or zip file of images")
    return {Path(name).stem.removeprefix(prefix): i for i, name in enumerate(test.names)}


def rows_of(side: Side, positions: Indices, options: Options) -> Mapping[Hidden, list[list[Tensor]]]:
    """Return the rows of one model by what is hidden: original, observation and completions of each person."""
    model, config = side.model, side.model.artifact.config
    x = side.test.take(positions).batch().x
    known = regions(len(x), config.image_size, options.seed, side.framing)
    found: dict[Hidden, list[list[Tensor]]] = {}
    for hidden in options.hide:
        observation = model.observe(x[: len(known[hidden])], known[hidden])
        made = Sampler(model)(observation, options.n, seed=options.seed, temperature=side.temperature)
        shown = zip(to_uint8(x), to_uint8(visible(observation, config)), made, strict=False)
        found[hidden] = [[original, observed, *completions] for original, observed, completions in shown]
    return found


if __name__ == "__main__":
    run_script(main, Options, __doc__)
