"""Which images are for training, validation and testing."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from condvae.data.image_set import Dataset, ImageSet, Indices
from condvae.images.archive import common_top

_MOST_TEST = 7_000  # of FFHQ's 70,000
_MOST_VALIDATION = 5_000  # of CIFAR-10's 50,000 and of ImageNet
_FOLDERS = {
    "train": "train",
    "test": "test",
    "val": "validation",
    "valid": "validation",
    "validation": "validation",
}


@dataclass(frozen=True, kw_only=True, eq=False)
class Found:
    """What a layout says, before anything is held out."""

    kind: str
    name: str
    """The path as the user gave it."""
    identity: str
    """Changes when the files do."""
    train: ImageSet
    validation: ImageSet | None = None
    test: ImageSet | None = None
    label_names: tuple[str, ...] | None = None
    flips: bool = True
    skipped: tuple[str, ...] = ()


def folder_splits(names: Sequence[str]) -> list[str | None] | None:
    """'train', 'validation' or 'test' per name, by its first folder; None where folders do not say so.

    Folders called so count if they hold all images, or if there are two of them: then images elsewhere get None.
    A lone train/ beside car/ and ship/ is a class.
    """
    top = len(common_top(names)) if not _split_of(common_top(names)) else 0
    splits = [_split_of(name[top:]) for name in names]
    known = set(splits) - {None}
    return splits if known and (None not in splits or len(known) > 1) else None


def _split_of(name: str) -> str | None:
    return _FOLDERS.get(name.split("/", 1)[0].lower()) if "/" in name else None


def hold_out(n: int, count: int, seed: int, groups: Indices | None = None) -> tuple[Indices, Indices]:
    """Indices to keep and `count` positions to hold out: the last of a seeded permutation, in ascending order.

    groups: [n]. Whole groups are held out, as many as fit into `count`, from the last of a permutation of groups.
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


def with_test(found: Found, seed: int) -> Found:
    """Hold a test set out of the training images where the layout has none: a tenth, up to 7,000 images."""
    if found.test is not None:
        return found
    n = len(found.train)
    kept, held = hold_out(n, min(_MOST_TEST, n // 10), seed, found.train.members)
    return Found(**{**vars(found), "train": found.train.subset(kept), "test": found.train.subset(held)})


def finish(found: Found, *, validation: int | None, seed: int) -> Dataset:
    """Hold a validation set out of the training images where there is none; validation=0 asks for none at all."""
    n = len(found.train)
    train, held_set = found.train, found.validation
    nothing = np.zeros(0, dtype=np.int64)
    if validation == 0:
        held_set = train.subset(nothing)
    elif held_set is None:
        count = min(_MOST_VALIDATION, n // 10) if validation is None else validation
        if validation is not None and validation >= n:
            raise ValueError(
                f"{found.name} has {n:,} training images, of which {validation:,} cannot be held out for validation: "
                f"give a --validation below {n}"
            )
        kept, held = hold_out(n, count, seed, found.train.members)
        train, held_set = train.subset(kept), train.subset(held)
    if len(train) == 0:
        raise ValueError(
            f"{found.name} leaves no image to train on ({len(held_set):,} for validation, "
            f"{0 if found.test is None else len(found.test):,} for testing): add training images"
        )
    return Dataset(
        kind=found.kind,
        train=train,
        validation=held_set,
        test=train.subset(nothing) if found.test is None else found.test,
        label_names=found.label_names,
        flips=found.flips,
        skipped=found.skipped,
    )
