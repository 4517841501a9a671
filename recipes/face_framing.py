"""Measure how the faces of a data set are framed: the distance of the eyes, and their middle, as shares of the image.

The images are square crops around faces. Each is put on a larger page that repeats the pixels of its edge, so that the
whole face is found. For the images of one framing, the recipe also prints the mean landmarks in them. Those of
`condvae.faces.face` were made by

    python recipes/face_framing.py --data faces64-a.zip faces64-b.zip faces64-c.zip --split train --images 900
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt
from PIL import Image

from condvae.faces import Face, Framing, find_faces
from condvae.faces.face import MEAN_FRAMING
from condvae.images.archive import opened
from condvae.images.decode import decode
from condvae.runtime.scripts import run_script

SIDE, MARGIN = 160, 64
"""Side of the enlarged crop, and width of the margin around it, in pixels."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """Measure the framing of the faces of a data set."""

    data: tuple[Path, ...]
    """Data sets of square crops around faces, such as faces64-c.zip. Each gives as many images."""
    split: Literal["train", "test"] = "test"
    images: int = 500
    """How many images to use, of all data sets together."""
    seed: int = 0


def draw_images(path: Path, split: str, n: int, random: np.random.Generator) -> list[Image.Image]:
    """Draw n images of a folder or zip at random, without repetition if it has as many."""
    with opened(path) as files:
        names = [name for name in files.images() if name.startswith(f"{split}/")]
        if not names:
            raise ValueError(f"{path} has no images in {split}/: give a data set with a folder of this name")
        chosen = np.resize(random.permutation(len(names)), n).tolist()
        images = []
        for i in chosen:
            with files.open(names[i]) as file:
                images.append(Image.fromarray(decode(file, channels=3, size=None)))
        return images


def face_of_crop(crop: Image.Image) -> Face | None:
    """Find the largest face in a square crop. Its coordinates are shares of the side of the crop."""
    levels = np.array(crop.resize((SIDE, SIDE), Image.Resampling.BICUBIC))
    page = np.pad(levels, ((MARGIN, MARGIN), (MARGIN, MARGIN), (0, 0)), mode="edge")
    faces = find_faces(Image.fromarray(page))
    if not faces:
        return None
    (x, y, width, height), landmarks, score = faces[0]
    box = ((x - MARGIN) / SIDE, (y - MARGIN) / SIDE, width / SIDE, height / SIDE)
    return Face(box, (landmarks - MARGIN) / SIDE, score)


def framing_of(face: Face) -> Framing:
    """Return the framing of a face whose coordinates are shares of the crop."""
    x, y, side, _ = face.placement(Framing(MEAN_FRAMING.eyes, 0.5, 0.5))  # its centre is the middle of the eyes
    return Framing(MEAN_FRAMING.eyes * side, x, y)


class Measured(NamedTuple):
    framings: npt.NDArray[np.float64]
    """[N, 3]: the framing of each face."""
    landmarks: npt.NDArray[np.float64]
    """[5, 2]: medians of the landmarks, and of the mirrored ones."""


def measured(faces: list[Face]) -> Measured:
    points = np.median([face.landmarks for face in faces], axis=0)
    mirrored = (points * (-1, 1) + (1, 0))[[1, 0, 2, 4, 3]]
    return Measured(np.array([framing_of(face) for face in faces]), (points + mirrored) / 2)


def main(options: Options) -> None:
    random = np.random.default_rng(options.seed)
    each = -(-options.images // len(options.data))
    crops = [crop for path in options.data for crop in draw_images(path, options.split, each, random)]
    faces = [face for face in map(face_of_crop, crops) if face is not None]
    print(f"a face was found in {len(faces)} of {len(crops)} images")
    if not faces:
        return
    framings, landmarks = measured(faces)
    eyes, x, y = np.median(framings, axis=0).tolist()
    print(f"median: Framing(eyes={eyes:.3f}, x={x:.3f}, y={y:.3f})")
    for name, low, high in zip(Framing._fields, *np.percentile(framings, (10, 90), axis=0), strict=True):
        print(f"  {name}: {low:.3f} to {high:.3f} in 80 % of the images")
    print(f"mean landmarks: {landmarks.round(4).tolist()}")


if __name__ == "__main__":
    run_script(main, Options)
