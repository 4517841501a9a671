"""Pixel errors: the MSE of samples, and PSNR and SSIM of image pairs.

Images contain grey levels from 0 to 255, as uint8 or, if they are means of images, as floats.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

_CLEAREST = 100.0
"""The largest PSNR in dB. Equal images get this value instead of infinity, so that means are finite."""
_WHITE = 255.0
_WINDOW, _SIGMA = 11, 1.5
_LUMINANCE, _CONTRAST = (0.01 * _WHITE) ** 2, (0.03 * _WHITE) ** 2
"""Constants that prevent a division by zero in SSIM where both images are black or flat (Wang et al. 2004)."""
_PIXELS_AT_ONCE = 2**24
"""How many pixel values are converted to floats at once, to bound the memory."""


def pixel_mean(samples: Tensor) -> Tensor:
    """Return the mean of samples, uint8 [B, K, C, H, W], as grey levels that are not rounded, [B, C, H, W]."""
    _check_levels(samples, 5)
    return samples.mean(dim=1, dtype=torch.float32)


def sample_mse(truth: Tensor, samples: Tensor) -> Tensor:
    """Return the mean squared error of each sample [B, K, C, H, W] against its image [B, C, H, W], as [B, K].

    Pixels are scaled so that white is 1, and known pixels are included. The minimum of a row is the error of the best
    of K samples.
    """
    _check_levels(truth, 4)
    _check_levels(samples, 5)
    if (samples.shape[0], *samples.shape[2:]) != tuple(truth.shape) or 0 in samples.shape:
        raise ValueError(
            f"samples have shape {tuple(samples.shape)} and images {tuple(truth.shape)}, "
            "expected [B, K, C, H, W] and [B, C, H, W]"
        )
    step = max(1, _PIXELS_AT_ONCE // samples[0].numel())
    found = []
    for some, images in zip(samples.split(step), truth.split(step), strict=True):
        squares = ((some.float() - images[:, None].float()) / _WHITE).square()
        found.append(squares.mean(dim=(2, 3, 4), dtype=torch.float64))
    return torch.cat(found)


def psnr(a: Tensor, b: Tensor) -> Tensor:
    """Return the peak signal-to-noise ratio in dB of image pairs [B, C, H, W], as [B]; equal images have 100."""
    _check_pair(a, b)
    error = ((a.double() - b.double()) / _WHITE).square().mean(dim=(1, 2, 3))
    return (-10 * error.log10()).clamp_max(_CLEAREST)


def ssim(a: Tensor, b: Tensor) -> Tensor:
    """Return the structural similarity of image pairs [B, C, H, W], as [B]; equal images have 1 (Wang et al. 2004).

    The window is an 11 x 11 Gaussian with sigma 1.5 around every pixel; images are mirrored at their edges.
    """
    _check_pair(a, b)
    if min(a.shape[2:]) < _WINDOW:
        raise ValueError(
            f"images are {a.shape[2]} x {a.shape[3]}, but SSIM needs {_WINDOW} x {_WINDOW} pixels: enlarge them"
        )
    x, y = a.double(), b.double()
    mean_x, mean_y = _windowed(x), _windowed(y)
    variance_x = (_windowed(x * x) - mean_x**2).clamp_min(0)
    variance_y = (_windowed(y * y) - mean_y**2).clamp_min(0)
    covariance = _windowed(x * y) - mean_x * mean_y
    luminance = (2 * mean_x * mean_y + _LUMINANCE) / (mean_x**2 + mean_y**2 + _LUMINANCE)
    structure = (2 * covariance + _CONTRAST) / (variance_x + variance_y + _CONTRAST)
    return (luminance * structure).mean(dim=(1, 2, 3))


def _windowed(images: Tensor) -> Tensor:
    """Average over the window around every pixel: first along columns, then along rows."""
    places = torch.arange(_WINDOW, dtype=images.dtype, device=images.device) - _WINDOW // 2
    window = (-places.square() / (2 * _SIGMA**2)).exp()
    window = window / window.sum()
    planes = F.pad(images, [_WINDOW // 2] * 4, mode="reflect").flatten(0, 1).unsqueeze(1)
    blurred = F.conv2d(F.conv2d(planes, window.view(1, 1, -1, 1)), window.view(1, 1, 1, -1))
    return blurred.reshape(images.shape)


def _check_pair(a: Tensor, b: Tensor) -> None:
    """Raise a ValueError unless a and b have the same shape and contain grey levels, as uint8 or as floats in 0..255.

    Without this check, images in [-1, 1] would give a wrong number.
    """
    if a.shape != b.shape:
        raise ValueError(f"the images have shapes {tuple(a.shape)} and {tuple(b.shape)}: give pairs of the same shape")
    for images in (a, b):
        if not images.is_floating_point():
            _check_levels(images, 4)
        elif images.ndim != 4 or (images.numel() and not (float(images.min()) >= 0 and float(images.max()) <= _WHITE)):
            raise ValueError(
                f"float images of shape {list(images.shape)} are invalid: give [B, C, H, W] with grey levels in 0..255"
            )


def _check_levels(images: Tensor, dims: int) -> None:
    if images.dtype != torch.uint8 or images.ndim != dims:
        shape = "[B, C, H, W]" if dims == 4 else "[B, K, C, H, W]"
        raise ValueError(
            f"images are a {images.dtype} tensor of shape {list(images.shape)}, expected grey levels, uint8 {shape}"
        )
