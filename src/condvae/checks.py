"""What every config and option checks of its values, and the words of the refusal."""

from collections.abc import Sequence


def check_whole(value: object, name: str, *, least: int = 0) -> None:
    """Raise a ValueError unless value is a whole number from `least`."""
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value < 2**31:
        raise ValueError(f"{name} is {value!r}, expected a whole number from {least}")


def check_choice(value: object, name: str, choices: Sequence[object]) -> None:
    """Raise a ValueError unless value is one of the choices."""
    if value not in choices:
        raise ValueError(f"{name} is {value!r}, expected {' or '.join(repr(choice) for choice in choices)}")


def first_few(names: Sequence[str]) -> str:
    """Up to five names, and how many more there are."""
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
