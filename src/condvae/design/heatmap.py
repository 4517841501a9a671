"""Heat maps: values at scan locations, drawn as a smooth transparent layer over an image."""

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from PIL import Image
from torch import Tensor

if TYPE_CHECKING:
    from condvae.design.candidates import Candidates

MapValues = npt.NDArray[np.float64]

# From low to high in roughly even perceptual steps. No colour is close to the cross's red or to an x-ray's greys.
_COLOURS = np.array(
    [
        *((68, 1, 84), (72, 40, 120), (62, 74, 137), (49, 104, 142), (38, 130, 142)),
        *((31, 158, 137), (53, 183, 121), (110, 206, 88), (181, 222, 43), (253, 231, 37)),
    ],
    dtype=np.float64,
)
_MOST_OPAQUE = 0.8
"""Opacity of the highest value of a heat map. The lowest value is transparent."""


def colours(shares: MapValues) -> npt.NDArray[np.uint8]:
    """Return RGB colours [..., 3] for numbers from 0 (low) to 1 (high); numbers outside that range are clipped."""
    at = np.clip(shares, 0, 1) * (len(_COLOURS) - 1)
    channels = [np.interp(at, np.arange(len(_COLOURS)), channel) for channel in _COLOURS.T]
    return np.stack(channels, axis=-1).round().astype(np.uint8)


def layer(values: Tensor, candidates: "Candidates", side: int, *, low: float, high: float) -> Image.Image:
    """Draw values [L], one per candidate, as a side x side RGBA picture that can be laid over the enlarged image.

    low and high: the values at the ends of the colour scale. On a grid, a value is drawn at the centre of its window,
    with bilinear interpolation between the centres; beyond the outermost centres the picture is transparent. Without a
    grid, each pixel gets the mean value of the windows that contain it.
    """
    values = values.double().cpu()
    values = values.where(values.isfinite(), low)  # locations that a policy has excluded get the lowest value
    drawn = _on_grid(values, candidates, side) if candidates.shape else _over_windows(values, candidates, side)
    shares = (drawn - low) / (high - low) if high > low else np.zeros_like(drawn)
    drawn_here = np.isfinite(shares)
    shares = np.clip(np.where(drawn_here, shares, 0), 0, 1)
    opacity = np.where(drawn_here, _MOST_OPAQUE * np.sqrt(shares), 0)
    alpha = (255 * opacity).round().astype(np.uint8)
    return Image.fromarray(np.concatenate([colours(shares), alpha[..., None]], axis=-1))


def _on_grid(values: Tensor, candidates: "Candidates", side: int) -> MapValues:
    """Interpolate the values of a grid to [side, side] pixels, which are NaN beyond the outermost window centres."""
    assert candidates.shape is not None
    table = values.numpy().reshape(candidates.shape)
    centres = candidates.centres.double().cpu().numpy().reshape(*candidates.shape, 2)
    down = _weights(centres[:, 0, 0], candidates.size, side)
    across = _weights(centres[0, :, 1], candidates.size, side)
    drawn: MapValues = down @ table @ across.T
    return drawn


def _weights(centres: MapValues, size: int, side: int) -> MapValues:
    """Return the interpolation weight of each grid point for each pixel along one side, [side, points].

    Pixels beyond the first and the last window centre get NaN.
    """
    # A grid finer than the pixels has equal centres: the first of equal points gets all the weight.
    different, first = np.unique(centres, return_index=True)
    at = (np.arange(side) + 0.5) * size / side - 0.5  # in image pixels, where pixel 0 has its centre at 0
    half = size / side / 2  # an enlarged pixel counts as inside if it overlaps the range
    inside = (at >= different[0] - half) & (at <= different[-1] + half)
    weights = np.zeros((side, len(centres)))
    for point, hat in zip(first, np.eye(len(different)), strict=True):
        weights[:, point] = np.interp(at, different, hat)
    weights[~inside] = np.nan
    return weights


def _over_windows(values: Tensor, candidates: "Candidates", side: int) -> MapValues:
    """Return the mean value of the windows that contain each pixel, [side, side]; NaN where there is no window."""
    windows = candidates.windows[:, 0].cpu().numpy()
    count = windows.sum(axis=0)
    total = np.tensordot(values.numpy(), windows.astype(np.float64), axes=1)
    with np.errstate(invalid="ignore"):
        mean: MapValues = total / count  # NaN where there is no window
    at = np.arange(side) * len(mean) // side
    return mean[at[:, None], at]
