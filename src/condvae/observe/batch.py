"""What goes through a training step together: images, and what their data set knows of them."""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class Batch:
    """Images [B, C, H, W] in [-1, 1] with their labels and partners, where there are any."""

    x: Tensor
    labels: Tensor | None = None
    """[B] int64: one class each; or [B, K] uint8: which of K findings hold."""
    paired: Tensor | None = None
    """[B, C', H, W] in [-1, 1]: another picture of the same thing, such as its edges."""

    def __len__(self) -> int:
        return self.x.shape[0]

    def mirrored(self, which: Tensor) -> "Batch":
        """Left and right swapped where `which` ([B] bool) says so, in partners too."""

        def swap(images: Tensor) -> Tensor:
            return torch.where(which.view(-1, 1, 1, 1), images.flip(3), images)

        return Batch(x=swap(self.x), labels=self.labels, paired=None if self.paired is None else swap(self.paired))
