"""Functions that find and check output and cache folders."""

import json
import os
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any


def cache_folder() -> Path:
    """Return the default folder for downloads."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "condvae"


def check_writable(folder: Path) -> None:
    """Raise ValueError if this folder, which need not exist yet, cannot be written to. Call this before a download."""
    existing = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    try:
        with tempfile.TemporaryFile(dir=existing):
            return
    except OSError as error:
        raise _unwritable(folder, error) from error


def _unwritable(folder: Path, error: OSError) -> ValueError:
    return ValueError(f"{folder} cannot be written to ({error.strerror}): choose another folder with --out")


def check_folder(
    folder: Path, *, folders: Sequence[str], report: Sequence[str], what: str, ours: Callable[[Path], bool]
) -> None:
    """Raise ValueError if an output folder contains anything that the experiment does not write.

    folders, report: the names of the subfolders and of the report files that the experiment writes.
    what: the kind of experiment, for the error message, such as "an evaluation".
    ours: a function that returns whether a results.json was written by this kind of experiment.
    """
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{folder} is a file: choose a folder for the results")
    if not folder.is_dir():
        return
    visible = sorted(entry.name for entry in folder.iterdir() if not entry.name.startswith("."))
    if foreign := [name for name in visible if name not in (*folders, *report)]:
        raise ValueError(
            f"{folder} contains {foreign[0]}, which was not written by {what}: choose another folder with --out"
        )
    for name in visible:
        if name == "results.json" and not ours(folder / name):
            raise ValueError(f"{folder / name} was not written by {what}: choose another folder with --out")
        if name in folders and not (folder / name).is_dir():
            raise ValueError(f"{folder / name} is a file but should be a folder: choose another folder with --out")


def check_apart(data: str, out: Path) -> None:
    """Raise ValueError if the output folder is inside the data folder, where output pictures would be read as data."""
    if Path(data).is_dir() and Path(data).resolve() in (out.resolve(), *out.resolve().parents):
        raise ValueError(f"{out} is inside {data}, so the output would become part of the data: choose another folder")


def make_folder(folder: Path) -> None:
    """Create the folder, or raise ValueError if it cannot be written to."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return
    except OSError as error:
        raise _unwritable(folder, error) from error


def read_json(path: Path, *, format: str) -> dict[str, Any] | None:
    """Read a JSON file whose "format" key has this value; return None for any other file."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) and found.get("format") == format else None
