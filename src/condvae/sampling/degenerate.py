"""Detect degenerate samples: numbers that are NaN or infinite, and pixels far outside the range of grey levels.

Converting such samples to grey levels would make them black or white. Several samples would then be the same, as if the
model were certain.
"""

import warnings
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from condvae.likelihood import Likelihood
from condvae.runtime.messages import DegenerateSamples, counted

_MOST_OUTSIDE = 0.25
"""A sample is saturated if a larger share than this of its hidden pixel values lies far outside [-1, 1]."""
_DIVERGED = 10.0
"""Pixel values further than this from 0 are far outside [-1, 1] at temperatures up to 1: a large number, so that no
model is called broken that was merely trained for a short time. Above 1, `largest_centre` of the likelihood is used."""

_LEAST_HIDDEN, _LEAST_TEMPERATURE = 100, 0.5
"""Completions of at least this number of hidden pixels, at this temperature or above, must differ."""


class Flaws(NamedTuple):
    """Which samples of a model are degenerate."""

    broken: Tensor
    """[N] bool: True where a sample was computed with NaN or infinite numbers."""
    saturated: Tensor
    """[N] bool: True where many pixels of a sample lie far outside [-1, 1], so that they become black or white."""


def far_outside(likelihood: Likelihood, temperatures: Sequence[float]) -> float:
    """Return the distance from 0 beyond which pixel values are far outside [-1, 1], at these temperatures."""
    return likelihood.largest_centre if max(temperatures) > 1 else _DIVERGED


def find_flaws(
    likelihood: Likelihood, parameters: Tensor, limit: float | Tensor, hidden: Tensor | None = None
) -> Flaws:
    """Find degenerate samples by the parameters of their pixels, [N, P, H, W]. This does not wait for the device.

    limit: the result of `far_outside`.
    hidden: [N, 1, H, W] bool, True where a pixel is drawn. Other pixels are not examined. None if all are drawn.
    """
    broken = ~torch.isfinite(parameters).flatten(1).all(dim=1)  # NaN or infinite latents make the parameters so, too
    outside = ~(likelihood.distance(parameters) <= limit)  # written so that NaN is outside
    if hidden is None:
        return Flaws(broken, outside.float().flatten(1).mean(dim=1) > _MOST_OUTSIDE)
    count = hidden.flatten(1).sum(dim=1) * outside.shape[1]
    return Flaws(broken, (outside & hidden).flatten(1).sum(dim=1) > _MOST_OUTSIDE * count)


def check_flaws(flaws: Flaws, temperature: float, *, what: str = "sample", of: str = "") -> int:
    """Return the number of saturated samples. Raise ValueError if a sample is broken, or if all are saturated.

    temperature: the highest temperature of a latent group. what, of: the words for the samples in messages, such as
    "completion" and " of photo.png". This waits for the device once.
    """
    total = flaws.broken.numel()
    broken, saturated = torch.stack((flaws.broken.sum(), flaws.saturated.sum())).tolist()
    if broken:
        raise ValueError(
            f"{broken} of {counted(total, what)}{of} cannot be used, because pixels are NaN or infinite: "
            f"{_advice(temperature)}"
        )
    if saturated == total:
        raise ValueError(f"{_saturation(total, total, what, of)}: {_advice(temperature)}")
    return int(saturated)


def saturation_warning(count: int, total: int, temperature: float, *, what: str = "sample", of: str = "") -> str:
    """Return a warning that some samples are saturated, with what to do. The parameters are those of `check_flaws`."""
    which = "it" if count == 1 else "them"
    return f"{_saturation(count, total, what, of)}: do not use {which}, and {_advice(temperature)}"


def identity_warning(images: Tensor, known: Tensor | None, temperature: float, *, of: str = "") -> str | None:
    """Return a warning if several completions [n, C, H, W] of an image are the same although they are drawn at random.

    known: [1, H, W] bool, True where a pixel is known; None if no pixel is. Small holes and low temperatures can leave
    no visible difference between completions, and are not examined.
    """
    hidden = images[0, 0].numel() if known is None else int((~known).sum())
    if len(images) < 2 or hidden < _LEAST_HIDDEN or temperature < _LEAST_TEMPERATURE:
        return None
    if bool((images != images[:1]).any()):
        return None
    return (
        f"all {len(images)} completions{of} are the same, although they are drawn at random: this is no certainty, "
        "but a sign that the weights of the model are damaged or untrained"
    )


def report_flaws(flaws: Flaws, temperature: float, *, what: str = "sample", stacklevel: int = 2) -> None:
    """Check samples as `check_flaws` does, and warn if some of them are saturated."""
    if count := check_flaws(flaws, temperature, what=what):
        message = saturation_warning(count, flaws.broken.numel(), temperature, what=what)
        warnings.warn(message, DegenerateSamples, stacklevel=stacklevel + 1)


def _saturation(count: int, total: int, what: str, of: str) -> str:
    verb = "is" if count == 1 else "are"
    return (
        f"{count} of {counted(total, what)}{of} {verb} saturated, which means that many pixels would be much "
        "darker than black or brighter than white"
    )


def _advice(temperature: float) -> str:
    if temperature > 1:
        return f"lower the temperature, which is {temperature:g}, to 1 or less"
    return "use another model file, because the weights of this one are damaged or their training has diverged"
