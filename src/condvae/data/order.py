"""The order in which training sees its images: a pure function of the seed and the position."""

import numpy as np

from condvae.data.image_set import Indices
from condvae.runtime.checks import check_whole

_EPOCHS_KEPT = 2  # a batch spans two epochs at most, unless it is longer than the set


class Order:
    """Which image stands at position p of an endless row of epochs, each a permutation of all images.

    Nothing is remembered from call to call but what can be computed again, so a run resumes exactly by its position.
    """

    def __init__(self, n: int, seed: int) -> None:
        check_whole(n, "the number of images", least=1)
        if not isinstance(seed, int) or isinstance(seed, bool) or not 0 <= seed < 2**64:
            raise ValueError(f"the seed of the order is {seed!r}, expected a whole number of up to 64 bits")
        self.n = n
        self.seed = seed
        self._kept: dict[int, Indices] = {}

    def __call__(self, start: int, count: int) -> Indices:
        """Images at positions start .. start + count - 1."""
        if start < 0 or count < 0:
            raise ValueError(f"positions {start} to {start + count} of an order, expected none below 0")
        parts = []
        position, end = start, start + count
        while position < end:
            epoch, offset = divmod(position, self.n)
            part = self._epoch(epoch)[offset : offset + end - position]
            parts.append(part)
            position += len(part)
        return np.concatenate(parts) if parts else np.zeros(0, dtype=np.int64)

    def _epoch(self, epoch: int) -> Indices:
        if epoch not in self._kept:
            # RandomState, because its permutation is promised to stay the same in all versions of NumPy.
            random = np.random.RandomState(np.random.Philox(key=np.array([self.seed, epoch], dtype=np.uint64)))
            while len(self._kept) >= _EPOCHS_KEPT:
                self._kept.pop(next(iter(self._kept)))
            self._kept[epoch] = random.permutation(self.n).astype(np.int64, copy=False)
        return self._kept[epoch]


def spread(n: int, count: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """At most `count` of the positions 0..n - 1, evenly over them."""
    return np.arange(min(n, count)) * n // max(min(n, count), 1)
