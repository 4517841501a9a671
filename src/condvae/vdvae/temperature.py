"""Conversion of the temperatures that users give: one number, one per latent group, or one per resolution."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from condvae.runtime.messages import counted
from condvae.vdvae.config import VDVAEConfig

TemperatureLike: TypeAlias = float | Sequence[float] | Mapping[int, float] | str


def per_group(temperature: TemperatureLike, config: VDVAEConfig) -> list[float]:
    """Convert a temperature to one factor on the standard deviation for each latent group z_1, ..., z_L.

    A mapping, or text such as "8:0.9,16:0.7", gives temperatures by the resolution of the latents. Resolutions that are
    not listed get the temperature 1.
    """
    if isinstance(temperature, str):
        return parse(temperature, config)
    if getattr(temperature, "ndim", None) == 0:  # an array that is a single number
        temperature = float(temperature)  # type: ignore[arg-type]
    groups = len(config.group_stages)
    if isinstance(temperature, Mapping):
        resolutions = [stage.resolution for stage in config.group_stages]
        if unknown := [resolution for resolution in temperature if resolution not in resolutions]:
            raise ValueError(
                f"a temperature was given for resolution {unknown[0]!r}, but this model has {_latents(config)}"
            )
        values = [temperature.get(resolution, 1.0) for resolution in resolutions]
    elif isinstance(temperature, Iterable):  # arrays too
        values = list(temperature)
    else:
        values = [temperature] * groups
    if len(values) != groups:
        raise ValueError(
            f"a list of {counted(len(values), 'temperature')} was given, expected a single number, {groups} numbers "
            f"(one per latent group) or one per resolution: this model has {_latents(config)}"
        )
    return [_checked(value) for value in values]


def parse(text: str, config: VDVAEConfig) -> list[float]:
    """Like `per_group`, for text: "0.8" for all, "1,1,0.9" by latent group, or "8:0.9,16:0.7" by resolution."""
    parts = [part.strip() for part in text.split(",")]
    if not any(":" in part for part in parts):
        values = [_number(part, text, config) for part in parts]
        return per_group(values[0] if len(values) == 1 else values, config)
    by_resolution: dict[int, float] = {}
    for part in parts:
        resolution, colon, value = part.partition(":")
        if not colon or not resolution.strip().isdecimal():
            raise _unreadable(text, config)
        if int(resolution) in by_resolution:
            raise ValueError(f"the temperature {text!r} contains resolution {int(resolution)} twice: give it once")
        by_resolution[int(resolution)] = _number(value, text, config)
    return per_group(by_resolution, config)


def _checked(value: object) -> float:
    try:
        number = float(value)  # type: ignore[arg-type]
    except (OverflowError, TypeError, ValueError):
        number = math.nan
    if not 0 <= number < math.inf:
        raise ValueError(f"temperature {value!r} is invalid, expected a number >= 0 (below 1, images look smoother)")
    return number


def _number(part: str, text: str, config: VDVAEConfig) -> float:
    try:
        return float(part)
    except ValueError:
        raise _unreadable(text, config) from None


def _unreadable(text: str, config: VDVAEConfig) -> ValueError:
    finest = config.group_stages[-1].resolution
    return ValueError(
        f"the temperature {text!r} cannot be read, expected a number such as 0.8, one number per latent group, or one "
        f"per resolution such as {finest}:0.8: this model has {_latents(config)}"
    )


def _latents(config: VDVAEConfig) -> str:
    """Describe the latent groups of a model, such as "3 latent groups (1 at resolution 1, 2 at resolution 4)"."""
    groups = [f"{stage.groups} at resolution {stage.resolution}" for stage in config.decoder_stages if stage.groups]
    return f"{counted(len(config.group_stages), 'latent group')} ({', '.join(groups)})"
