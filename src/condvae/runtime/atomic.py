"""Atomic writes: a file or folder gets its name only when it is complete; until then, an older one is kept."""

import functools
import glob
import hashlib
import os
import re
import shutil
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PARTS = ".*.part"
"""Glob pattern of the temporary files and folders that a killed process leaves behind. Files of the user may have such
names too: see `is_temporary`."""

_TEMPORARY = re.compile(r"\..+\.(?:([0-9a-f]{8})-)?(\d+)-[0-9a-f]{8}\.part", re.DOTALL)
"""Name, machine (older versions of condvae left it out), process and a random number."""
_UNKNOWN = "00000000"
_ABANDONED = 3600.0
"""Age in seconds after which a temporary file of another machine counts as abandoned."""


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary path in the same folder; rename it to `path` if the block succeeds, else remove it.

    The parent folder must exist, and the block must create the file or folder. A folder can replace only an empty
    folder. Several processes may write the same path at the same time: the last one to finish wins. What killed
    processes have left for this path is removed.
    """
    clear_away(path.parent, f".{glob.escape(path.name)}.*.part")
    temporary = path.with_name(f".{path.name}.{_machine()}-{os.getpid()}-{uuid.uuid4().hex[:8]}.part")
    try:
        yield temporary
        os.replace(temporary, path)
    except BaseException:
        _remove(temporary)
        raise


def clear_away(folder: Path, pattern: str = PARTS) -> None:
    """Remove temporary files and folders of killed processes that match a glob pattern.

    A process of this machine has been killed if it is not running. Nothing is known of processes of other machines:
    what they have not changed for an hour is removed too. A file with another name is the user's and is kept.
    """
    for path in folder.glob(pattern):
        if is_temporary(path) and is_abandoned(path):
            _remove(path)


def is_temporary(path: Path) -> bool:
    """Return whether a file or folder has the name of a temporary one that `replacing` makes."""
    return _TEMPORARY.fullmatch(path.name) is not None


def is_abandoned(path: Path) -> bool:
    """Return whether no process uses a temporary file or folder any more, by its name or, if unknown, by its age."""
    found = _TEMPORARY.fullmatch(path.name)
    if found and found[1] == _machine() != _UNKNOWN:
        return not _is_running(int(found[2]))
    try:
        return time.time() - path.stat().st_mtime > _ABANDONED
    except OSError:  # another process has removed it
        return False


def _is_running(process: int) -> bool:
    try:
        os.kill(process, 0)  # sends no signal, but raises an error if there is no such process
    except PermissionError:  # a process of another user
        return True
    except (OSError, OverflowError):
        return False
    return True


@functools.cache
def _machine() -> str:
    """Return eight digits that identify the system in which process numbers are unique, or zeros if it is not known.

    It is a container, or a machine from its start until it is switched off.
    """
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text()
        return hashlib.sha256(f"{boot} {os.readlink('/proc/self/ns/pid')}".encode()).hexdigest()[:8]
    except OSError:
        return _UNKNOWN


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


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
