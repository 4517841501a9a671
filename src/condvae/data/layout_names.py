"""The layouts of data that `open_data` recognises, without NumPy, so that `--help` is quick."""

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
"""What each kind of `Found` is made from."""
