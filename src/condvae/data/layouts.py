"""The function `open_data`, which recognises the layout of a data set and reads it."""

import hashlib
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

import numpy as np

from condvae.data import cifar10
from condvae.data.arrays import read_npy, read_npz, read_npz_folder
from condvae.data.image_cache import ReadOptions, store
from condvae.data.image_folders import read_chest_xray14, read_folder
from condvae.data.image_set import Dataset, ImageSet, Indices
from condvae.data.splits import ParsedData, finish, with_test
from condvae.data.standard_sets import idx_images, read_cifar10, read_idx, read_svhn
from condvae.images.archive import digest
from condvae.images.recorded_files import PICTURE_SUFFIXES
from condvae.runtime import folders
from condvae.runtime.checks import check_seed, check_whole
from condvae.runtime.messages import listed
from condvae.runtime.pixels import PixelArray

_KINDS = (
    "a folder or zip of images, .npy, .npz, SVHN's .mat, MNIST's idx files, or the folder of CIFAR-10's python batches"
)
_PACKED = (".tar", ".tgz", ".gz", ".bz2", ".xz", ".7z", ".rar")


DataPath: TypeAlias = str | Path | Sequence[str | Path]
"""The path of a data set, or the paths of several data sets, which are joined."""


def name_of_data(path: DataPath) -> str:
    """Return the name of a data set in reports: the last part of its path, or of each of several paths."""
    return ", ".join(Path(one).name for one in ([path] if isinstance(path, str | Path) else path))


def open_data(
    path: DataPath,
    *,
    size: int | None = None,
    channels: int | None = None,
    validation: int | None = None,
    seed: int = 5,
    cache: Path | None = None,
    workers: int | None = None,
    memory_limit: int = 2 * 2**30,
) -> Dataset:
    """Read a data set, whose layout is recognised automatically.

    path: a file or a folder. Several paths are joined into one data set. "cifar10" is the copy that
        `condvae fetch cifar10` wrote, unless a file or folder of that name exists.
    size: crop the centre square of every image and resize it (Lanczos) to size x size pixels; None keeps the size.
    channels: convert images to luminance (1) or RGB (3); None means 1 if all images are grey, otherwise 3.
    validation: number of training images to hold out if the data has no validation set. None means a tenth of them,
        at most 5,000; 0 leaves the validation set empty.
    seed: decides which images are held out.
    cache: folder for arrays of images above `memory_limit` bytes; None for condvae's folder in the user's cache.
    workers: the largest number of threads that decode images (fewer for small images); None for one per processor, at
        most 8.
    """
    if validation is not None:
        check_whole(validation, "validation")
    check_seed(seed, "seed")
    reading = ReadOptions(
        size=size,
        channels=channels,
        cache=folders.cache_folder() if cache is None else Path(cache),
        workers=_processors() if workers is None else workers,
        memory_limit=memory_limit,
    )
    paths = [path] if isinstance(path, str | Path) else list(path)
    if not paths:
        raise ValueError("no path to a data set was given: give at least one path")
    found = [with_test(_recognised(Path(one).expanduser(), reading), seed) for one in paths]
    return finish(found[0] if len(found) == 1 else _joined(found, reading), validation=validation, seed=seed)


def _recognised(path: Path, reading: ReadOptions) -> ParsedData:
    if not path.exists() and path == Path(cifar10.NAME):
        return cifar10.read(reading)
    if not path.exists():
        raise ValueError(f"{path} does not exist: check the path to the data")
    return _read_folder(path, reading) if path.is_dir() else _read_file(path, reading)


def _read_file(path: Path, reading: ReadOptions) -> ParsedData:
    if path.stat().st_size == 0:
        raise ValueError(f"{path} is empty: copy or download it again")
    readers = {".zip": read_folder, ".npz": read_npz, ".npy": read_npy, ".mat": read_svhn}
    suffix = path.suffix.lower()
    if suffix in readers:
        return readers[suffix](path, reading)
    if "idx3" in path.name:
        return read_idx(path, reading)
    if suffix in _PACKED:
        raise ValueError(f"{path} is an archive that condvae cannot read: unpack it and give the folder")
    raise ValueError(f"{path} is not a data set in a supported layout: expected {_KINDS}")


def _read_folder(path: Path, reading: ReadOptions) -> ParsedData:
    for folder in (path, path / "cifar-10-batches-py"):
        if (folder / "data_batch_1").is_file() or (folder / "test_batch").is_file():
            return read_cifar10(folder, reading)
    if any(path.glob("Data_Entry_2017*.csv")):
        return read_chest_xray14(path, reading)
    if any(path.glob("train*.npz")):
        return read_npz_folder(path, reading)
    if any(path.glob("*_32x32.mat")):
        return read_svhn(path, reading)
    if idx_images(path):
        return read_idx(path, reading)
    arrays = sorted(path.glob("*.npy"))
    # Next to images or folders, an .npy file is taken for extra data about them, not for the data set.
    if arrays and not any(entry.is_dir() or entry.suffix.lower() in PICTURE_SUFFIXES for entry in path.iterdir()):
        return read_npy(_training_array(path, arrays), reading)
    return read_folder(path, reading)


def _training_array(folder: Path, arrays: Sequence[Path]) -> Path:
    train = [array for array in arrays if "train" in array.stem] if len(arrays) > 1 else list(arrays)
    if len(train) != 1:
        raise ValueError(
            f"{folder} contains {len(arrays)} .npy files, {len(train)} of them with train in the name: "
            "give the path of the file with the training images"
        )
    return train[0]


def _joined(found: Sequence[ParsedData], reading: ReadOptions) -> ParsedData:
    """Join the training, validation and test images of several data sets.

    Labels are kept only if they have the same shape and the same names in all data sets, and names of files only if
    all data sets have them.
    """
    first = found[0]
    for other in found[1:]:
        if (other.train.size, other.train.channels) != (first.train.size, first.train.channels):
            raise ValueError(
                f"{first.name} has images of {_shape(first.train)} but {other.name} has images of "
                f"{_shape(other.train)}: give --size to resize them, or use only grey or only colour data sets"
            )
    labelled = len({one.label_names for one in found}) == 1 and _same_row_shape([one.train.labels for one in found])
    identity = digest([one.identity for one in found])

    groups = _joined_groups(found)

    def join(split: str) -> ImageSet | None:
        sets = [getattr(one, split) for one in found if getattr(one, split) is not None]
        # The seed decides which rows were held out, so the cache key must depend on the rows.
        rows = [hashlib.sha256(one.rows.tobytes()).hexdigest() for one in sets]
        joined = _joined_sets(sets, labelled, reading.key(identity, digest(rows)), reading) if sets else None
        return joined if joined is None or groups is None else replace(joined, groups=np.concatenate(groups[split]))

    train = join("train")
    assert train is not None
    return replace(
        first,
        kinds=tuple(dict.fromkeys(kind for one in found for kind in one.kinds)),
        name=listed(one.name for one in found),
        identity=identity,
        train=train,
        validation=join("validation"),
        test=join("test"),
        label_names=first.label_names if labelled else None,
        flips=all(one.flips for one in found),
        skipped=tuple(line for one in found for line in one.skipped),
        skipped_images=sum(one.skipped_images for one in found),
    )


def _joined_sets(sets: Sequence[ImageSet], labelled: bool, key: str, reading: ReadOptions) -> ImageSet:
    starts = np.cumsum([0] + [len(one) for one in sets])
    total = int(starts[-1])
    labels = [one.labels[one.rows] for one in sets if one.labels is not None]
    partners = [one.paired for one in sets if one.paired is not None]
    names = [one.names for one in sets]

    def copied(arrays: Sequence[PixelArray], what: str) -> PixelArray:
        def one(i: int) -> PixelArray:
            which = int(np.searchsorted(starts, i, side="right")) - 1
            image: PixelArray = arrays[which][sets[which].rows[i - starts[which]]]
            return image

        shape = (total, *arrays[0].shape[1:])
        return store(shape, one, key=f"{key}-{what}", name="the joined data set", reading=reading).images

    return ImageSet(
        images=copied([one.images for one in sets], "images"),
        labels=np.concatenate(labels) if labelled and len(labels) == len(sets) else None,
        paired=copied(partners, "paired") if _same_row_shape(partners) and len(partners) == len(sets) else None,
        files=None if None in names else tuple(name for some in names for name in some or ()),
        rows=np.arange(total, dtype=np.int64),
    )


def _joined_groups(found: Sequence[ParsedData]) -> dict[str, list[Indices]] | None:
    """Return the groups (patients or people) of the images, as {split: one array per data set}.

    Groups are renumbered so that no two data sets share a number. In a data set without groups, each image becomes a
    separate group. Return None if no data set has groups.
    """
    if all(one.train.members is None for one in found):
        return None
    joined: dict[str, list[Indices]] = {split: [] for split in ("train", "validation", "test")}
    start = 0
    for one in found:
        sets = {split: getattr(one, split) for split in joined if getattr(one, split) is not None}
        counts = np.cumsum([len(part) for part in sets.values()])
        given = [part.members for part in sets.values() if part.members is not None]
        members = np.concatenate(given) if len(given) == len(sets) else np.arange(counts[-1])
        numbers = np.unique(members, return_inverse=True)[1].astype(np.int64) + start
        start += len(numbers)
        for split, mine in zip(sets, np.split(numbers, counts[:-1]), strict=True):
            joined[split].append(mine)
    return joined


def _same_row_shape(arrays: Sequence[np.ndarray | None]) -> bool:
    """Return whether no array is None and the rows of all arrays have the same shape."""
    shapes = {None if array is None else array.shape[1:] for array in arrays}
    return len(shapes) == 1 and None not in shapes


def _shape(images: ImageSet) -> str:
    return f"{images.size} x {images.size} x {images.channels}"


def _processors() -> int:
    return min(8, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)
