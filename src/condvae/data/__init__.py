"""Images from disk: the standard layouts, their splits, the order of training and the way to the device."""

from condvae.data.delivery import deliver
from condvae.data.image_set import Dataset, ImageSet, LevelBatch
from condvae.data.layouts import open_data
from condvae.data.order import Order

__all__ = ["Dataset", "ImageSet", "LevelBatch", "Order", "deliver", "open_data"]
