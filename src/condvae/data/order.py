"""The order in which training uses its images. It is a pure function of the seed and the position."""

import numpy as np

from condvae.data.image_set import Indices
from condvae.runtime.checks import check_whole

_EPOCHS_KEPT = 2  # a batch spans at most two epochs, unless it is larger than the set


class Order:
    """An endless sequence of epochs, each a random permutation of all n images.

    The image at a position depends only on the seed and the position, so a run can resume exactly. The last
    permutations are cached only to save time.
    """

    def __init__(self, n: int, seed: int) -> None:
        check_whole(n, "the number of images", least=1)
        if not isinstance(seed, int) or isinstance(seed, bool) or not 0 <= seed < 2**64:
            raise ValueError(f"the seed of the image order is {seed!r}, expected a whole number from 0 to 2**64 - 1")
        self.n = n
        self.seed = seed
        self._kept: dict[int, Indices] = {}

    def __call__(self, start: int, count: int) -> Indices:
        """Return which images are at positions start to start + count - 1 of the sequence, as indices."""
        if start < 0 or count < 0:
            raise ValueError(f"start is {start} and count is {count}, expected both to be 0 or more")
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
            # RandomState, because NumPy guarantees that its permutations stay the same in all versions.
            random = np.random.RandomState(np.random.Philox(key=np.array([self.seed, epoch], dtype=np.uint64)))
            while len(self._kept) >= _EPOCHS_KEPT:
                self._kept.pop(next(iter(self._kept)))
            self._kept[epoch] = random.permutation(self.n).astype(np.int64, copy=False)
        return self._kept[epoch]


def spread(n: int, count: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Return `count` evenly spaced whole numbers from 0 to n - 1, or all n of them if n < count."""
    return np.arange(min(n, count)) * n // max(min(n, count), 1)
