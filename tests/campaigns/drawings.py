"""Count how many photos are taken for drawings, and how many pictures of their edges are taken for photos.

python tests/campaigns/drawings.py --data shoes64.zip bags64.zip --size 64 --out drawings.json

All test images of the data sets are judged. Their edges are judged as they are, as JPEG files, and enlarged. The lines
of an edge picture that was saved as it is must be exactly the edges.
"""

import argparse
import io
import json
import sys
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
import torch
from PIL import Image

from condvae.data import open_data
from condvae.images.drawings import kind_of, lines_of
from condvae.images.reading import read_picture
from condvae.observe import Edges
from condvae.observe.batch import Batch
from condvae.runtime.pixels import from_uint8


def as_jpeg(image: Image.Image) -> Image.Image:
    """Return an image after it was saved as a JPEG file."""
    file = io.BytesIO()
    image.save(file, "JPEG", quality=75)
    return Image.open(file)


FORMS: dict[str, Callable[[Image.Image], Image.Image]] = {
    "edges": lambda image: image,
    "edges as JPEG": as_jpeg,
    "edges, enlarged": lambda image: image.resize((300, 300), Image.Resampling.BICUBIC),
}


def count(data: Path, size: int) -> dict[str, int]:
    """Return how many test images were judged, and how many judgements were wrong, by kind of picture."""
    images = open_data(data, size=size, channels=3, validation=0).test
    levels = torch.from_numpy(np.ascontiguousarray(images.images[images.rows])).permute(0, 3, 1, 2)
    photos = [read_picture(one) for one in levels]
    found = {"images": len(photos), "photos": sum(kind_of(photo, size) != "photo" for photo in photos)}
    edges = Edges().pictures_of(Batch(x=from_uint8(levels)))[:, 0].numpy() < 0
    pictures = [Image.fromarray(np.where(one, np.uint8(0), np.uint8(255))) for one in edges if one.any()]
    for form, made in FORMS.items():
        found[form] = sum(kind_of(read_picture(made(one)), size) != "drawing" for one in pictures)
    exact = (np.asarray(one) == 0 for one in pictures)
    found["inexact lines"] = sum(
        not np.array_equal(lines_of(read_picture(one), size), lines) for one, lines in zip(pictures, exact, strict=True)
    )
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, nargs="+", required=True, help="data sets with test images")
    parser.add_argument("--size", type=int, default=64, help="image size of the model")
    parser.add_argument("--out", type=Path, help="write the counts to this JSON file")
    given = parser.parse_args()
    counts = {data.name: count(data, given.size) for data in given.data}
    print(json.dumps(counts, indent=1))
    if given.out is not None:
        given.out.write_text(json.dumps(counts, indent=1) + "\n")


if __name__ == "__main__":
    main()
