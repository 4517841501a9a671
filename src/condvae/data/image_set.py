"""A data set in memory or memory-mapped: rows of one array, three sets of them, and what a batch is made of."""

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

_SAMPLE = 20_000  # images are enough for a mean and a standard deviation to four digits
_SAMPLE_SEED = 5


class LevelBatch(NamedTuple):
    """8-bit grey levels on their way to a training step."""

    images: Tensor  # [B, C, H, W] uint8
    labels: Tensor | None  # [B] int64 or [B, K] uint8
    paired: Tensor | None  # [B, C', H, W] uint8

    def to(self, device: torch.device, non_blocking: bool = False) -> "LevelBatch":
        """The same on another device."""
        return LevelBatch(
            self.images.to(device, non_blocking=non_blocking),
            None if self.labels is None else self.labels.to(device, non_blocking=non_blocking),
            None if self.paired is None else self.paired.to(device, non_blocking=non_blocking),
        )

    def pinned(self) -> "LevelBatch":
        """In memory that a GPU can copy from by itself."""
        return LevelBatch(
            self.images.pin_memory(),
            None if self.labels is None else self.labels.pin_memory(),
            None if self.paired is None else self.paired.pin_memory(),
        )

    def batch(self) -> Batch:
        """As floats in [-1, 1]."""
        return Batch(
            x=from_uint8(self.images),
            labels=self.labels,
            paired=None if self.paired is None else from_uint8(self.paired),
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class ImageSet:
    """Some rows of an array of images, which is shared and not copied."""

    images: PixelArray
    """[N_all, H, W, C], in memory or memory-mapped."""
    labels: Labels | None = None
    """[N_all] int64: one class each; or [N_all, K] uint8: which of K findings hold."""
    paired: PixelArray | None = None
    """[N_all, H, W, C']: another picture of the same thing, such as its edges."""
    groups: Indices | None = None
    """[N_all]: who is on each image, where several may be of one patient or person."""
    rows: Indices
    """[N] indices into the arrays above."""

    def __post_init__(self) -> None:
        """Refuse what is not an array of square 8-bit images, with as many labels and partners."""
        shape = self.images.shape
        if self.images.dtype != np.uint8 or len(shape) != 4 or shape[1] != shape[2] or shape[3] not in (1, 3):
            raise ValueError(
                f"images are {self.images.dtype} {list(shape)}, expected uint8 [N, size, size, 1 or 3 channels]"
            )
        for name, other in (("labels", self.labels), ("paired images", self.paired), ("groups", self.groups)):
            if other is not None and len(other) != shape[0]:
                raise ValueError(f"there are {shape[0]:,} images and {len(other):,} {name}, expected as many")

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def size(self) -> int:
        """Pixels per side."""
        return int(self.images.shape[1])

    @property
    def channels(self) -> int:
        """1 for grey, 3 for RGB."""
        return int(self.images.shape[3])

    @property
    def members(self) -> Indices | None:
        """[N]: who is on these images."""
        return None if self.groups is None else self.groups[self.rows]

    @property
    def nbytes(self) -> int:
        """What the pixels of these rows take."""
        return sum(len(self) * int(np.prod(a.shape[1:])) for a in (self.images, self.paired) if a is not None)

    def gather(self, positions: Indices) -> LevelBatch:
        """The images at these positions as they lie on disk, [B, H, W, C]; labels as in `take`."""
        rows = self.rows[positions]

        def rows_of(array: NDArray[Any] | None) -> Tensor | None:
            return None if array is None else torch.from_numpy(np.asarray(array)[rows])

        images = rows_of(self.images)
        assert images is not None
        return LevelBatch(images, rows_of(self.labels), rows_of(self.paired))

    def take(self, positions: Indices) -> LevelBatch:
        """The images at these positions of the set, [B, C, H, W]."""
        return channels_first(self.gather(positions))

    def subset(self, positions: Indices) -> "ImageSet":
        """The set of the images at these positions."""
        return replace(self, rows=self.rows[positions])

    def normalisation(self) -> tuple[float, float]:
        """Mean and standard deviation of the grey levels 0..255, of at most 20,000 of the images."""
        rows = self.rows
        if len(rows) == 0:
            raise ValueError("an empty set of images has no mean grey level: give a set with images")
        if len(rows) > _SAMPLE:
            rows = np.sort(np.random.RandomState(_SAMPLE_SEED).permutation(rows)[:_SAMPLE])
        counts = np.zeros(256, dtype=np.int64)
        step = max(1, 2**24 // int(np.prod(self.images.shape[1:])))  # bincount widens its input eightfold
        for start in range(0, len(rows), step):
            counts += np.bincount(np.asarray(self.images)[rows[start : start + step]].ravel(), minlength=256)
        levels = np.arange(256, dtype=np.float64)
        mean = float(counts @ levels / counts.sum())
        std = float(np.sqrt(counts @ (levels - mean) ** 2 / counts.sum()))
        if std == 0:
            raise ValueError(f"every pixel of the images has grey level {mean:g}: give images that differ")
        return mean, std


def channels_first(levels: LevelBatch) -> LevelBatch:
    """[B, H, W, C] -> [B, C, H, W], contiguous wherever they come from, so that networks compute the same bits."""
    images, labels, paired = levels
    return LevelBatch(
        images.permute(0, 3, 1, 2).contiguous(),
        labels,
        None if paired is None else paired.permute(0, 3, 1, 2).contiguous(),
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class Dataset:
    """Three sets of images without a common one, and what is known of all of them."""

    kind: str
    train: ImageSet
    validation: ImageSet
    test: ImageSet
    label_names: tuple[str, ...] | None
    flips: bool
    """Whether a mirrored image is as good as the image: not so for digits and chest x-rays."""
    skipped: tuple[str, ...]
    """What was left out: 'name: reason' for each broken file."""

    def seen_before(self, test: ImageSet) -> int | None:
        """How many of those on some test images are on training or validation images too; None if nobody said who."""
        known = [one.members for one in (self.train, self.validation) if len(one)]
        seen = [members for members in known if members is not None]
        if test.members is None or len(seen) < len(known):
            return None
        return len(np.intersect1d(test.members, np.concatenate([test.members[:0], *seen])))

    def summary(self) -> str:
        """One line for the log."""
        train = self.train
        text = (
            f"{self.kind}: {len(train):,} training, {len(self.validation):,} validation and {len(self.test):,} test "
            f"images of {train.size} x {train.size} x {train.channels}"
        )
        if train.paired is not None:
            text += f", each with a partner of {train.paired.shape[3]} channels"
        if train.labels is not None:
            text += f", {_label_count(train.labels, self.label_names)} labels"
        if self.skipped:
            text += f"; {len(self.skipped)} skipped, the first is {self.skipped[0]}"
        return text


def _label_count(labels: Labels, names: Sequence[str] | None) -> int:
    if names is not None:
        return len(names)
    return int(labels.shape[1]) if labels.ndim == 2 else int(labels.max()) + 1
