"""Numbers at scan locations as a smooth layer of colour over an image."""

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from PIL import Image
from torch import Tensor

if TYPE_CHECKING:
    from condvae.design.candidates import Candidates

MapValues = npt.NDArray[np.float64]

# From little to much, about evenly to the eye; none is like the red of a cross, nor like the greys of an x-ray.
_COLOURS = np.array(
    [
        *((68, 1, 84), (72, 40, 120), (62, 74, 137), (49, 104, 142), (38, 130, 142)),
        *((31, 158, 137), (53, 183, 121), (110, 206, 88), (181, 222, 43), (253, 231, 37)),
    ],
    dtype=np.float64,
)
_THICKEST = 0.8
"""How much of the image the colour of most hides; that of nothing hides nothing."""


def colours(shares: MapValues) -> npt.NDArray[np.uint8]:
    """[..., 3]: the colours of numbers from 0 to 1, those beyond as the ends are."""
    at = np.clip(shares, 0, 1) * (len(_COLOURS) - 1)
    channels = [np.interp(at, np.arange(len(_COLOURS)), channel) for channel in _COLOURS.T]
    return np.stack(channels, axis=-1).round().astype(np.uint8)


def layer(values: Tensor, candidates: "Candidates", side: int, *, low: float, high: float) -> Image.Image:
    """[L] numbers, one for each candidate, as an RGBA picture of side x side to lie over the enlarged image.

    On a grid a number stands at the centre of its window, with bilinear values between; nothing is said beyond the
    outermost centres. Windows elsewhere give each pixel the mean of those that contain it.
    """
    values = values.double().cpu()
    values = values.where(values.isfinite(), low)  # as nothing, what a policy has ruled out
    drawn = _on_grid(values, candidates, side) if candidates.shape else _over_windows(values, candidates, side)
    shares = (drawn - low) / (high - low) if high > low else np.zeros_like(drawn)
    said = np.isfinite(shares)
    shares = np.clip(np.where(said, shares, 0), 0, 1)
    thickness = np.where(said, _THICKEST * np.sqrt(shares), 0)
    alpha = (255 * thickness).round().astype(np.uint8)
    return Image.fromarray(np.concatenate([colours(shares), alpha[..., None]], axis=-1))


def _on_grid(values: Tensor, candidates: "Candidates", side: int) -> MapValues:
    """[side, side], NaN where nothing is said."""
    assert candidates.shape is not None
    table = values.numpy().reshape(candidates.shape)
    centres = candidates.centres.double().cpu().numpy().reshape(*candidates.shape, 2)
    down = _weights(centres[:, 0, 0], candidates.size, side)
    across = _weights(centres[0, :, 1], candidates.size, side)
    drawn: MapValues = down @ table @ across.T
    return drawn


def _weights(centres: MapValues, size: int, side: int) -> MapValues:
    """[side, points]: what each point has to say at each enlarged pixel; NaN beyond the first and the last of them."""
    # A grid finer than the pixels repeats itself: the first of equal points speaks for all.
    different, first = np.unique(centres, return_index=True)
    at = (np.arange(side) + 0.5) * size / side - 0.5  # in pixels of the image, the first of which has its middle at 0
    half = size / side / 2  # an enlarged pixel counts as inside if some of it is
    inside = (at >= different[0] - half) & (at <= different[-1] + half)
    weights = np.zeros((side, len(centres)))
    for point, hat in zip(first, np.eye(len(different)), strict=True):
        weights[:, point] = np.interp(at, different, hat)
    weights[~inside] = np.nan
    return weights


def _over_windows(values: Tensor, candidates: "Candidates", side: int) -> MapValues:
    windows = candidates.windows[:, 0].cpu().numpy()
    count = windows.sum(axis=0)
    total = np.tensordot(values.numpy(), windows.astype(np.float64), axes=1)
    with np.errstate(invalid="ignore"):
        mean: MapValues = total / count  # NaN where no window is
    at = np.arange(side) * len(mean) // side
    return mean[at[:, None], at]
