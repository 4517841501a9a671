"""Progress messages of long-running functions, and numbers with singular or plural nouns in messages."""

from collections.abc import Callable
from typing import TypeAlias

Say: TypeAlias = Callable[[str], None]
"""A function that receives progress messages, one line at a time."""


def silent(line: str) -> None:
    """Ignore the message: a `Say` for callers that want no progress messages."""


def counted(number: int, noun: str) -> str:
    """Return the number with its noun, such as "1 image" or "2 images"."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
