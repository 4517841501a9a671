"""How long work tells its caller what it is doing: a function that takes one line."""

from collections.abc import Callable
from typing import TypeAlias

Say: TypeAlias = Callable[[str], None]
"""Receives one line about work that takes long."""


def silent(line: str) -> None:
    """A `Say` that drops every line."""
