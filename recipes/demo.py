"""Eight photos of faces that the embedded model has not seen, each with something hidden, and eight answers to each.
`make demo` runs this.
"""

import itertools
import sys
import time

BEGAN = time.perf_counter()

from dataclasses import dataclass  # noqa: E402
from pathlib import Path  # noqa: E402

import tyro  # noqa: E402

import condvae  # noqa: E402
from condvae.completion import sheet_of  # noqa: E402
from condvae.weights.model_names import DEFAULT_MODEL  # noqa: E402

HIDDEN = (
    {"half": "right"},
    {"box": (10, 18, 44, 16)},  # the eyes
    {"half": "bottom"},
    {"box": (18, 40, 28, 18)},  # the mouth
    {"half": "left"},
    {"box": (8, 8, 48, 48)},  # all but the frame
    {"half": "top"},
    {"random": True},  # a hole like those that the model was trained on
)


@dataclass(frozen=True, kw_only=True)
class Options:
    """Complete faces."""

    faces: Path = Path(__file__).parents[1] / "tests" / "fixtures" / "faces64"
    """Folder of photos; their middle square is taken."""
    model: str = DEFAULT_MODEL
    """A completion model, by name or file."""
    out: Path = Path("out/demo")
    """Folder for completions.png."""
    n: int = 8
    """Completions of each."""
    seed: int = 0


def main(options: Options) -> None:
    photos = sorted(path for path in options.faces.iterdir() if path.suffix in (".jpg", ".png"))
    if not photos:
        raise ValueError(f"{options.faces} holds no .jpg or .png files: name a folder of photos")
    results = [
        condvae.complete(photo, **hidden, model=options.model, n=options.n, seed=options.seed)  # type: ignore[arg-type]
        for photo, hidden in zip(photos, itertools.cycle(HIDDEN), strict=False)
    ]
    options.out.mkdir(parents=True, exist_ok=True)
    sheet = options.out / "completions.png"
    sheet_of(results).save(sheet)
    print(f"{len(photos)} photos, {options.n} completions of each, {time.perf_counter() - BEGAN:.1f} s: {sheet}")


if __name__ == "__main__":
    try:
        main(tyro.cli(Options, description=__doc__))
    except (ValueError, OSError) as error:
        print(f"demo: {error}", file=sys.stderr)
        sys.exit(2)
