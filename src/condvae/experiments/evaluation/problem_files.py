"""Write the test images with holes for another program, with instructions for naming its completions."""

import json
from pathlib import Path

import numpy as np
import torch

from condvae.experiments.evaluation.external_completions import ENDINGS, KNOWN_TOLERANCE
from condvae.experiments.evaluation.problems import Problems
from condvae.images.contact_sheet import to_pil
from condvae.metrics import HOLE_BINS
from condvae.runtime.atomic import replacing
from condvae.runtime.messages import counted

README = """\
Images to complete, written by condvae evaluate --inputs-to.

images/BIN/NAME.png   the image; hidden pixels are black and transparent (alpha 0)
known/BIN/NAME.png    white where the image is known, black where it is hidden
index.json            the bins, the names, and which images need several completions

Write completions of the same size to a folder of your choice, FOLDER. Keep the known pixels; errors of up to
{tolerance} grey levels are corrected.

{several}   for each name under "deep" in index.json: {count}
{one}   for each other name: one completion

The files may be {endings}. NAME.npy may contain several completions: uint8 [K, {size}, {size}, {channels}]. If your
program always gives the same completion, write NAME.png for all names. Then run the same condvae evaluate command
with --completions YOURS=FOLDER instead of --inputs-to.
"""


def write_inputs(problems: Problems, out: Path, *, k: int) -> None:
    """Write images, known pixels, README.txt and index.json to a new folder, which appears only when complete."""
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise ValueError(f"{out} is not an empty folder: choose another one for --inputs-to")
    made = [path for path in (out, *out.parents) if not path.exists()]
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        with replacing(out) as hidden:
            hidden.mkdir()
            _write(problems, hidden, k)
            if out.is_dir():
                out.rmdir()
    except BaseException as error:
        for path in made:  # innermost first
            if path.is_dir() and not any(path.iterdir()):
                path.rmdir()
        if isinstance(error, OSError):
            raise ValueError(
                f"{out} cannot be written ({error.strerror}): free some space, or choose another folder"
            ) from error
        raise


def _write(problems: Problems, folder: Path, k: int) -> None:
    cpu = torch.device("cpu")
    deep = [problems.names[i] for i in problems.deep]
    for number, hole in enumerate(HOLE_BINS):
        images, knowns = folder / "images" / str(hole), folder / "known" / str(hole)
        images.mkdir(parents=True)
        knowns.mkdir(parents=True)
        for position, name in enumerate(problems.names):
            here = np.array([position])
            known = problems.known(number, here, cpu)[0]
            truth = torch.where(known, problems.truth(here, cpu)[0], 0)  # the file must not contain hidden pixels
            alpha = to_pil(known.to(torch.uint8) * 255)
            picture = to_pil(truth).convert("RGB")
            picture.putalpha(alpha)
            picture.save(images / f"{name}.png")
            alpha.save(knowns / f"{name}.png")
    size, channels = problems.test.size, problems.test.channels
    index = {
        "seed": problems.seed,
        "size": size,
        "channels": channels,
        "bins": [str(hole) for hole in HOLE_BINS],
        "k": k,
        "names": problems.names,
        "deep": deep,
        "test_positions": problems.rows.tolist(),
    }
    (folder / "index.json").write_text(json.dumps(index, indent=1) + "\n")
    numbers = ", ".join(f"{i}.png" for i in range(k)) if k < 4 else f"0.png, 1.png, ... {k - 1}.png"
    several = f"FOLDER/BIN/NAME/{numbers}"
    text = README.format(
        tolerance=KNOWN_TOLERANCE,
        several=several,
        one="FOLDER/BIN/NAME.png".ljust(len(several)),
        count=counted(k, "completion"),
        endings=", ".join(ENDINGS),
        size=size,
        channels=channels,
    )
    (folder / "README.txt").write_text(text)
