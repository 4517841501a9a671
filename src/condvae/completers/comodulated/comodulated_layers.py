"""The building blocks of CoModGAN, which are those of StyleGAN2 (Karras et al. 2020).

Weights are drawn from N(0, 1) and scaled by 1 / sqrt(fan-in) when they are used ("equalised learning rate"). The
activation is sqrt(2) LeakyReLU(x). A positive factor commutes with LeakyReLU, so the sqrt(2) is part of the scale of
the weights and biases in front of it (`GAIN`).

The resolution is changed with the filter [1, 3, 3, 1] in both directions. GPUs are slow at filtering each channel by
itself, so the filter is multiplied into the 3x3 kernels instead: filter and kernel together have 6x6 taps, which are
3x3 taps on each of the 2x2 phases of the finer image.
"""

import math
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from condvae.gaussian import full_precision

GAIN = math.sqrt(2)
"""The factor of the activation."""

_SLOPE = 0.2
_EPSILON = 1e-8
_FILTER = (1 / 8, 3 / 8, 3 / 8, 1 / 8)
GROUP = 4
"""Number of images whose standard deviation the discriminator sees."""


def activation(x: Tensor) -> Tensor:
    """LeakyReLU. Its factor `GAIN` belongs to the layer in front of it."""
    return F.leaky_relu(x, _SLOPE)


class EqualDense(nn.Module):
    """A dense layer [B, inputs] -> [B, outputs] with an equalised learning rate, times `gain`.

    rate: a factor on the learning rate of this layer. Weights are stored divided by it, and multiplied when used.
    """

    def __init__(self, inputs: int, outputs: int, *, gain: float = 1.0, rate: float = 1.0) -> None:
        super().__init__()
        self.weight = nn.Parameter(nn.init.normal_(torch.empty(outputs, inputs), std=1 / rate))
        self.bias = nn.Parameter(nn.init.zeros_(torch.empty(outputs)))
        self.scale = gain * rate / math.sqrt(inputs)
        self.bias_scale = gain * rate

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, self.weight * self.scale, self.bias * self.bias_scale)


class EqualConv(nn.Module):
    """A convolution with an equalised learning rate, times `gain`: [B, inputs, R, R] -> [B, outputs, R, R].

    With `down`, for 3x3 kernels only, the image is first filtered, and the result has the resolution R / 2.
    """

    phases: Tensor

    def __init__(
        self, inputs: int, outputs: int, kernel: int, *, gain: float = GAIN, bias: bool = True, down: bool = False
    ) -> None:
        super().__init__()
        assert kernel == 3 or not down
        self.down = down
        self.weight = nn.Parameter(nn.init.normal_(torch.empty(outputs, inputs, kernel, kernel)))
        self.bias = nn.Parameter(nn.init.zeros_(torch.empty(outputs))) if bias else None
        self.scale, self.bias_scale = gain / math.sqrt(inputs * kernel**2), gain
        if down:
            self.register_buffer("phases", phase_matrix("down"), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        weight = self.weight * self.scale
        bias = None if self.bias is None else self.bias * self.bias_scale
        if self.down:
            return down_convolution(x, weight, self.phases, bias)
        return convolution(x, weight, bias)


class ModulatedConv(nn.Module):
    """A convolution whose kernel is scaled by styles s: w'[b, o, i, k] = c w[o, i, k] s[b, i].

    c is 1 / sqrt(fan-in). Instead of the kernel, the input is multiplied by c s: that is the same, and one kernel
    serves the whole batch. With `up`, for 3x3 kernels only, the resolution is doubled.
    """

    phases: Tensor

    def __init__(self, inputs: int, outputs: int, kernel: int, *, up: bool = False) -> None:
        super().__init__()
        assert kernel == 3 or not up
        self.up = up
        self.weight = nn.Parameter(nn.init.normal_(torch.empty(outputs, inputs, kernel, kernel)))
        self.scale = 1 / math.sqrt(inputs * kernel**2)
        if up:
            self.register_buffer("phases", phase_matrix("up"), persistent=False)

    def forward(self, x: Tensor, style: Tensor) -> Tensor:
        """Convolve without demodulation. x: [B, inputs, R, R]. style: [B, inputs] in float32."""
        x = x * _per_channel(style * self.scale, x)
        if self.up:
            return up_convolution(x, self.weight, self.phases)
        return convolution(x, self.weight)

    def demodulation(self, style: Tensor) -> Tensor:
        """Return 1 / sqrt(sum over i, k of w'^2 + 1e-8), which brings the norm of each kernel to 1: [B, outputs]."""
        with torch.autocast(style.device.type, enabled=False):
            squares = self.weight.square().sum(dim=(2, 3)) * self.scale**2
            return torch.rsqrt(style.square() @ squares.mT + _EPSILON)


class StyledLayer(nn.Module):
    """A layer of the generator: modulated 3x3 convolution, demodulation, noise for each pixel, bias and activation."""

    def __init__(self, inputs: int, outputs: int, *, up: bool = False) -> None:
        super().__init__()
        self.conv = ModulatedConv(inputs, outputs, 3, up=up)
        self.noise_strength = nn.Parameter(torch.zeros(1))
        self.bias = nn.Parameter(nn.init.zeros_(torch.empty(outputs)))

    def forward(self, x: Tensor, style: Tensor, noise: Tensor) -> Tensor:
        """Map [B, inputs, R, R] to [B, outputs, S, S]. style: [B, inputs], noise: [B, 1, S, S], both in float32."""
        y: Tensor = self.conv(x, style)
        factor = _per_channel(GAIN * self.conv.demodulation(style), y)
        noise = (GAIN * self.noise_strength * noise).to(y.dtype)
        bias = (GAIN * self.bias).to(y.dtype).view(1, -1, 1, 1)
        return activation(torch.addcmul(noise, y, factor) + bias)


class ToImage(nn.Module):
    """The part of the image at one resolution: a modulated 1x1 convolution without demodulation, in float32."""

    def __init__(self, inputs: int, channels: int) -> None:
        super().__init__()
        self.conv = ModulatedConv(inputs, channels, 1)
        self.bias = nn.Parameter(nn.init.zeros_(torch.empty(channels)))

    def forward(self, x: Tensor, style: Tensor) -> Tensor:
        with torch.autocast(x.device.type, enabled=False):
            image: Tensor = self.conv(full_precision(x), style)
            return image + self.bias.view(1, -1, 1, 1)


def normalise(z: Tensor) -> Tensor:
    """Scale each row of z [B, n] so that its mean square is 1."""
    return z * torch.rsqrt(z.square().mean(dim=1, keepdim=True) + _EPSILON)


def minibatch_std(x: Tensor, *, batches: int = 1) -> Tensor:
    """Add a channel to x [B, C, R, R]: the mean over (C, R, R) of the standard deviations within groups of images.

    A group is 4 consecutive images, or fewer if 4 does not divide the size of a batch. batches: how many batches of the
    same size x consists of; no group has images of two batches.
    """
    group = max(size for size in range(1, GROUP + 1) if len(x) // batches % size == 0)
    with torch.autocast(x.device.type, enabled=False):
        groups = full_precision(x).unflatten(0, (-1, group))
        std = (groups.var(dim=1, correction=0) + _EPSILON).sqrt().mean(dim=(1, 2, 3))
    each = std.to(x.dtype).repeat_interleave(group).view(-1, 1, 1, 1)
    return torch.cat((x, each.expand(-1, -1, *x.shape[2:])), dim=1)


def up_matrix(size: int) -> Tensor:
    """Return U, [2 size, size]: U x doubles the length of a signal x. Each column is 2 [1, 3, 3, 1] / 8.

    U preserves constants, except at the ends, where the signal continues with zeros. U^T / 2 halves the length.
    """
    matrix = torch.zeros(2 * size + 2, size)
    for tap, value in enumerate(_FILTER):
        matrix[tap : tap + 2 * size : 2].fill_diagonal_(2 * value)
    return matrix[1:-1].clone()


def resample(x: Tensor, matrix: Tensor) -> Tensor:
    """Filter the rows and the columns of images: [B, C, R, R] -> [B, C, S, S]. matrix: [S, R]."""
    batch, channels, size, _ = x.shape
    rows = matrix @ x.permute(0, 2, 3, 1).reshape(batch, size, size * channels)
    both = matrix @ rows.reshape(-1, size, channels)
    return both.view(batch, len(matrix), len(matrix), channels).permute(0, 3, 1, 2)


def phase_matrix(direction: Literal["up", "down"]) -> Tensor:
    """Return the matrix [36, 9] from a 3x3 kernel to the 3x3 kernels of 2x2 phases, with the filter multiplied in.

    In one dimension, position 2 p + a of the finer signal is phase a of position p. The coarse result at p is
    sum_t K[t] x[2 p + t - 2] for "down", and the fine one at 2 p + a is 2 sum_t K[t] x[p + (t + a - 3) / 2] for "up",
    where K = filter * kernel has 6 taps. So tap q of phase a is K[2 q + a], or 2 K[2 q + 1 - a].
    """
    taps = torch.zeros(2, 3, 3)  # phase a, tap q of the phase, tap j of the kernel
    for a in range(2):
        for q in range(3):
            for j in range(3):
                place = 2 * q + (a if direction == "down" else 1 - a) - j
                if 0 <= place < len(_FILTER):
                    taps[a, q, j] = _FILTER[place] * (1 if direction == "down" else 2)
    order = "aqj,brl->qrabjl" if direction == "down" else "aqj,brl->abqrjl"
    return torch.einsum(order, taps, taps).reshape(36, 9)


def convolution(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Convolve with a 1x1 or 3x3 kernel, [outputs, inputs, k, k], at the same resolution."""
    if weight.shape[-1] == 1:  # a product of matrices: cuDNN is slow at gradients of kernels with 3 or 4 channels
        return F.linear(x.permute(0, 2, 3, 1), weight.flatten(1), bias).permute(0, 3, 1, 2)
    return F.conv2d(x, weight, bias, padding=1)


def down_convolution(x: Tensor, weight: Tensor, phases: Tensor, bias: Tensor | None = None) -> Tensor:
    """Filter, convolve with a 3x3 kernel and halve the resolution. weight: [outputs, inputs, 3, 3]."""
    outputs, inputs = weight.shape[:2]
    batch, _, size, _ = x.shape
    half = size // 2
    split = x.permute(0, 2, 3, 1).reshape(batch, half, 2, half, 2, inputs).transpose(2, 3)
    stacked = split.reshape(batch, half, half, 4 * inputs).permute(0, 3, 1, 2)
    kernel = _phase_kernels(weight, phases).view(outputs, 3, 3, 4 * inputs).permute(0, 3, 1, 2)
    return F.conv2d(stacked, kernel, bias, padding=1)


def up_convolution(x: Tensor, weight: Tensor, phases: Tensor) -> Tensor:
    """Double the resolution, filter and convolve with a 3x3 kernel. weight: [outputs, inputs, 3, 3]."""
    outputs, inputs = weight.shape[:2]
    batch, _, size, _ = x.shape
    kernels = _phase_kernels(weight, phases).view(outputs, 4, 9, inputs).transpose(0, 1)
    y = F.conv2d(x, kernels.reshape(4 * outputs, 3, 3, inputs).permute(0, 3, 1, 2), padding=1)
    split = y.permute(0, 2, 3, 1).reshape(batch, size, size, 2, 2, outputs).transpose(2, 3)
    return split.reshape(batch, 2 * size, 2 * size, outputs).permute(0, 3, 1, 2)


def _phase_kernels(weight: Tensor, phases: Tensor) -> Tensor:
    """Multiply 3x3 kernels [outputs, inputs, 3, 3] by a phase matrix: [outputs, 36, inputs], as in channels_last."""
    outputs, inputs = weight.shape[:2]
    return phases @ weight.permute(0, 2, 3, 1).reshape(outputs, 9, inputs)


def _per_channel(factors: Tensor, x: Tensor) -> Tensor:
    """Return factors [B, C] as [B, C, 1, 1], in the data type of x."""
    return factors.to(x.dtype)[:, :, None, None]
