"""The data layouts that `open_data` recognises.

This module does not import NumPy, so that `--help` is quick.
"""

LAYOUT_MEANINGS = {
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
"""For each value of `condvae.data.splits.ParsedData.kind`: the files that the data set consists of."""
