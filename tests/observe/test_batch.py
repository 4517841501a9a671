"""Mirroring a batch keeps images and their paired images consistent."""

import torch
from helpers.models import images

from condvae.observe.batch import Batch


def test_mirroring_flips_images_and_paired_images_and_keeps_labels() -> None:
    batch = Batch(x=images(3), labels=torch.arange(3), paired=images(3, seed=1))
    mirrored = batch.mirrored(torch.tensor([True, False, True]))
    assert batch.paired is not None and mirrored.paired is not None
    for mine, theirs in ((batch.x, mirrored.x), (batch.paired, mirrored.paired)):
        assert torch.equal(theirs[1], mine[1])
        assert torch.equal(theirs[0], mine[0].flip(2))
    assert mirrored.labels is batch.labels
    assert len(mirrored) == 3
    again = mirrored.mirrored(torch.tensor([True, False, True]))
    assert torch.equal(again.x, batch.x)
