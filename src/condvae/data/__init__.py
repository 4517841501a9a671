"""Read data sets from disk, split them, order the training images, and move batches to the device."""

from typing import TYPE_CHECKING

from condvae.runtime.lazy import finder

if TYPE_CHECKING:
    from condvae.data.delivery import deliver
    from condvae.data.image_set import Dataset, ImageSet, LevelBatch
    from condvae.data.layouts import open_data
    from condvae.data.order import Order

_HOMES = {
    "Dataset": "condvae.data.image_set",
    "ImageSet": "condvae.data.image_set",
    "LevelBatch": "condvae.data.image_set",
    "Order": "condvae.data.order",
    "deliver": "condvae.data.delivery",
    "open_data": "condvae.data.layouts",
}

__all__ = ["Dataset", "ImageSet", "LevelBatch", "Order", "deliver", "open_data"]

__getattr__ = finder(__name__, _HOMES)
