"""Progress messages of long-running functions, and numbers, times and lists as words in messages."""

import math
from collections.abc import Callable, Iterable
from typing import TypeAlias

Say: TypeAlias = Callable[[str], None]
"""A function that receives progress messages, one line at a time."""


def silent(line: str) -> None:
    """Ignore the message: a `Say` for callers that want no progress messages."""


def warn_with(say: Say) -> Say:
    """Return the function for warnings: `say.warn` if there is one, which prints them even with --quiet, else `say`."""
    return getattr(say, "warn", say)


def counted(number: int, noun: str) -> str:
    """Return the number with its noun, such as "1 image" or "2 images"."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def listed(names: Iterable[str], *, last: str = "and") -> str:
    """Join names as in "a, b and c"; `last` is the word before the last name."""
    *first, final = names
    return f"{', '.join(first)} {last} {final}" if first else final


def in_words(seconds: float, *, rough: bool = False) -> str:
    """Return a time as in "45 s", "2 min 10 s" or "3 h 5 min". rough: round it as an estimate, as in "2 min"."""
    if rough:
        step = next(step for limit, step in ((90, 5), (7200, 60), (math.inf, 600)) if seconds < limit)
        seconds = max(step * round(seconds / step), 5)
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    parts = ((days, "day" if days == 1 else "days"), (hours, "h"), (minutes, "min"), (rest, "s"))
    shown = [f"{number} {unit}" for number, unit in parts if number]
    return " ".join(shown[:2]) or "0 s"
