"""What a set of images is known by in fingerprints."""

import hashlib

import numpy as np
from numpy.typing import NDArray

from condvae.data.image_set import ImageSet
from condvae.data.order import spread

_HASHED = 20_000
"""Images of a set that its digest looks at."""


def digest_of_set(images: ImageSet) -> str:
    """A digest of a set of images: of all of them, or of 20,000 evenly over it and their number."""
    digest = hashlib.sha256(str((len(images), images.size, images.channels)).encode())
    chosen = spread(len(images), _HASHED)
    for first in range(0, len(chosen), 1000):
        digest.update(pixels_of(images, chosen[first : first + 1000]))
    return digest.hexdigest()[:24]


def pixels_of(images: ImageSet, positions: NDArray[np.int64]) -> bytes:
    """Some images of a set, as they lie on disk."""
    return images.gather(positions).images.numpy().tobytes()
