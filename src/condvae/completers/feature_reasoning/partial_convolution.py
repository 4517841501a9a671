"""Partial convolutions (Liu et al. 2018), and the parts of Recurrent Feature Reasoning that are made of them.

A partial convolution sees only known values, and makes up for the missing ones by a factor. It also returns
where the result is known: wherever its window contains a known value. So every layer shrinks the hole.

Here, `known` is a float32 tensor of zeros and ones. It has one channel if it is the same for all channels of the
features.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from condvae.completers.learned_completer import batch_norm

_EPSILON = 1e-8


class PartialConvolution(nn.Module):
    """A convolution of the known values: conv(x * known) * N / (number of known values in the window).

    N is the number of values in a window, in all channels. Where a window has no known value, the result is 0.
    """

    def __init__(self, inputs: int, outputs: int, kernel: int, *, stride: int = 1) -> None:
        super().__init__()
        self.inputs = inputs
        self.kernel = kernel
        self.stride = stride
        self.convolution = nn.Conv2d(inputs, outputs, kernel, stride=stride, padding=kernel // 2, bias=False)

    def forward(self, x: Tensor, known: Tensor) -> tuple[Tensor, Tensor]:
        """Convolve the known values of x; returns [B, outputs, h, w], and where it is known, [B, 1, h, w].

        x: [B, inputs, H, W]. known: [B, 1, H, W] or [B, inputs, H, W]. Padding counts as unknown, so results at the
        border are scaled up too.
        """
        count = self.known_in_window(known)
        now_known = count.clamp(0, 1)
        # The factor is zero before it meets the convolution, so that empty windows give neither infinity nor NaN.
        factor = self.inputs * self.kernel**2 / (count + _EPSILON) * now_known
        y: Tensor = self.convolution(x * known.to(x.dtype))
        return y * factor.to(y.dtype), now_known

    def known_in_window(self, known: Tensor) -> Tensor:
        """Count the known values in every window, over all channels, as float32 [B, 1, h, w]."""
        each = known.sum(dim=1, keepdim=True) * (self.inputs // known.shape[1])
        return F.avg_pool2d(each, self.kernel, self.stride, padding=self.kernel // 2, divisor_override=1)


class PartialStem(nn.Module):
    """The first layers: two partial convolutions, each with BatchNorm and ReLU, that halve the resolution."""

    def __init__(self, inputs: int, width: int, kernels: tuple[int, int]) -> None:
        super().__init__()
        self.first = PartialConvolution(inputs, width, kernels[0], stride=2)
        self.first_norm = batch_norm(width)
        self.second = PartialConvolution(width, width, kernels[1])
        self.second_norm = batch_norm(width)

    def forward(self, image: Tensor, known: Tensor) -> tuple[Tensor, Tensor]:
        """Compute features [B, width, H/2, W/2], and where they are known. image: [B, C, H, W], known: [B, 1, H, W]."""
        x, known = self.first(image, known)
        x, known = self.second(F.relu(self.first_norm(x)), known)
        return F.relu(self.second_norm(x)), known


class HoleShrinking(nn.Module):
    """The first part of a round: two partial convolutions in a row, then BatchNorm and a leaky ReLU."""

    def __init__(self, width: int, kernels: tuple[int, int]) -> None:
        super().__init__()
        self.first = PartialConvolution(width, width, kernels[0])
        self.second = PartialConvolution(width, width, kernels[1])
        self.norm = batch_norm(width)

    def forward(self, x: Tensor, known: Tensor) -> tuple[Tensor, Tensor]:
        """Extend the known region of x [B, width, h, w] by `growth` pixels on every side. known: [B, 1, h, w]."""
        x, known = self.second(*self.first(x, known))
        return F.leaky_relu(self.norm(x), 0.01), known


class PartialHead(nn.Module):
    """The last layers: double the resolution, add the image with its hole, and compute the completed image."""

    def __init__(self, width: int, inner: int, channels: int) -> None:
        super().__init__()
        self.up = nn.ConvTranspose2d(width, width, 4, stride=2, padding=1, bias=False)
        self.up_norm = batch_norm(width)
        self.merge = PartialConvolution(width + channels, inner, 3)
        narrow = inner // 4
        self.bottleneck = nn.Sequential(
            *(nn.Conv2d(inner, narrow, 1, bias=False), batch_norm(narrow), nn.ReLU()),
            *(nn.Conv2d(narrow, narrow, 3, padding=1, bias=False), batch_norm(narrow), nn.ReLU()),
            *(nn.Conv2d(narrow, inner, 1, bias=False), batch_norm(inner)),
        )
        self.last = nn.Conv2d(2 * inner, channels, 3, padding=1)

    def forward(self, features: Tensor, features_known: Tensor, image: Tensor, known: Tensor) -> Tensor:
        """Compute the image [B, C, H, W]. features: [B, width, H/2, W/2]; features_known, known: [B, 1, ...]."""
        x = F.leaky_relu(self.up_norm(self.up(features)), 0.2)
        up_known = F.interpolate(features_known, scale_factor=2, mode="nearest")
        both_known = torch.cat((up_known.expand(-1, x.shape[1], -1, -1), known.expand(-1, image.shape[1], -1, -1)), 1)
        x, _ = self.merge(torch.cat((x, image.to(x.dtype)), dim=1), both_known)
        x = F.leaky_relu(x, 0.2)
        y: Tensor = self.last(torch.cat((x, F.relu(x + self.bottleneck(x))), dim=1))
        return y


def growth(kernels: tuple[int, int]) -> int:
    """Return by how many pixels a round extends the known region on every side."""
    return sum(kernel // 2 for kernel in kernels)
