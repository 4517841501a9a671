"""The names of the baselines and what each one does. This module does not import torch, so that `--help` is quick."""

BASELINE_MEANINGS = {
    "mean": "the mean of all training images",
    "random": "random training images",
    "nearest": "the training images nearest to the known pixels",
    "harmonic": "a smooth interpolation of the known pixels",
}
"""What each baseline puts into the hidden pixels."""

BASELINES = tuple(BASELINE_MEANINGS)
