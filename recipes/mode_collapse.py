r"""Show whether models have one answer or many: a contact sheet of completions of large holes, with two rows of ten
completions by each model below the original and what is known of it.

Images and holes are not selected by hand: images are given by their positions in the test set, and the holes are the
first ones of the bin with the largest hidden share. The label of each model tells how much its completions differ:
the standard deviation of a hidden pixel over the completions, in grey levels, averaged over all hidden pixels.

    python recipes/mode_collapse.py --data cifar10 --models ipa=cifar10 comodgan=out/comodgan diffusion=out/diffusion

The numbers are also in a JSON file next to the sheet.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, NamedTuple

import numpy as np
import torch
import tyro
from PIL import Image
from torch import Tensor

from condvae.completers import Completer
from condvae.completers.by_place import complete_at, identity_of
from condvae.data import ImageSet, open_data
from condvae.experiments.named_completers import named_models, open_completers
from condvae.images.contact_sheet import contact_sheet
from condvae.images.model_sheets import visible
from condvae.observe import Observation
from condvae.observe.hole_bins import HOLE_BINS, known_in_bin
from condvae.observe.observation import observe_levels
from condvae.runtime.atomic import write_text, writing
from condvae.runtime.checks import check_whole, option_name
from condvae.runtime.devices import resolve_device
from condvae.runtime.formats import json_text
from condvae.runtime.pixels import to_uint8
from condvae.runtime.scripts import run_script

FORMAT = "condvae mode collapse"
LARGEST = HOLE_BINS[-1]
_COLUMNS = 10
_TILE = 64


@dataclass(frozen=True, kw_only=True)
class Options:
    """Draw completions of large holes by several models."""

    data: tuple[Path, ...]
    """Data with test images."""
    models: Annotated[tuple[str, ...], tyro.conf.arg(metavar="MODEL|NAME=MODEL")]
    """Models that complete images: conditional VAEs, or baselines from `condvae train --baseline`."""
    positions: tuple[int, ...] = (0,)
    """The positions of the images in the test set, counted from 0."""
    n: int = 20
    """How many completions of each image to draw."""
    out: Path = Path("out/mode_collapse.png")
    """The sheet, a .png or .webp file. A JSON file of the same name has the numbers."""
    device: str = "auto"
    """Where to compute. auto uses a GPU if there is one."""
    seed: int = 0


class Problem(NamedTuple):
    """A test image with a hole."""

    position: int
    truth: Tensor
    """[C, H, W] uint8."""
    observation: Observation


def main(options: Options) -> None:
    check_whole(options.n, option_name("n"), least=1)
    if options.out.suffix not in (".png", ".webp"):
        raise ValueError(f"--out is {options.out}, expected a .png or .webp file")
    if not options.models:
        raise ValueError("no --models were given: give models that complete images, as in ipa=cifar10")
    test, device = open_data(options.data).test, resolve_device(options.device)
    problems = problems_of(test, options.positions, options.seed, device)
    named = named_models(options.models)
    completers = open_completers(named, size=test.size, channels=test.channels, device=device)
    made = {name: completions_of(completer, problems, options) for name, completer in completers.items()}
    result = {
        "format": FORMAT,
        "data": [path.name for path in options.data],
        "n": options.n,
        "seed": options.seed,
        "positions": list(options.positions),
        "hidden_shares": [round(float(hidden_of(one).double().mean()), 4) for one in problems],
        "models": {name: identity_of(completer) for name, completer in completers.items()},
        "pixel_std": {
            name: [pixel_std(images, hidden_of(one)) for images, one in zip(drawn, problems, strict=True)]
            for name, drawn in made.items()
        },
    }
    with writing(options.out) as temporary:
        sheet_of(problems, made).save(temporary, format=options.out.suffix[1:], quality=80)
    write_text(options.out.with_suffix(".json"), json_text(result))
    print(f"wrote {options.out} and {options.out.with_suffix('.json').name}")


def problems_of(test: ImageSet, positions: Sequence[int], seed: int, device: torch.device) -> list[Problem]:
    """Return the test images at these positions, with the first holes of the largest bin, in this order."""
    if not positions:
        raise ValueError("no --positions were given: give the positions of some test images, such as 0 1 2")
    for position in positions:
        if not 0 <= position < len(test):
            raise ValueError(f"--positions has {position}, expected positions from 0 to {len(test) - 1}")
    truth = test.take(np.array(positions)).images.to(device)
    observation = observe_levels(truth, known_in_bin(LARGEST, len(truth), test.size, seed=seed).to(device))
    return [Problem(position, truth[i], observation[i : i + 1]) for i, position in enumerate(positions)]


def completions_of(completer: Completer, problems: Sequence[Problem], options: Options) -> list[Tensor]:
    """Return completions [n, C, H, W] of each image, or [1, C, H, W] by a model that does not vary."""
    n = options.n if completer.varies else 1
    return [complete_at(completer, one.observation, n, seed=options.seed, places=[one.position])[0] for one in problems]


def hidden_of(problem: Problem) -> Tensor:
    """Return which pixels are hidden, bool [1, H, W]."""
    assert problem.observation.known is not None
    return ~problem.observation.known[0]


def pixel_std(images: Tensor, hidden: Tensor) -> float:
    """Return the standard deviation over completions of a hidden pixel, in grey levels, averaged over hidden pixels.

    images: [n, C, H, W] uint8. hidden: [1, H, W] bool. The result is 0 for a single completion.
    """
    if len(images) < 2:
        return 0.0
    return float(images.double().std(dim=0)[hidden.expand_as(images[0])].mean())


def sheet_of(problems: Sequence[Problem], made: Mapping[str, Sequence[Tensor]]) -> Image.Image:
    """Arrange the completions in rows. made: completions [n, C, H, W] of each problem, by the name of the model."""
    rows: list[list[Tensor]] = []
    labels: list[str] = []
    for i, problem in enumerate(problems):
        blank = torch.full_like(problem.truth, 255)

        def add(images: Sequence[Tensor], label: str, blank: Tensor = blank) -> None:
            for first in range(0, len(images), _COLUMNS):
                some = list(images[first : first + _COLUMNS])
                rows.append([*some, *[blank] * (_COLUMNS - len(some))])
                labels.append("" if first else label)

        add([problem.truth, to_uint8(visible(problem.observation))[0]], "original, known")
        for name, drawn in made.items():
            add(list(drawn[i]), f"{name}, std {pixel_std(drawn[i], hidden_of(problem)):.1f}")
    return contact_sheet(rows, [""] * _COLUMNS, tile=_TILE, row_labels=labels)


if __name__ == "__main__":
    run_script(main, Options, __doc__)
