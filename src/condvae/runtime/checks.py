"""Functions that check configuration values and options, and raise ValueError with uniform messages."""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from condvae.runtime.messages import short, shown

T = TypeVar("T")

_MOST_RESAMPLES = 100_000


def option_name(field: str) -> str:
    """Return the name of a command-line option, such as --deep-images for the field deep_images."""
    return "--" + field.replace("_", "-")


def check_whole(value: object, name: str, *, least: int = 0) -> None:
    """Raise ValueError unless value is a whole number, at least `least` and below 2**31."""
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise ValueError(f"{name} is {shown(value)}, expected a whole number, at least {least}")
    if value >= 2**31:
        raise ValueError(f"{name} is {shown(value)}, expected a whole number below {2**31}")


def whole_numbers(values: object, name: str, *, least: int = 0, count: int | None = None) -> tuple[int, ...]:
    """Return whole numbers as a tuple, since JSON has only lists; raise ValueError if they are something else.

    count: how many there must be. None: one or more.
    """
    if not isinstance(values, tuple | list) or not values or len(values) != (count or len(values)):
        raise ValueError(f"{name} is {shown(values)}, expected {count or 'a list of'} whole numbers")
    for value in values:
        check_whole(value, f"one of {name}", least=least)
    return tuple(values)


def check_number(value: object, name: str, *, least: float, most: float = math.inf) -> None:
    """Raise ValueError unless value is a finite number in [least, most]."""
    number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if not number or not least <= value <= most:  # type: ignore[operator]
        expected = f"in [{least:g}, {most:g}]" if most < math.inf else f">= {least:g}"
        raise ValueError(f"{name} is {shown(value)}, expected a number {expected}")


def check_seed(value: object, name: str = "the seed") -> None:
    """Raise ValueError unless value can be a seed: a whole number from 0 to 2**64 - 1."""
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 2**64:
        raise ValueError(f"{name} is {shown(value)}, expected a whole number from 0 to 2**64 - 1")


def check_white(value: object) -> None:
    """Raise ValueError unless value can be the level of white: a whole number from 1 on, or None if it is unknown."""
    if value is not None:
        check_whole(value, "the level of white", least=1)


def check_choice(value: object, name: str, choices: Sequence[object]) -> None:
    """Raise ValueError unless value is one of the choices."""
    # 1.0 and True equal 1, but are not a number of channels.
    odd = isinstance(value, float) or (isinstance(value, bool) and not any(isinstance(one, bool) for one in choices))
    if odd or value not in choices:
        raise ValueError(f"{name} is {shown(value)}, expected {' or '.join(repr(choice) for choice in choices)}")


def first_few(names: Sequence[str]) -> str:
    """Join the first five names with commas; if there are more, add their number."""
    return ", ".join(map(short, names[:5])) + (f" and {len(names) - 5} more" if len(names) > 5 else "")


def strict(cls: type[T], plain: Mapping[str, Any], *, where: str) -> T:
    """Return cls(**plain) for a dataclass; raise ValueError with the names of unknown or missing keys."""
    if not isinstance(plain, Mapping):
        raise ValueError(f"the {where} is {shown(plain)}, expected a mapping of keys to values")
    fields = {f.name: f for f in dataclasses.fields(cls) if f.init}  # type: ignore[arg-type]
    if unknown := sorted(set(plain) - set(fields)):
        raise ValueError(f"unknown key in {where}: {first_few(unknown)}; expected keys are {', '.join(fields)}")
    required = {n for n, f in fields.items() if f.default is f.default_factory is dataclasses.MISSING}
    if missing := sorted(required - set(plain)):
        raise ValueError(f"missing key in {where}: {', '.join(missing)}")
    return cls(**plain)


def check_resamples(value: int) -> None:
    """Raise ValueError unless the number of bootstrap resamples is positive and fits into memory."""
    check_whole(value, "the number of bootstrap resamples", least=1)
    if value > _MOST_RESAMPLES:
        raise ValueError(
            f"{value:,} bootstrap resamples are too many to fit into memory: give at most {_MOST_RESAMPLES:,}"
        )
