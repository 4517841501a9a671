"""Images a little different each time they are seen: all of a batch at once, on its device."""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class Augmentation:
    """How far images are moved at most; every number is drawn evenly up to it, both ways."""

    shift: float = 0.0
    """As a share of half the image's width."""
    scale: float = 0.0
    """Share by which sides grow or shrink."""
    rotation: float = 0.0
    """Degrees."""
    contrast: float = 0.0
    """Share by which differences from mid-grey grow or shrink."""
    brightness: float = 0.0
    """Added, in [-1, 1]."""
    blur: float = 0.0
    """Share of the images that are smoothed by 3 x 3 means, as completions are smoother than photographs."""
    flips: bool = False
    """Mirror half of the images."""

    def __call__(self, x: Tensor, generator: torch.Generator) -> Tensor:
        """x: [B, C, H, W] in [-1, 1], which stay there. Beyond the edges is what lies at the edges."""
        n, device = len(x), x.device
        if not n or self == Augmentation():
            return x
        # As many numbers for every image whatever is done with them, so that one strength does not shuffle the others.
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
