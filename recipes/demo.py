"""Complete eight photos of faces that the embedded model was not trained on, each with another part hidden.

`make demo` runs this. It draws eight completions of each photo and writes one contact sheet.
"""

import itertools
import time

BEGAN = time.perf_counter()

from dataclasses import dataclass  # noqa: E402
from pathlib import Path  # noqa: E402

import condvae  # noqa: E402
from condvae.completion import sheet_of  # noqa: E402
from condvae.runtime.scripts import run_script  # noqa: E402
from condvae.weights.model_names import DEFAULT_MODEL  # noqa: E402

HIDDEN = (
    {"half": "right"},
    {"box": (10, 18, 44, 16)},  # the eyes
    {"half": "bottom"},
    {"box": (18, 40, 28, 18)},  # the mouth
    {"half": "left"},
    {"box": (8, 8, 48, 48)},  # everything except the border
    {"half": "top"},
    {"random": True},  # a random hole, as in the training of the model
)


@dataclass(frozen=True, kw_only=True)
class Options:
    """Options of the demo."""

    faces: Path = Path(__file__).parents[1] / "tests" / "fixtures" / "faces64"
    """Folder of photos. The middle square of each photo is used."""
    model: str = DEFAULT_MODEL
    """A conditional model that completes images: a name or a file."""
    out: Path = Path("out/demo")
    """Folder to write completions.png into."""
    n: int = 8
    """How many completions to draw of each photo."""
    seed: int = 0


def main(options: Options) -> None:
    photos = sorted(path for path in options.faces.iterdir() if path.suffix in (".jpg", ".png"))
    if not photos:
        raise ValueError(f"{options.faces} contains no .jpg or .png files: give a folder of photos as --faces")
    results = [
        condvae.complete(photo, **hidden, model=options.model, n=options.n, seed=options.seed)  # type: ignore[arg-type]
        for photo, hidden in zip(photos, itertools.cycle(HIDDEN), strict=False)
    ]
    options.out.mkdir(parents=True, exist_ok=True)
    sheet = options.out / "completions.png"
    sheet_of(results).save(sheet)
    seconds = time.perf_counter() - BEGAN
    print(f"wrote {sheet}: {len(photos)} photos, {options.n} completions of each, in {seconds:.1f} s")


if __name__ == "__main__":
    run_script(main, Options, __doc__)
