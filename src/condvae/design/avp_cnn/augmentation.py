"""Random augmentation of training images. A whole batch is changed at once, on its device."""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class Augmentation:
    """Random changes to images. Shift to brightness are drawn uniformly between minus and plus the given limit."""

    shift: float = 0.0
    """Largest shift, as a fraction of half the image's width."""
    scale: float = 0.0
    """Largest relative change of size: with 0.1, images are enlarged or shrunk by up to about 10 %."""
    rotation: float = 0.0
    """Largest rotation in degrees."""
    contrast: float = 0.0
    """Largest relative change of contrast, which is the difference of pixels from mid-grey."""
    brightness: float = 0.0
    """Largest value added to the pixels, which are in [-1, 1]."""
    blur: float = 0.0
    """Fraction of the images that are smoothed with a 3 x 3 mean, because completions are smoother than photographs."""
    flips: bool = False
    """Whether to mirror half of the images, chosen at random."""

    def __call__(self, x: Tensor, generator: torch.Generator) -> Tensor:
        """Augment images x [B, C, H, W] in [-1, 1], and clamp the result to [-1, 1].

        Where a changed image needs pixels from outside its border, the pixels at the border are repeated.
        """
        n, device = len(x), x.device
        if not n or self == Augmentation():
            return x
        # Always draw the same numbers, so that changing one limit does not change the other random draws.
        drawn = 2 * torch.rand(8, n, device=device, generator=generator) - 1
        angle, size = drawn[0] * math.radians(self.rotation), 1 + drawn[1] * self.scale
        cosine, sine = angle.cos() * size, angle.sin() * size
        side = torch.where((drawn[2] < 0) & self.flips, -1.0, 1.0)
        rows = (
            torch.stack((cosine * side, -sine, drawn[3] * self.shift), dim=1),
            torch.stack((sine * side, cosine, drawn[4] * self.shift), dim=1),
        )
        if self.shift or self.scale or self.rotation or self.flips:
            grid = F.affine_grid(torch.stack(rows, dim=1), list(x.shape), align_corners=False)
            x = F.grid_sample(x, grid, padding_mode="border", align_corners=False)
        if self.blur:
            smooth = F.avg_pool2d(F.pad(x, (1, 1, 1, 1), mode="replicate"), 3, stride=1)
            x = torch.where((drawn[7] < 2 * self.blur - 1).view(n, 1, 1, 1), smooth, x)
        gain, lift = 1 + drawn[5] * self.contrast, drawn[6] * self.brightness
        return (x * gain.view(n, 1, 1, 1) + lift.view(n, 1, 1, 1)).clamp(-1, 1)
