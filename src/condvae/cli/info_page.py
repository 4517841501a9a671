"""The layout of `condvae info`: titled sections of two aligned columns, labels and texts, wrapped to the terminal."""

import shutil
import textwrap
from collections.abc import Mapping
from typing import Any

_LABEL_WIDTH = 16
_NARROWEST, _WIDEST = 60, 100


def print_section(title: str, rows: Mapping[str, Any]) -> None:
    """Print a title, unless it is empty, and a row for each {label: value}, except values that are None.

    A section with a title starts with an empty line. A section without rows is left out.
    """
    kept = {label: text for label, value in rows.items() if value is not None and (text := as_text(value))}
    if not kept:
        return
    if title:
        print(f"\n{title}")
    for label, text in kept.items():
        print(_row(label.replace("_", " "), text))


def as_text(value: Any) -> str:
    """Format a value of a record as text: numbers, lists, and nested values as in "steps 7, kl (1: 2.8, 4: 57.6)"."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:.5g}"
    if isinstance(value, list | tuple):
        return " ".join(map(as_text, value)) if value and isinstance(value[0], str) else ", ".join(map(as_text, value))
    if isinstance(value, dict):
        pairs = {key: one for key, one in value.items() if one is not None}
        return ", ".join(_pair(str(key), one) for key, one in pairs.items())
    return str(value)


def _pair(key: str, value: Any) -> str:
    mark = ":" if key[:1].isdigit() else ""
    return f"{key}{mark} ({as_text(value)})" if isinstance(value, dict) else f"{key}{mark} {as_text(value)}"


def _row(label: str, text: str) -> str:
    """Wrap a text into lines next to its label; a label that is wider than its column gets a line of its own."""
    width = min(max(shutil.get_terminal_size().columns, _NARROWEST), _WIDEST)
    indent = " " * _LABEL_WIDTH
    together = text.replace(" x ", "\xa0x\xa0")  # do not break lines inside sizes
    wrapped = textwrap.fill(
        together, width, initial_indent=indent, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )
    wrapped = wrapped.replace("\xa0x\xa0", " x ")
    return f"{label:{_LABEL_WIDTH}}{wrapped.lstrip()}" if len(label) < _LABEL_WIDTH else f"{label}\n{wrapped}"
