"""The one atomic write: a file or a folder is complete under its name, or the older one is still there."""

import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PARTS = ".*.part"
"""Glob pattern of the temporary names that a killed process leaves behind."""


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary path beside `path`, renamed to `path` if the block succeeds and removed if it fails.

    The parent folder must exist; the block makes the file or the folder. A folder can take the place of an empty one.
    Processes that write the same path at once do not disturb each other: the last one wins.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}-{uuid.uuid4().hex[:8]}.part")
    try:
        yield temporary
        os.replace(temporary, path)
    except BaseException:
        if temporary.is_dir():
            shutil.rmtree(temporary, ignore_errors=True)
        else:
            temporary.unlink(missing_ok=True)
        raise


@contextmanager
def writing(path: Path) -> Iterator[Path]:
    """As `replacing`, with the parent folder made and a ValueError for the user if the file cannot be written."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as temporary:
            yield temporary
    except OSError as error:
        raise ValueError(f"{path} cannot be written ({error.strerror}): make room, and run once more") from error


def write_text(path: Path, text: str) -> None:
    """Write a whole text file and make its folder; a ValueError if that fails."""
    with writing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
