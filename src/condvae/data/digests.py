"""Digests of sets of images. Fingerprints contain them to identify a set."""

import hashlib

import numpy as np
from numpy.typing import NDArray

from condvae.data.image_set import ImageSet
from condvae.data.order import spread

_HASHED = 20_000
"""The digest of a set depends on the pixels of at most this number of images."""


def digest_of_set(images: ImageSet) -> str:
    """Return a digest of the number of images, their shape, and the pixels of up to 20,000 evenly spaced images."""
    digest = hashlib.sha256(str((len(images), images.size, images.channels)).encode())
    chosen = spread(len(images), _HASHED)
    for first in range(0, len(chosen), 1000):
        digest.update(pixels_of(images, chosen[first : first + 1000]))
    return digest.hexdigest()[:24]


def pixels_of(images: ImageSet, positions: NDArray[np.int64]) -> bytes:
    """Return the pixels of the images at these positions as bytes, in the order [B, H, W, C]."""
    return images.gather(positions).images.numpy().tobytes()
