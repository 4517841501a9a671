"""A training batch: images from the data set, with their labels or paired images."""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class Batch:
    """Images [B, C, H, W] in [-1, 1] with their labels and paired images, if there are any."""

    x: Tensor
    labels: Tensor | None = None
    """[B] int64: the class of each image. Or [B, K] uint8: for each of K findings, 1 if the image shows it, else 0."""
    paired: Tensor | None = None
    """[B, C', H, W] in [-1, 1]: for each image, a second image of the same subject, such as a drawing of its edges."""

    def __len__(self) -> int:
        return self.x.shape[0]

    def mirrored(self, which: Tensor) -> "Batch":
        """Mirror the images (left to right), and their paired images, where `which` ([B] bool) is True."""

        def swap(images: Tensor) -> Tensor:
            return torch.where(which.view(-1, 1, 1, 1), images.flip(3), images)

        return Batch(x=swap(self.x), labels=self.labels, paired=None if self.paired is None else swap(self.paired))
