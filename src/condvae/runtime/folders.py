"""Folders that results go to: the cache, what may be written where, what killed processes have left."""

import contextlib
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from condvae.runtime.atomic import PARTS

_ABANDONED = 3600.0
"""Seconds after which nobody is still writing a file."""


def cache_folder() -> Path:
    """The default folder for downloads."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "condvae"


def check_writable(folder: Path) -> None:
    """Raise a ValueError unless files can be written to this folder, once it is made: before anything is downloaded."""
    there = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    try:
        with tempfile.TemporaryFile(dir=there):
            return
    except OSError as error:
        raise ValueError(f"{folder} cannot be written to ({error.strerror}): give another folder by --out") from error


def clear_away(folder: Path, pattern: str = PARTS) -> None:
    """Remove what killed calls have left under temporary names; a younger one may be somebody's at this moment."""
    for path in folder.glob(pattern):
        with contextlib.suppress(OSError):
            if time.time() - path.stat().st_mtime < _ABANDONED:
                continue
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink()


def check_folder(
    folder: Path, *, folders: Sequence[str], report: Sequence[str], what: str, ours: Callable[[Path], bool]
) -> None:
    """Raise a ValueError if it holds anything but these folders and files of a report.

    what: has made them, such as "an evaluation". ours: whether a results.json is of such a one.
    """
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{folder} is a file: give a folder for the results")
    if not folder.is_dir():
        return
    visible = sorted(entry.name for entry in folder.iterdir() if not entry.name.startswith("."))
    if strangers := [name for name in visible if name not in (*folders, *report)]:
        raise ValueError(f"{folder} holds {strangers[0]}, which is not from {what}: give another --out")
    for name in visible:
        if name == "results.json" and not ours(folder / name):
            raise ValueError(f"{folder / name} is not from {what}: give another --out")
        if name in folders and not (folder / name).is_dir():
            raise ValueError(f"{folder / name} is a file, where a folder should be: give another --out")


def check_apart(data: str, out: Path) -> None:
    """Raise a ValueError if the output lies inside the data: the next call would read its pictures as data."""
    if Path(data).is_dir() and Path(data).resolve() in (out.resolve(), *out.resolve().parents):
        raise ValueError(f"{out} is inside {data}, where it would become part of the data: give another folder")


def make_folder(folder: Path) -> None:
    """Make it, or raise a ValueError if it cannot be written to."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return
    except OSError as error:
        raise ValueError(f"{folder} cannot be written to ({error.strerror}): give another --out") from error


def read_json(path: Path, *, format: str) -> dict[str, Any] | None:
    """What a file of ours holds, which says so under "format", or None for any other."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) and found.get("format") == format else None
