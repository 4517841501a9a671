"""Baselines by name."""

import numpy as np
import pytest
import torch

from condvae.completers import BASELINES, HarmonicFill, TrainingMean, baselines_of
from condvae.data import ImageSet


def some(n: int) -> ImageSet:
    images = np.random.RandomState(0).randint(256, size=(n, 8, 8, 1)).astype(np.uint8)
    return ImageSet(images=images, rows=np.arange(n))


def test_baselines_use_the_given_training_images() -> None:
    images = some(5)
    made = baselines_of(BASELINES, images)
    assert tuple(made) == BASELINES and len({completer.name for completer in made.values()}) == 4
    mean, fill = made["mean"], made["harmonic"]
    assert isinstance(mean, TrainingMean) and isinstance(fill, HarmonicFill) and fill.channels == 1
    assert torch.equal(
        mean.image, torch.from_numpy(images.images.mean(axis=0).round().astype(np.uint8)).permute(2, 0, 1)
    )
    assert fill.fallback is mean.image
    assert baselines_of([], some(0)) == {}


def test_unknown_names_and_empty_data_are_rejected() -> None:
    with pytest.raises(ValueError, match="unknown baseline 'magic': expected some of mean, random, nearest, harmonic"):
        baselines_of(["magic"], some(5))
    with pytest.raises(ValueError, match="no training images"):
        baselines_of(["mean"], some(0))
