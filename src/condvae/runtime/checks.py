"""What every config and option checks of its values, and the words of the refusal."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

T = TypeVar("T")

_MOST_RESAMPLES = 100_000


def check_whole(value: object, name: str, *, least: int = 0) -> None:
    """Raise a ValueError unless value is a whole number from `least`."""
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise ValueError(f"{name} is {value!r}, expected a whole number from {least}")
    if value >= 2**31:
        raise ValueError(f"{name} is {value}, expected a whole number below {2**31}")


def check_seed(value: object, name: str = "the seed") -> None:
    """Raise a ValueError unless value can be a seed: 64 bits, as generators take them."""
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 2**64:
        raise ValueError(f"{name} is {value!r}, expected a whole number from 0, below 2**64")


def check_choice(value: object, name: str, choices: Sequence[object]) -> None:
    """Raise a ValueError unless value is one of the choices."""
    if value not in choices:
        raise ValueError(f"{name} is {value!r}, expected {' or '.join(repr(choice) for choice in choices)}")


def first_few(names: Sequence[str]) -> str:
    """Up to five names, and how many more there are."""
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")


def strict(cls: type[T], plain: Mapping[str, Any], *, where: str) -> T:
    """cls(**plain) for a dataclass, with unknown and missing keys named in a ValueError."""
    if not isinstance(plain, Mapping):
        raise ValueError(f"the {where} is {plain!r}, expected named values")
    fields = {f.name: f for f in dataclasses.fields(cls) if f.init}  # type: ignore[arg-type]
    if unknown := sorted(set(plain) - set(fields)):
        raise ValueError(f"unknown key in {where}: {', '.join(unknown)}; known are {', '.join(fields)}")
    required = {n for n, f in fields.items() if f.default is f.default_factory is dataclasses.MISSING}
    if missing := sorted(required - set(plain)):
        raise ValueError(f"missing key in {where}: {', '.join(missing)}")
    return cls(**plain)


def check_resamples(value: int) -> None:
    """Raise a ValueError unless so many resamples can be drawn and kept."""
    check_whole(value, "the number of resamples", least=1)
    if value > _MOST_RESAMPLES:
        raise ValueError(f"{value:,} resamples are too many for any memory: give at most {_MOST_RESAMPLES:,}")
