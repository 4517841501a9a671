"""Small models with an observation process, and a small data set, for tests of out-of-distribution detection."""

from typing import Literal

import numpy as np
from helpers.models import SMALLEST, small_conditional

from condvae.conditional import ConditionalVAE
from condvae.data import Dataset, ImageSet
from condvae.observe import Freeform, Process

SIZE = 8


def observing(form: Literal["direct", "relative"] = "direct", process: Process | None = None) -> ConditionalVAE:
    """Return a model of 8 x 8 RGB images with random weights; its default observation process is freeform holes."""
    model = small_conditional(SMALLEST, form=form)
    model.process = process or Freeform()
    return model.eval()


def plain_data(*, train: int = 60, validation: int = 20, test: int = 20, seed: int = 0) -> Dataset:
    """Return a data set of smooth images: linear colour gradients with a little noise."""
    dice = np.random.default_rng(seed)
    count = train + validation + test
    slope, level = dice.uniform(-60, 60, (2, count, 1, 1, 3)), dice.uniform(90, 160, (count, 1, 1, 3))
    along = np.linspace(-0.5, 0.5, SIZE)
    smooth = level + slope[0] * along[None, :, None, None] + slope[1] * along[None, None, :, None]
    images = np.clip(smooth + dice.normal(0, 4, smooth.shape), 0, 255).astype(np.uint8)
    every = ImageSet(images=images, labels=np.arange(count) % 3, rows=np.arange(count))
    return Dataset(
        kind="slopes",
        train=every.subset(np.arange(train)),
        validation=every.subset(np.arange(train, train + validation)),
        test=every.subset(np.arange(train + validation, count)),
        label_names=None,
        flips=True,
        skipped=(),
    )
