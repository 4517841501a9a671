"""Temperatures as people give them: one number, one per group of latents, or one per resolution of latents."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from condvae.vdvae.config import VDVAEConfig

TemperatureLike: TypeAlias = float | Sequence[float] | Mapping[int, float] | str


def per_group(temperature: TemperatureLike, config: VDVAEConfig) -> list[float]:
    """One factor on the spread of z for each group of latents, z_1, ..., z_L: the only place that makes them.

    A mapping, or text such as "8:0.9,16:0.7", goes by the resolution of the latents; those it does not name stay at 1.
    """
    if isinstance(temperature, str):
        return parse(temperature, config)
    if getattr(temperature, "ndim", None) == 0:  # an array of one number
        temperature = float(temperature)  # type: ignore[arg-type]
    groups = len(config.group_stages)
    if isinstance(temperature, Mapping):
        resolutions = [stage.resolution for stage in config.group_stages]
        if strangers := [resolution for resolution in temperature if resolution not in resolutions]:
            raise ValueError(
                f"a temperature was given for latents at {strangers[0]!r}, but this model has {_latents(config)}"
            )
        values = [temperature.get(resolution, 1.0) for resolution in resolutions]
    elif isinstance(temperature, Iterable):  # arrays too
        values = list(temperature)
    else:
        values = [temperature] * groups
    if len(values) != groups:
        raise ValueError(
            f"{len(values)} temperatures were given, expected one number, one per group of latents ({groups}) "
            f"or one per resolution: this model has {_latents(config)}"
        )
    return [_checked(value) for value in values]


def parse(text: str, config: VDVAEConfig) -> list[float]:
    """`per_group` of text: "0.8", or "1,1,0.9" with a number for each group, or "8:0.9,16:0.7" by resolution."""
    parts = [part.strip() for part in text.split(",")]
    if not any(":" in part for part in parts):
        values = [_number(part, text, config) for part in parts]
        return per_group(values[0] if len(values) == 1 else values, config)
    by_resolution: dict[int, float] = {}
    for part in parts:
        resolution, colon, value = part.partition(":")
        if not colon or not resolution.strip().isdecimal():
            raise _misread(text, config)
        if int(resolution) in by_resolution:
            raise ValueError(f"the temperature {text!r} names the latents at {int(resolution)} twice")
        by_resolution[int(resolution)] = _number(value, text, config)
    return per_group(by_resolution, config)


def _checked(value: object) -> float:
    try:
        number = float(value)  # type: ignore[arg-type]
    except (OverflowError, TypeError, ValueError):
        number = math.nan
    if not 0 <= number < math.inf:
        raise ValueError(f"the temperature {value!r} was given, expected a number from 0: less than 1 is calmer")
    return number


def _number(part: str, text: str, config: VDVAEConfig) -> float:
    try:
        return float(part)
    except ValueError:
        raise _misread(text, config) from None


def _misread(text: str, config: VDVAEConfig) -> ValueError:
    finest = config.group_stages[-1].resolution
    return ValueError(
        f"the temperature {text!r} cannot be read, expected a number such as 0.8, one per group of latents, or one per "
        f"resolution such as {finest}:0.8: this model has {_latents(config)}"
    )


def _latents(config: VDVAEConfig) -> str:
    groups = [f"{stage.groups} at {stage.resolution}" for stage in config.decoder_stages if stage.groups]
    return f"{len(config.group_stages)} groups of latents, {', '.join(groups)}"
