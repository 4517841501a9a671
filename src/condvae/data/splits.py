"""Split a data set into training, validation and test images."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from condvae.data.image_set import Dataset, ImageSet, Indices
from condvae.data.layout_names import Layout
from condvae.images.archive import common_top

_MOST_TEST = 7_000  # as for FFHQ, a tenth of 70,000 images
_MOST_VALIDATION = 5_000  # as for CIFAR-10, a tenth of 50,000 images, and for ImageNet
_FOLDERS = {
    "train": "train",
    "test": "test",
    "val": "validation",
    "valid": "validation",
    "validation": "validation",
}


@dataclass(frozen=True, kw_only=True, eq=False)
class ParsedData:
    """A data set as its files define it, before any training images are held out."""

    kinds: tuple[Layout, ...]
    """The layout of the files, or several if data sets were joined."""
    name: str
    """The path of the data set, as the user gave it."""
    identity: str
    """A digest that changes when the files of the data set change."""
    train: ImageSet
    validation: ImageSet | None = None
    test: ImageSet | None = None
    label_names: tuple[str, ...] | None = None
    flips: bool = True
    skipped: tuple[str, ...] = ()
    skipped_images: int = 0


def folder_splits(names: Sequence[str]) -> list[str | None] | None:
    """Return the split of each image file: 'train', 'validation' or 'test', according to its top folder.

    Return None if the folders are not splits. Folders such as train/ and val/ are splits if they contain all images, or
    if there are at least two of them; images in other folders then get None. But a single train/ next to car/ and ship/
    is taken for a class of images.
    """
    top = len(common_top(names)) if not _split_of(common_top(names)) else 0
    splits = [_split_of(name[top:]) for name in names]
    known = set(splits) - {None}
    return splits if known and (None not in splits or len(known) > 1) else None


def _split_of(name: str) -> str | None:
    return _FOLDERS.get(name.split("/", 1)[0].lower()) if "/" in name else None


def hold_out(n: int, count: int, seed: int, groups: Indices | None = None) -> tuple[Indices, Indices]:
    """Hold out `count` of n images at random. Return the indices of images to keep and to hold out, both ascending.

    The last `count` indices of a permutation seeded with `seed` are held out.
    groups: [n], the group of each image, such as its patient. Groups are never divided, so fewer than `count` images
        may be held out: in random order, each group is held out if it still fits into `count`.
    """
    random = np.random.RandomState(seed if seed < 2**32 else [seed % 2**32, seed >> 32])
    if groups is None:
        held = np.zeros(n, dtype=bool)
        held[random.permutation(n)[n - count :]] = True
    else:
        _, member, sizes = np.unique(groups, return_inverse=True, return_counts=True)
        chosen = np.zeros(len(sizes), dtype=bool)
        left = count
        for group in random.permutation(len(sizes))[::-1]:
            if sizes[group] <= left:
                chosen[group] = True
                left -= int(sizes[group])
        held = chosen[member]
    return np.flatnonzero(~held), np.flatnonzero(held)


def with_test(found: ParsedData, seed: int) -> ParsedData:
    """If the data has no test set, hold out a tenth of the training images as test images, at most 7,000."""
    if found.test is not None:
        return found
    n = len(found.train)
    kept, held = hold_out(n, min(_MOST_TEST, n // 10), seed, found.train.members)
    return ParsedData(**{**vars(found), "train": found.train.subset(kept), "test": found.train.subset(held)})


def finish(found: ParsedData, *, validation: int | None, seed: int) -> Dataset:
    """Return the finished data set. If it has no validation set, hold out training images for it.

    validation: the number of images to hold out; None means a tenth, at most 5,000. 0 makes the validation set empty,
        even if the data has one.
    """
    n = len(found.train)
    train, held_set = found.train, found.validation
    nothing = np.zeros(0, dtype=np.int64)
    if validation == 0:
        held_set = train.subset(nothing)
    elif held_set is None:
        count = min(_MOST_VALIDATION, n // 10) if validation is None else validation
        if validation is not None and validation >= n:
            raise ValueError(
                f"{found.name} has {n:,} training images, so {validation:,} cannot be held out for validation: "
                f"give --validation a number below {n}"
            )
        kept, held = hold_out(n, count, seed, found.train.members)
        train, held_set = train.subset(kept), train.subset(held)
    if len(train) == 0:
        raise ValueError(
            f"{found.name} has no images left to train on ({len(held_set):,} are used for validation and "
            f"{0 if found.test is None else len(found.test):,} for testing): add training images"
        )
    return Dataset(
        kind=" + ".join(found.kinds),
        train=train,
        validation=held_set,
        test=train.subset(nothing) if found.test is None else found.test,
        label_names=found.label_names,
        flips=found.flips,
        skipped=found.skipped,
        skipped_images=found.skipped_images,
    )
