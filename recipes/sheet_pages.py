"""Choose test images for contact sheets by the names of their files, and write long sheets as several pages."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from torch import Tensor

from condvae.data import ImageSet
from condvae.data.image_set import Indices
from condvae.data.order import spread
from condvae.experiments.evaluation.groups import matching
from condvae.images.contact_sheet import contact_sheet


def chosen(test: ImageSet, count: int, patterns: Sequence[str] = ()) -> Indices:
    """Choose images that are spread evenly over the test set; return their positions.

    patterns: of file names. Each pattern gets an equal share of the images. Without patterns, images have different
    labels if there are enough labels, as in a data set whose labels are people.
    """
    if not patterns:
        labels = None if test.labels is None else test.labels[test.rows]
        firsts = np.arange(len(test)) if labels is None else np.sort(np.unique(labels, True, axis=0)[1])
        among = firsts if len(firsts) >= count else np.arange(len(test))
        return among[spread(len(among), count)]
    if test.names is None:
        raise ValueError("the test images have no names: give a folder or zip file of images, or leave out --names")
    found: list[Indices] = []
    for i, pattern in enumerate(patterns):
        among = np.flatnonzero(matching(pattern, test.names))
        if not len(among):
            raise ValueError(f"the pattern {pattern} matches none of the test images, such as {test.names[0]}")
        found.append(among[spread(len(among), len(range(i, count, len(patterns))))])
    return np.concatenate(found)


def write_pages(
    rows: Sequence[Sequence[Tensor]],
    columns: Sequence[str],
    labels: Sequence[str],
    path: Path,
    *,
    per_page: int,
    tile: int,
) -> list[Path]:
    """Write PATH-1, PATH-2, ... with so many labelled rows each, enlarged to about `tile` pixels; return the paths.

    rows: images [C, H, W] uint8.
    """
    written = []
    for first in range(0, len(rows), per_page):
        page = path.with_stem(f"{path.stem}-{first // per_page + 1}")
        some = slice(first, first + per_page)
        contact_sheet(rows[some], columns, tile=tile, row_labels=labels[some]).save(page, quality=80)
        written.append(page)
    return written
