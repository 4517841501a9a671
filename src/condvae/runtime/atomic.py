"""Atomic writes: a file or folder gets its name only when it is complete; until then, an older one is kept."""

import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PARTS = ".*.part"
"""Glob pattern of the temporary files and folders that a killed process leaves behind."""


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary path in the same folder; rename it to `path` if the block succeeds, else remove it.

    The parent folder must exist, and the block must create the file or folder. A folder can replace only an empty
    folder. Several processes may write the same path at the same time: the last one to finish wins.
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
    """Like `replacing`, but create the parent folder and raise ValueError if the file cannot be written."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as temporary:
            yield temporary
    except OSError as error:
        raise ValueError(
            f"{path} cannot be written ({error.strerror}): check the folder and the free disk space, then run again"
        ) from error


def write_text(path: Path, text: str) -> None:
    """Write a text file atomically and create its folder; raise ValueError if that fails."""
    with writing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
