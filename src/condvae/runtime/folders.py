"""Functions that find and check output and cache folders."""

import os
import tempfile
from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from condvae.runtime.json_reading import read_json_file


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


def lock_folder(folder: Path) -> int | None:
    """Lock a folder against other calls of condvae, until the returned descriptor is closed or the process ends.

    Raise BlockingIOError if another call has locked it. Return None where folders cannot be locked.
    """
    try:
        import fcntl
    except ImportError:  # not a POSIX system
        return None
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if not os.path.samestat(os.fstat(descriptor), os.stat(folder)):
            raise BlockingIOError("another call has removed the folder, and created it again")
    except BlockingIOError:
        os.close(descriptor)
        raise
    except OSError:  # some network drives have no locks
        os.close(descriptor)
        return None
    return descriptor


def check_replaceable(path: Path, *, what: str, ours: Callable[[Path], bool]) -> None:
    """Raise ValueError if `path`, to which a file will be written, is a folder or a file that must be kept.

    Call this before anything is computed.
    what: the only kind of file that may be replaced, for the error message, such as "a model file of condvae".
    ours: a function that returns whether an existing file is of this kind; it must look at the content.
    """
    if path.is_dir():
        raise ValueError(f"{path} is a folder: give --out the name of a file")
    if os.path.lexists(path) and not (path.is_file() and ours(path)):
        raise ValueError(f"{path} already exists and is not {what}: give --out another name")
    check_writable(path.parent)


def check_folder(
    folder: Path, *, folders: Sequence[str], report: Sequence[str], what: str, ours: Callable[[Path], bool]
) -> None:
    """Raise ValueError if an output folder contains anything that the experiment does not write.

    folders, report: the names of the subfolders and of the report files that the experiment writes. The names of files
    may contain *, as in sheet-*.png.
    what: the kind of experiment, for the error message, such as "an evaluation".
    ours: a function that returns whether a results.json was written by this kind of experiment.
    """
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{folder} is a file: choose a folder for the results")
    if not folder.is_dir():
        return
    visible = sorted(entry.name for entry in folder.iterdir() if not entry.name.startswith("."))
    if foreign := [
        name for name in visible if name not in folders and not any(fnmatchcase(name, one) for one in report)
    ]:
        raise ValueError(
            f"{folder} contains {foreign[0]}, which was not written by {what}: choose another folder with --out"
        )
    for name in visible:
        if name == "results.json" and not ours(folder / name):
            raise ValueError(f"{folder / name} was not written by {what}: choose another folder with --out")
        if name in folders and not (folder / name).is_dir():
            raise ValueError(f"{folder / name} is a file but should be a folder: choose another folder with --out")


def check_apart(data: str | Path | Sequence[str | Path], out: Path) -> None:
    """Raise ValueError if the output folder is inside a data folder, where output pictures would be read as data."""
    for one in [data] if isinstance(data, str | Path) else data:
        folder = Path(one).expanduser()
        if folder.is_dir() and folder.resolve() in (out.resolve(), *out.resolve().parents):
            raise ValueError(
                f"{out} is inside {one}, so the output would become part of the data: choose another folder"
            )


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
        found = read_json_file(path)
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) and found.get("format") == format else None
