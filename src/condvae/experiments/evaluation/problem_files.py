"""What somebody else's program needs to be measured beside ours: images with holes, and what to call its answers."""

import json
from pathlib import Path

import numpy as np
import torch

from condvae.experiments.evaluation.external_completions import ENDINGS, FORGIVEN
from condvae.experiments.evaluation.problems import Problems
from condvae.images.contact_sheet import to_pil
from condvae.metrics import HOLE_BINS
from condvae.runtime.atomic import replacing

README = """\
Images to complete, made by condvae evaluate --inputs-to.

images/BIN/NAME.png   the image; hidden pixels are transparent and black (alpha 0)
known/BIN/NAME.png    white where the image is known, black where it is hidden
index.json            bins, names, and which of them are wanted how often

Write completions of the same size, known pixels as they are (they may be off by {forgiven} grey levels), to a folder
FOLDER of your own:

FOLDER/BIN/NAME/0.png, 1.png, ... {last}.png   for the names under "deep" in index.json: {k} samples each
FOLDER/BIN/NAME.png                            for the others: one sample

{endings} are read; NAME.npy may hold [K, {size}, {size}, {channels}] uint8. A program that gives but one answer writes
NAME.png for all. Then call condvae evaluate with the options of this call and --completions YOURS=FOLDER.
"""


def write_inputs(problems: Problems, out: Path, *, k: int) -> None:
    """Images, known pixels, README.txt and index.json into a new folder: all or none."""
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise ValueError(f"{out} is not an empty folder: give another one for the inputs")
    made = [path for path in (out, *out.parents) if not path.exists()]
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        with replacing(out) as hidden:
            hidden.mkdir()
            _write(problems, hidden, k)
            if out.is_dir():
                out.rmdir()
    except BaseException as error:
        for path in made:  # the innermost comes first
            if path.is_dir() and not any(path.iterdir()):
                path.rmdir()
        if isinstance(error, OSError):
            raise ValueError(
                f"{out} cannot be written ({error.strerror}): make room, or give another folder"
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
            truth = torch.where(known, problems.truth(here, cpu)[0], 0)  # nothing of the answer is left in the file
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
    text = README.format(forgiven=FORGIVEN, last=k - 1, k=k, endings=", ".join(ENDINGS), size=size, channels=channels)
    (folder / "README.txt").write_text(text)
