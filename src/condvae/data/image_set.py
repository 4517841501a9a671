"""Classes for images: `ImageSet`, a set; `Dataset`, a training, validation and test set; `LevelBatch`, a batch."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from condvae.observe.batch import Batch
from condvae.runtime.pixels import PixelArray, from_uint8

Indices = NDArray[np.int64]
Labels = NDArray[Any]  # [N] int64 or [N, K] uint8

MOST_CLASSES = 1_000_000
"""Class numbers are below this limit: the largest data sets of faces show fewer people."""
_SAMPLE = 20_000  # this number of images gives the mean and the standard deviation to four digits
_SAMPLE_SEED = 5


def class_numbers(values: Sequence[int] | NDArray[Any], place: object) -> Labels:
    """Return whole numbers as class numbers, [N] int64; raise ValueError if one is negative or too large.

    place: the file of the labels, for the error message.
    """
    if len(values) and not (min(values) >= 0 and max(values) < MOST_CLASSES):
        raise ValueError(
            f"the labels in {place} are numbers from {min(values)} to {max(values)}, expected numbers from 0 to "
            f"{MOST_CLASSES - 1:,}: number the classes from 0"
        )
    return np.asarray(values, dtype=np.int64)


class LevelBatch(NamedTuple):
    """A batch of images as 8-bit grey levels, before the training step converts it to floats."""

    images: Tensor  # [B, C, H, W] uint8
    labels: Tensor | None  # [B] int64 or [B, K] uint8
    paired: Tensor | None  # [B, C', H, W] uint8

    def to(self, device: torch.device, non_blocking: bool = False) -> "LevelBatch":
        """Return a copy of the batch on another device."""
        return LevelBatch(
            self.images.to(device, non_blocking=non_blocking),
            None if self.labels is None else self.labels.to(device, non_blocking=non_blocking),
            None if self.paired is None else self.paired.to(device, non_blocking=non_blocking),
        )

    def pinned(self) -> "LevelBatch":
        """Return a copy of the batch in pinned memory, from which a GPU can copy asynchronously."""
        return LevelBatch(
            self.images.pin_memory(),
            None if self.labels is None else self.labels.pin_memory(),
            None if self.paired is None else self.paired.pin_memory(),
        )

    def batch(self) -> Batch:
        """Return the batch with its images as floats in [-1, 1]."""
        return Batch(
            x=from_uint8(self.images),
            labels=self.labels,
            paired=None if self.paired is None else from_uint8(self.paired),
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class ImageSet:
    """A set of images: some rows of an array of images. Several sets can share one array without copies."""

    images: PixelArray
    """[N_all, H, W, C]: the array of images, in memory or memory-mapped."""
    labels: Labels | None = None
    """[N_all] int64: the class of each image. Or [N_all, K] uint8: for each of K findings, 1 if present, 0 if not."""
    paired: PixelArray | None = None
    """[N_all, H, W, C']: for each image, a second picture of the same content, such as its edges."""
    groups: Indices | None = None
    """[N_all]: for each image, a number that identifies the patient or person shown; None if unknown."""
    files: Sequence[str] | None = None
    """[N_all]: the path of each image inside its folder or zip file; None for layouts without a file per image."""
    rows: Indices
    """[N]: the rows of the arrays above that belong to this set."""

    def __post_init__(self) -> None:
        """Raise ValueError unless the images are uint8 and square, and every other array has one row per image."""
        shape = self.images.shape
        if self.images.dtype != np.uint8 or len(shape) != 4 or shape[1] != shape[2] or shape[3] not in (1, 3):
            raise ValueError(
                f"the images are {self.images.dtype} of shape {list(shape)}, expected uint8 of shape "
                "[N, size, size, C] with C = 1 or 3 channels"
            )
        given = {"labels": self.labels, "paired images": self.paired, "groups": self.groups, "file names": self.files}
        for name, other in given.items():
            if other is not None and len(other) != shape[0]:
                raise ValueError(f"there are {shape[0]:,} images but {len(other):,} {name}, expected the same number")

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def size(self) -> int:
        """Width and height of the images, in pixels."""
        return int(self.images.shape[1])

    @property
    def channels(self) -> int:
        """Number of colour channels: 1 for grey, 3 for RGB."""
        return int(self.images.shape[3])

    @property
    def members(self) -> Indices | None:
        """[N]: for each image of this set, a number that identifies the patient or person shown; None if unknown."""
        return None if self.groups is None else self.groups[self.rows]

    @property
    def names(self) -> list[str] | None:
        """[N]: for each image of this set, its path inside its folder or zip file; None if images are not files."""
        return None if self.files is None else [self.files[row] for row in self.rows]

    @property
    def nbytes(self) -> int:
        """The size of the images in this set, in bytes, including paired images."""
        return sum(len(self) * int(np.prod(a.shape[1:])) for a in (self.images, self.paired) if a is not None)

    def gather(self, positions: Indices) -> LevelBatch:
        """Return the images at these positions of the set as [B, H, W, C], with their labels and paired images."""
        rows = self.rows[positions]

        def rows_of(array: NDArray[Any] | None) -> Tensor | None:
            return None if array is None else torch.from_numpy(np.asarray(array)[rows])

        images = rows_of(self.images)
        assert images is not None
        return LevelBatch(images, rows_of(self.labels), rows_of(self.paired))

    def take(self, positions: Indices) -> LevelBatch:
        """Return the images at these positions of the set as [B, C, H, W], with their labels and paired images."""
        return channels_first(self.gather(positions))

    def subset(self, positions: Indices) -> "ImageSet":
        """Return a smaller set, with only the images at these positions."""
        return replace(self, rows=self.rows[positions])

    def normalisation(self) -> tuple[float, float]:
        """Return the mean and standard deviation of the grey levels (0 to 255) of up to 20,000 random images."""
        rows = self.rows
        if len(rows) == 0:
            raise ValueError("an empty set of images has no mean grey level: give at least one image")
        if len(rows) > _SAMPLE:
            rows = np.sort(np.random.RandomState(_SAMPLE_SEED).permutation(rows)[:_SAMPLE])
        counts = np.zeros(256, dtype=np.int64)
        step = max(1, 2**24 // int(np.prod(self.images.shape[1:])))  # bincount widens each pixel to eight bytes
        for start in range(0, len(rows), step):
            counts += np.bincount(np.asarray(self.images)[rows[start : start + step]].ravel(), minlength=256)
        levels = np.arange(256, dtype=np.float64)
        mean = float(counts @ levels / counts.sum())
        std = float(np.sqrt(counts @ (levels - mean) ** 2 / counts.sum()))
        if std == 0:
            raise ValueError(f"all pixels of all images have grey level {mean:g}: give images with some variation")
        return mean, std


def channels_first(levels: LevelBatch) -> LevelBatch:
    """Convert images from [B, H, W, C] to contiguous [B, C, H, W].

    The memory layout must always be the same, because the rounding errors of a network can depend on it.
    """
    images, labels, paired = levels
    return LevelBatch(
        images.permute(0, 3, 1, 2).contiguous(),
        labels,
        None if paired is None else paired.permute(0, 3, 1, 2).contiguous(),
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class Dataset:
    """A data set, divided into training, validation and test images. No image is in two of them."""

    kind: str
    train: ImageSet
    validation: ImageSet
    test: ImageSet
    label_names: tuple[str, ...] | None
    flips: bool
    """Whether training may mirror images. False for digits and chest x-rays."""
    skipped: tuple[str, ...]
    """Lines 'name: reason' about images that were left out: one per broken file, and one per count of images that are
    missing or belong to no split."""
    skipped_images: int = 0
    """Number of images that were left out."""

    def seen_before(self, test: ImageSet) -> int | None:
        """Count the people shown in `test` who also appear in training or validation images.

        Return None if the data set does not identify the people (`ImageSet.groups`).
        """
        known = [one.members for one in (self.train, self.validation) if len(one)]
        seen = [members for members in known if members is not None]
        if test.members is None or len(seen) < len(known):
            return None
        return len(np.intersect1d(test.members, np.concatenate([test.members[:0], *seen])))

    def summary(self) -> str:
        """Describe the data set in one line, for the log."""
        train = self.train
        text = (
            f"{self.kind}: {len(train):,} training, {len(self.validation):,} validation and {len(self.test):,} test "
            f"images of {train.size} x {train.size} x {train.channels}"
        )
        if train.paired is not None:
            text += f", each paired with a {train.paired.shape[3]}-channel image"
        if train.labels is not None:
            text += f", {_label_count(train.labels, self.label_names)} labels"
        if self.skipped:
            count = max(self.skipped_images, len(self.skipped))
            text += f"; {count:,} skipped ({self.skipped[0]}{'; ...' if len(self.skipped) > 1 else ''})"
        return text


def _label_count(labels: Labels, names: Sequence[str] | None) -> int:
    if names is not None:
        return len(names)
    return int(labels.shape[1]) if labels.ndim == 2 else int(labels.max()) + 1
