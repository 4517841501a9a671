"""Measure how well faces are found: paste faces on backgrounds, at known places, sizes and angles, and look for them.

The faces are square crops in which the eyes are at a known place (`FRAMING`). Each is enlarged, turned and pasted with
a soft edge on a background. A face is found if both eyes are within 8 % of their distance from the true position.

    python recipes/face_composites.py --data faces64-a.zip faces64-b.zip faces64-c.zip --backgrounds tiny64-a.zip
"""

import math
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
from condvae.images.archive import opened
from condvae.images.contact_sheet import contact_sheet
from condvae.images.decode import decode
from condvae.images.placement import Placement
from condvae.runtime.scripts import run_script

FRAMING = Framing(eyes=0.40, x=0.50, y=0.29)
"""Where the eyes are in the crops of faces64-a.zip, faces64-b.zip and faces64-c.zip."""
TOLERANCE = 0.08
"""The largest error of an eye, as a share of the distance of the eyes, with which a face counts as found."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """Paste faces on backgrounds and measure how well they are found."""

    data: tuple[Path, ...]
    """Data sets whose test images are faces in one framing, such as faces64-a.zip."""
    backgrounds: Path
    """Data set whose test images are the backgrounds, such as tiny64-a.zip."""
    out: Path = Path("out/face_composites.png")
    """Contact sheet of the faces that were not found, with the eyes that were expected and found."""
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
    picture: Image.Image
    placement: Placement
    """Where the pasted crop is."""

    @property
    def eyes(self) -> npt.NDArray[np.float64]:
        """[2, 2]: true x and y of the left and the right eye."""
        return eyes_at(self.placement)


def eyes_at(placement: Placement, framing: Framing = FRAMING) -> npt.NDArray[np.float64]:
    """Return where the eyes are in a picture, [2, 2], if a crop in this framing is pasted there."""
    angle = math.radians(placement.degrees)
    turn = np.array([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]])
    shares = np.array([[framing.x - framing.eyes / 2, framing.y], [framing.x + framing.eyes / 2, framing.y]])
    eyes: npt.NDArray[np.float64] = (shares - 0.5) * placement.side @ turn.T + (placement.x, placement.y)
    return eyes


def paste(crop: Image.Image, background: Image.Image, placement: Placement, *, feather: float = 0.08) -> Image.Image:
    """Enlarge a square crop, turn it and paste it.

    feather: width of the soft edge, in which the crop fades, as a share of its side.
    """
    angle, scale = math.radians(placement.degrees), crop.width / placement.side
    across, down = scale * math.cos(angle), scale * math.sin(angle)
    middle = crop.width / 2
    inverse = (
        *(across, down, middle - across * placement.x - down * placement.y),
        *(-down, across, middle + down * placement.x - across * placement.y),
    )
    # Distance of each pixel of the crop from its edge decides how opaque it is.
    at = (np.arange(512) + 0.5) / 512
    from_edge = np.minimum(at, 1 - at)
    opacity = np.clip(np.minimum(from_edge[:, None], from_edge) / max(feather, 1e-9), 0, 1)
    mask = Image.fromarray((opacity * 255).astype(np.uint8))
    to_mask = tuple(value * 512 / crop.width for value in inverse)
    turned = crop.transform(background.size, Image.Transform.AFFINE, inverse, Image.Resampling.BICUBIC)

    result = background.copy()
    result.paste(
        turned, mask=mask.transform(background.size, Image.Transform.AFFINE, to_mask, Image.Resampling.BILINEAR)
    )
    return result


def composites(options: Options) -> list[Composite]:
    random = np.random.default_rng(options.seed)
    each = math.ceil(options.images / len(options.data))
    crops = [_test_images(path, each, random) for path in options.data]
    scenes = _test_images(options.backgrounds, options.images, random)
    made = []
    for i in range(options.images):
        crop = crops[i % len(crops)][i // len(crops)]
        background = scenes[i].resize((options.size, options.size), Image.Resampling.BICUBIC)
        side = random.uniform(options.smallest, options.largest)
        degrees = random.uniform(-options.degrees, options.degrees)
        angle = math.radians(abs(degrees))
        reach = side * (math.cos(angle) + math.sin(angle)) / 2  # half of the side of the box around the turned crop
        x, y = random.uniform(reach, options.size - reach, size=2).tolist()
        placement = Placement(x, y, side, degrees)
        made.append(Composite(paste(crop, background, placement), placement))
    return made


def _test_images(path: Path, n: int, random: np.random.Generator) -> list[Image.Image]:
    """Draw n test images of a folder or zip without replacement, or as many as there are, again and again."""
    with opened(path) as files:
        names = [name for name in files.images() if name.startswith("test/")]
        if not names:
            raise ValueError(f"{path} has no images in test/: give a data set such as faces64-a.zip")
        chosen = np.resize(random.permutation(len(names)), n).tolist()
        return [Image.fromarray(decode(files.open(names[i]), channels=3, size=None)) for i in chosen]


def eye_error(face: Face, eyes: npt.NDArray[np.float64]) -> float:
    """Return the larger error of the two eyes, as a share of their true distance."""
    errors = np.linalg.norm(face.landmarks[:2] - eyes, axis=1)
    return float(errors.max() / np.linalg.norm(eyes[1] - eyes[0]))


def main(options: Options) -> None:
    made = composites(options)
    errors, others, misses, seconds = [], 0, [], 0.0
    find_faces(made[0].picture)  # loads the networks
    for composite in made:
        start = time.perf_counter()
        faces = find_faces(composite.picture)
        seconds += time.perf_counter() - start
        best = min((eye_error(face, composite.eyes) for face in faces), default=math.inf)
        errors.append(best)
        others += sum(eye_error(face, composite.eyes) > 0.5 for face in faces)
        if best > TOLERANCE:
            misses.append((composite, faces, best))
    n, near = len(made), np.array(errors)[np.array(errors) < 0.5]
    print(f"found {n - len(misses)} of {n} faces, both eyes within {TOLERANCE:.0%} of their distance")
    print(f"{n - len(near)} were not found at all; {others} more faces were found in the backgrounds")
    shares = (50, 75, 90, 95, 100)
    values = ", ".join(f"{p} % up to {v:.1%}" for p, v in zip(shares, np.percentile(near, shares), strict=True))
    print(f"error of the worse eye: {values}")
    print(f"{seconds / n:.3f} seconds per picture of {options.size} x {options.size} pixels")
    if misses:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        sheet_of_misses(misses).save(options.out)
        print(f"wrote {options.out}")


def sheet_of_misses(misses: Sequence[tuple[Composite, Sequence[Face], float]]) -> Image.Image:
    """Draw each miss, with the true eyes as green crosses, and boxes and landmarks that were found in red."""
    rows, labels = [], []
    for (picture, placement), faces, error in misses:
        drawn = picture.copy()
        pen = ImageDraw.Draw(drawn)
        for face in faces:
            x, y, width, height = face.box
            pen.rectangle((x, y, x + width, y + height), outline="red")
            for u, v in face.landmarks.tolist():
                pen.ellipse((u - 2, v - 2, u + 2, v + 2), outline="red")
        for u, v in eyes_at(placement).tolist():
            pen.line((u - 4, v, u + 4, v), fill="lime")
            pen.line((u, v - 4, u, v + 4), fill="lime")
        rows.append([torch.from_numpy(np.array(image)).permute(2, 0, 1) for image in (picture, drawn)])
        labels.append(f"{error:.0%}" if math.isfinite(error) else "none")
    return contact_sheet(rows, ["composite", "found"], tile=320, row_labels=labels)


if __name__ == "__main__":
    run_script(main, Options)
