"""Measure how well faces are found: paste them on other pictures, at known places, sizes and angles, and look for them.

The faces are square crops in one framing. Each is enlarged, turned and pasted with a soft edge. There are three
measures. Each is the error of the worse eye, as a share of the distance of the eyes:

- eyes: the eyes that are found in the composite, against those that are found in the crop alone, upright and large.
  This shows whether place, size, angle and background move the landmarks. If no face is found in the crop alone, the
  eyes that the framing expects count as true.
- eyes of the framing: the same, against the eyes that the framing expects in the crop. Crops follow their framing only
  roughly, as they were aligned by other programs and show people who look aside.
- placement: the eyes that the framing expects in `Face.placement`, against those that it expects in the pasted crop.
  This shows whether a model is given the square that it was trained on.

    python recipes/face_composites.py --data faces64-a.zip faces64-b.zip faces64-c.zip --backgrounds tiny64-a.zip
"""

import math
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image, ImageDraw

from condvae.faces import Face, Framing, find_faces
from condvae.faces.face import MEAN_FRAMING
from condvae.images.contact_sheet import contact_sheet
from condvae.images.placement import Placement
from condvae.runtime.scripts import run_script

sys.path.insert(0, str(Path(__file__).parents[1]))
from recipes.face_framing import draw_images, face_of_crop

TOLERANCE = 0.08
"""The largest error with which an eye counts as found."""
SAME_FACE = 0.5
"""A face with a larger error is another face."""
_MASK = 512
_PER_ROW = 4

Points = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Options:
    """Paste faces on other pictures and measure how well they are found."""

    data: tuple[Path, ...]
    """Data sets whose test images are faces in one framing, such as faces64-a.zip. Each gives as many."""
    backgrounds: Path
    """Data set whose test images are the backgrounds, such as tiny64-a.zip."""
    framing: tuple[float, float, float] = MEAN_FRAMING
    """Framing of the faces: distance of the eyes, and x and y of their middle, as shares of the side of the image."""
    out: Path = Path("out/face_composites.png")
    """Contact sheet of the faces that were not found: the expected eyes are green, what was found is red."""
    images: int = 100
    """How many composites to make."""
    size: int = 320
    """Width and height of a composite in pixels."""
    smallest: float = 64
    """Smallest side of a pasted crop in pixels."""
    largest: float = 200
    """Largest side of a pasted crop in pixels."""
    degrees: float = 20
    """Crops are turned by up to this angle."""
    seed: int = 0


class Composite(NamedTuple):
    crop: Image.Image
    picture: Image.Image
    placement: Placement
    """Where the crop was pasted."""


def in_picture(shares: npt.ArrayLike, placement: Placement) -> Points:
    """Convert points [N, 2], as shares of the side of a square, to pixels of the picture in which the square lies."""
    angle = math.radians(placement.degrees)
    turn = np.array([[math.cos(angle), math.sin(angle)], [-math.sin(angle), math.cos(angle)]])
    points: Points = (np.asarray(shares) - 0.5) * placement.side @ turn + (placement.x, placement.y)
    return points


def eyes_of(framing: Framing) -> Points:
    """Return the places of the eyes that a framing expects, [2, 2], as shares of the side."""
    eyes, x, y = framing
    return np.array([[x - eyes / 2, y], [x + eyes / 2, y]])


def paste(crop: Image.Image, background: Image.Image, placement: Placement, *, feather: float = 0.08) -> Image.Image:
    """Enlarge a square crop, turn it and paste it.

    feather: width of the soft edge, in which the crop fades, as a share of its side.
    """
    angle, scale = math.radians(placement.degrees), crop.width / placement.side
    across, down, middle = scale * math.cos(angle), scale * math.sin(angle), crop.width / 2
    x, y = placement[:2]
    # Pillow wants the coefficients that map a pixel of the result to a pixel of the crop.
    to_crop = (across, down, middle - across * x - down * y, -down, across, middle + down * x - across * y)
    to_mask = tuple(value * _MASK / crop.width for value in to_crop)
    from_edge = (np.arange(_MASK) + 0.5) / _MASK
    from_edge = np.minimum(from_edge, 1 - from_edge)
    opacity = np.clip(np.minimum(from_edge[:, None], from_edge) / feather, 0, 1)
    mask = Image.fromarray((opacity * 255).astype(np.uint8))
    affine, size = Image.Transform.AFFINE, background.size
    result = background.copy()
    result.paste(
        crop.transform(size, affine, to_crop, Image.Resampling.BICUBIC),
        mask=mask.transform(size, affine, to_mask, Image.Resampling.BILINEAR),
    )
    return result


def composites(options: Options) -> list[Composite]:
    random = np.random.default_rng(options.seed)
    each = -(-options.images // len(options.data))
    crops = [draw_images(path, "test", each, random) for path in options.data]
    backgrounds = draw_images(options.backgrounds, "test", options.images, random)
    made = []
    for i, background in enumerate(backgrounds):
        crop = crops[i % len(crops)][i // len(crops)]
        side = random.uniform(options.smallest, options.largest)
        degrees = random.uniform(-options.degrees, options.degrees)
        angle = math.radians(abs(degrees))
        reach = side * (math.cos(angle) + math.sin(angle)) / 2  # half of the side of the box around the turned crop
        x, y = random.uniform(reach, options.size - reach, size=2).tolist()
        placement = Placement(x, y, side, degrees)
        large = background.resize((options.size, options.size), Image.Resampling.BICUBIC)
        made.append(Composite(crop, paste(crop, large, placement), placement))
    return made


def eye_error(eyes: Points, expected: Points) -> float:
    """Return the larger error of the two eyes [2, 2], as a share of their expected distance."""
    errors = np.linalg.norm(eyes - expected, axis=1)
    return float(errors.max() / np.linalg.norm(expected[1] - expected[0]))


class Result(NamedTuple):
    composite: Composite
    faces: tuple[Face, ...]
    expected: Points
    """[2, 2]: the true eyes, in pixels of the composite."""
    errors: tuple[float, float, float] = (math.inf,) * 3
    """The three measures, which are infinite if the face was not found."""


def measure(composite: Composite, alone: Face | None, framing: Framing) -> Result:
    """alone: the face that was found in the crop alone, if any."""
    faces = find_faces(composite.picture)
    nominal = in_picture(eyes_of(framing), composite.placement)
    expected = nominal if alone is None else in_picture(alone.landmarks[:2], composite.placement)
    error, best = min(((eye_error(face.landmarks[:2], expected), i) for i, face in enumerate(faces)), default=(1, 0))
    if error > SAME_FACE:
        return Result(composite, faces, expected)
    face = faces[best]
    placed = in_picture(eyes_of(framing), face.placement(framing))
    errors = (error, eye_error(face.landmarks[:2], nominal), eye_error(placed, nominal))
    return Result(composite, faces, expected, errors)


def main(options: Options) -> None:
    made, framing = composites(options), Framing(*options.framing)
    alone = [face_of_crop(composite.crop) for composite in made]
    start = time.perf_counter()
    results = [measure(composite, face, framing) for composite, face in zip(made, alone, strict=True)]
    seconds = (time.perf_counter() - start) / len(results)
    print(f"in {alone.count(None)} of {len(made)} crops alone, no face was found")
    for i, name in enumerate(("eyes", "eyes of the framing", "placement")):
        report(name, [result.errors[i] for result in results])
    others = sum(len(result.faces) - math.isfinite(result.errors[0]) for result in results)
    print(f"{others} more faces were found in the backgrounds")
    print(f"{seconds:.3f} seconds per picture of {options.size} x {options.size} pixels")
    if misses := [result for result in results if result.errors[0] > TOLERANCE]:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        sheet_of(misses).save(options.out)
        print(f"wrote {options.out}")


def report(name: str, errors: Sequence[float]) -> None:
    found = sum(error <= TOLERANCE for error in errors)
    print(f"{name}: {found} of {len(errors)} within {TOLERANCE:.0%}, {errors.count(math.inf)} not found at all")
    if near := [error for error in errors if math.isfinite(error)]:
        shares = (50, 75, 90, 95, 100)
        values = np.percentile(near, shares).tolist()
        print("  " + ", ".join(f"{p} % up to {value:.1%}" for p, value in zip(shares, values, strict=True)))


def sheet_of(misses: Sequence[Result]) -> Image.Image:
    """Draw composites, with green crosses on the expected eyes, and red boxes and landmarks that were found."""
    tiles = []
    for result in misses:
        drawn = result.composite.picture.copy()
        pen = ImageDraw.Draw(drawn)
        for (x, y, width, height), landmarks, _ in result.faces:
            pen.rectangle((x, y, x + width, y + height), outline="red")
            for u, v in landmarks.tolist():
                pen.ellipse((u - 2, v - 2, u + 2, v + 2), outline="red")
        for u, v in result.expected.tolist():
            pen.line((u - 4, v, u + 4, v), fill="lime")
            pen.line((u, v - 4, u, v + 4), fill="lime")
        tiles.append(torch.from_numpy(np.array(drawn)).permute(2, 0, 1))
    tiles += [torch.full_like(tiles[0], 255)] * (-len(tiles) % _PER_ROW)
    rows = [tiles[i : i + _PER_ROW] for i in range(0, len(tiles), _PER_ROW)]
    return contact_sheet(rows, [""] * _PER_ROW, tile=tiles[0].shape[-1])


if __name__ == "__main__":
    run_script(main, Options)
