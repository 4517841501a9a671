"""Progress messages of long-running functions; numbers, times, lists, names and foreign values as words in messages."""

import math
import os
import reprlib
from collections.abc import Callable, Iterable
from typing import TypeAlias

Say: TypeAlias = Callable[[str], None]
"""A function that receives progress messages, one line at a time."""

_LONGEST_VALUE, _LONGEST_REASON = 80, 300
"""Limits on quoted values and on quoted error messages, in characters."""
_SHORT = reprlib.Repr()
_SHORT.maxlevel, _SHORT.maxstring, _SHORT.maxlong, _SHORT.maxother = 3, _LONGEST_VALUE, _LONGEST_VALUE, _LONGEST_VALUE


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
    words = [f"{number} {unit}" for number, unit in parts if number]
    return " ".join(words[:2]) or "0 s"


def printable(path: str | os.PathLike[str]) -> str:
    """Return a path or text for a message, with question marks instead of unprintable characters.

    Unprintable characters are, for example, line breaks and the escape codes that control a terminal.
    """
    text = str(path)
    return text if text.isprintable() else "".join(letter if letter.isprintable() else "?" for letter in text)


def short(text: str, most: int = _LONGEST_VALUE) -> str:
    """Return text from a file for a message: printable, and with its middle left out if it is too long."""
    if len(text) > most:
        text = f"{text[: most // 2 - 2]} ... {text[len(text) - most // 2 + 3 :]}"
    return printable(text)


def shown(value: object) -> str:
    """Return a value from a file for a message, as Python writes it, but printable and at most 80 characters long."""
    try:
        return short(_SHORT.repr(value))
    except ValueError:  # Python refuses to write whole numbers of more than 4,300 digits
        return f"a {type(value).__name__} that is too long to print"


def reason_of(error: BaseException) -> str:
    """Return the message of an exception on one printable line of limited length, or its type if it has no message."""
    return short(" ".join(str(error).split()), _LONGEST_REASON) or type(error).__name__


class StrangeImage(UserWarning):
    """Warns that an image is strange to the model that completes it, or that this could not be found out."""


class DegenerateSamples(UserWarning):
    """Warns that some samples of a model are saturated, mostly because the temperature is too high."""
