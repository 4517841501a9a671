"""Complete eight crops of photos that the embedded model was not trained on, each with another part hidden.

Then find the faces in two whole photos, complete them, and put them back. `make demo` runs this. It draws eight
completions of each picture and writes one sheet: a row for each crop, and below them a row for each photo.
"""

import itertools
import time

BEGAN = time.perf_counter()

from dataclasses import dataclass  # noqa: E402
from pathlib import Path  # noqa: E402
from typing import Any  # noqa: E402

import numpy as np  # noqa: E402
from PIL import Image  # noqa: E402

import condvae  # noqa: E402
from condvae.completion import Completion, sheet_of  # noqa: E402
from condvae.images.contact_sheet import contact_sheet  # noqa: E402
from condvae.images.decode import fit  # noqa: E402
from condvae.images.model_levels import as_tensor  # noqa: E402
from condvae.runtime.scripts import run_script  # noqa: E402
from condvae.weights.model_names import DEFAULT_MODEL  # noqa: E402

HIDDEN: tuple[dict[str, Any], ...] = (
    {"half": "right"},
    {"box": (9, 9, 46, 18)},  # the eyes
    {"half": "bottom"},
    {"box": (17, 39, 32, 18)},  # the mouth
    {"half": "left"},
    {"box": (8, 8, 48, 48)},  # everything except the border
    {"half": "top"},
    {"random": True},  # a random hole, as in the training of the model
)
HIDDEN_PARTS: tuple[dict[str, Any], ...] = ({"part": "mouth"}, {"part": "eyes"})
FIXTURES = Path(__file__).parents[1] / "tests" / "fixtures"
SHOWN, TILE = 4, 256
"""How many completions of a photo are shown, and the width of each, in pixels."""
AROUND = 2.5
"""Width of the part of a photo that is shown, as a multiple of the square that the model sees."""
GREY = 153


@dataclass(frozen=True, kw_only=True)
class Options:
    """Options of the demo."""

    faces: Path = FIXTURES / "faces64"
    """Folder of crops of faces. The middle square of each picture is used."""
    photos: Path = FIXTURES / "photos"
    """Folder of photos, in which the largest face is completed."""
    model: str = DEFAULT_MODEL
    """A conditional model that completes images: a name or a file."""
    out: Path = Path("out/demo")
    """Folder to write completions.png into."""
    n: int = 8
    """How many completions to draw of each photo."""
    seed: int = 0


def main(options: Options) -> None:
    given: dict[str, Any] = {"model": options.model, "n": options.n, "seed": options.seed, "judge": False}
    crops, photos = pictures_in(options.faces, "--faces"), pictures_in(options.photos, "--photos")
    results = [
        condvae.complete(crop, **hidden, **given) for crop, hidden in zip(crops, itertools.cycle(HIDDEN), strict=False)
    ]
    framed = [
        condvae.complete(photo, face=True, **hidden, **given)
        for photo, hidden in zip(photos, itertools.cycle(HIDDEN_PARTS), strict=False)
    ]
    columns = ["photo", "face found, part hidden", *(f"completion {k + 1}" for k in range(min(SHOWN, options.n)))]
    rows = [[as_tensor(fit(tile, channels=3, size=TILE)) for tile in tiles(result)] for result in framed]
    options.out.mkdir(parents=True, exist_ok=True)
    path = options.out / "completions.png"
    stacked(sheet_of(results), contact_sheet(rows, columns, tile=TILE)).save(path)
    seconds = time.perf_counter() - BEGAN
    count = len(crops) + len(photos)
    print(f"wrote {path}: {count} pictures, {options.n} completions of each, in {seconds:.1f} s")


def pictures_in(folder: Path, option: str) -> list[Path]:
    found = sorted(path for path in folder.iterdir() if path.suffix in (".jpg", ".png")) if folder.is_dir() else []
    if not found:
        raise ValueError(f"{folder} contains no .jpg or .png files: give a folder of pictures as {option}")
    return found


def tiles(result: Completion) -> list[Image.Image]:
    """Return the photo around the face: as it is, with the hidden pixels grey, and with the first completions."""
    assert result.view.surroundings is not None  # kept because the face was completed in a whole photo
    page, hidden = result.view.surroundings
    with_hole = np.where(hidden[:, :, None], np.uint8(GREY), np.asarray(page.convert("RGB")))
    x, y, side, _ = result.view.placement
    width = round(min(AROUND * side, *page.size))
    left, top = (
        round(min(max(middle - width / 2, 0), length - width)) for middle, length in zip((x, y), page.size, strict=True)
    )
    whole = [page, Image.fromarray(with_hole), *(result[k] for k in range(min(SHOWN, len(result))))]
    return [picture.crop((left, top, left + width, top + width)) for picture in whole]


def stacked(*sheets: Image.Image) -> Image.Image:
    """Return pictures below each other, on white."""
    both = Image.new("RGB", (max(one.width for one in sheets), sum(one.height for one in sheets)), "white")
    top = 0
    for one in sheets:
        both.paste(one, (0, top))
        top += one.height
    return both


if __name__ == "__main__":
    run_script(main, Options, __doc__)
