"""Read JSON from files that may be damaged or hostile: bounded in size, in depth and in the digits of numbers."""

import json
import os
from pathlib import Path
from typing import Any

from condvae.runtime.messages import shown

MOST_JSON_BYTES = 2**27
"""Size limit of a JSON file: a list of the labels of two million images is smaller."""
_MOST_LEVELS = 40
"""Limit on nested lists and mappings. The files of condvae have fewer than ten levels."""
_MOST_DIGITS = 21
"""Limit on the characters of a whole number. Seeds, the largest numbers that condvae writes, have up to 20 digits."""


def parse_json(text: str | bytes) -> Any:
    """Return the value of a JSON text; raise ValueError with the reason if it is not valid JSON or exceeds a limit."""
    _check_size(len(text))
    try:
        value = json.loads(text, parse_int=_whole_number)
    except RecursionError:
        raise _nested() from None
    level = [value]
    for _ in range(_MOST_LEVELS + 1):
        level = [
            item
            for one in level
            if isinstance(one, dict | list)
            for item in (one.values() if isinstance(one, dict) else one)
        ]
        if not level:
            return value
    raise _nested()


def read_json_file(path: Path) -> Any:
    """Return the value in a JSON file; raise OSError if it cannot be read, or ValueError as `parse_json` does."""
    with path.open("rb") as file:
        _check_size(os.fstat(file.fileno()).st_size)
        return parse_json(file.read(MOST_JSON_BYTES + 1))


def _check_size(size: int) -> None:
    if size > MOST_JSON_BYTES:
        raise ValueError(f"it is larger than {MOST_JSON_BYTES // 2**20} MiB, the limit for JSON files")


def _nested() -> ValueError:
    return ValueError(f"its lists and mappings are nested more than {_MOST_LEVELS} levels deep")


def _whole_number(digits: str) -> int:
    if len(digits) > _MOST_DIGITS:
        raise ValueError(f"it contains a whole number of {len(digits):,} digits, {shown(digits)}")
    return int(digits)
