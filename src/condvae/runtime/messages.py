"""Progress messages of long-running functions, and numbers and lists as words in messages."""

from collections.abc import Callable, Iterable
from typing import TypeAlias

Say: TypeAlias = Callable[[str], None]
"""A function that receives progress messages, one line at a time."""


def silent(line: str) -> None:
    """Ignore the message: a `Say` for callers that want no progress messages."""


def counted(number: int, noun: str) -> str:
    """Return the number with its noun, such as "1 image" or "2 images"."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def listed(names: Iterable[str], *, last: str = "and") -> str:
    """Join names as in "a, b and c"; `last` is the word before the last name."""
    *first, final = names
    return f"{', '.join(first)} {last} {final}" if first else final


class StrangeImage(UserWarning):
    """Warns that an image is strange to the model that completes it, or that this could not be found out."""


class DegenerateSamples(UserWarning):
    """Warns that some samples of a model are saturated, mostly because the temperature is too high."""
