"""Data sets on disk: recognise their layout, split them, order the training images and move batches to the device."""

from condvae.data.delivery import deliver
from condvae.data.image_set import Dataset, ImageSet, LevelBatch
from condvae.data.layouts import open_data
from condvae.data.order import Order

__all__ = ["Dataset", "ImageSet", "LevelBatch", "Order", "deliver", "open_data"]
