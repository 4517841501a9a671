"""The data layouts that `open_data` recognises.

This module does not import NumPy, so that `--help` is quick.
"""

from typing import Literal, TypeAlias

Layout: TypeAlias = Literal["images", "pack", "pairs", "npy", "npz", "cifar10", "svhn", "idx", "chest-xray14"]
LAYOUT_MEANINGS: dict[Layout, str] = {
    "images": "a folder or zip of image files",
    "pack": "a folder or zip with a dataset.json",
    "pairs": "pix2pix pairs",
    "npy": ".npy arrays",
    "npz": ".npz arrays",
    "cifar10": "CIFAR-10's python batches",
    "svhn": "SVHN's .mat files",
    "idx": "MNIST's idx files",
    "chest-xray14": "Chest X-ray 14",
}
"""The files that a data set of each layout consists of."""
