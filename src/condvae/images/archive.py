"""Read the files in a folder or a zip file by their names."""

import hashlib
import json
import os
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import BinaryIO

from condvae.images.image_files import MOST_IMAGE_BYTES
from condvae.images.recorded_files import PICTURE_SUFFIXES, own_pictures
from condvae.runtime.zip_members import RepeatedNameError, opened_zip, read_member


@dataclass(frozen=True, kw_only=True, eq=False)
class Files:
    """The files in a folder or a zip file, without hidden files."""

    path: Path
    names: tuple[str, ...]
    """Paths of all files inside the folder or zip file, sorted, with / between folder names."""
    identity: str
    """A digest that changes when a file is added, removed, renamed or modified."""
    archive: zipfile.ZipFile | None = None
    own: frozenset[str] = frozenset()
    """Contact sheets and figures that condvae has written, which are not counted as images."""

    def open(self, name: str, *, most: int = MOST_IMAGE_BYTES) -> BinaryIO:
        """Open one file for reading in binary mode; several threads may call this at the same time.

        Raise ValueError if the file has more than `most` bytes, or if it is damaged in the zip file.
        """
        if self.archive is not None:
            return BytesIO(read_member(self.archive, name, most=most))
        if (size := (self.path / name).stat().st_size) > most:
            raise ValueError(f"it has {size:,} bytes, expected at most {most:,}")
        return open(self.path / name, "rb")

    def images(self) -> tuple[str, ...]:
        """Return the names of the image files, without contact sheets and figures that condvae has written."""
        return tuple(name for name in self.names if name.lower().endswith(PICTURE_SUFFIXES) and name not in self.own)

    @property
    def except_own(self) -> str:
        """Words for the message that there are no images, if there are contact sheets or figures of condvae."""
        return " except for contact sheets and figures of condvae, which do not count" if self.own else ""


@contextmanager
def opened(path: Path) -> Iterator[Files]:
    """Open a folder or a zip file for reading inside a `with` block."""
    if path.is_dir():
        stats = sorted(_walk(path))
        names = tuple(name for name, *_ in stats)
        own = own_pictures(names, lambda name, most: _start(path / name, most))
        yield Files(path=path, names=names, identity=digest([str(path.resolve()), stats]), own=own)
        return
    with ExitStack() as stack:
        try:
            archive = stack.enter_context(opened_zip(path))
        except RepeatedNameError as error:
            raise ValueError(f"{path} cannot be used ({error}): rename one of them, and make the zip again") from error
        except ValueError as error:
            raise ValueError(f"{path} is not a whole zip file ({error}): copy or download it again") from error
        members = [name for name in archive.namelist() if name and name[-1] != "/" and _visible(name.split("/"))]
        names = tuple(sorted(members))
        own = own_pictures(names, lambda name, most: read_member(archive, name, most=most))
        yield Files(path=path, names=names, identity=stat_identity([path]), archive=archive, own=own)


def stat_identity(paths: Iterable[Path]) -> str:
    """Return a digest of the paths, sizes and modification times of files, which changes if a file is modified."""
    stats = [(str(path.resolve()), path.stat().st_size, path.stat().st_mtime_ns) for path in paths]
    return digest(stats)


def digest(plain: object) -> str:
    """Return a short digest of a value that can be converted to JSON."""
    return hashlib.sha256(json.dumps(plain).encode()).hexdigest()[:32]


def common_top(names: Iterable[str]) -> str:
    """Return the top folder that all file names share, such as 'photos/', or '' if there is none."""
    tops = {name.split("/", 1)[0] if "/" in name else "" for name in names}
    top = tops.pop() if len(tops) == 1 else ""
    return f"{top}/" if top else ""


def _start(path: Path, most: int) -> bytes:
    """Read the first bytes of a file, at most this number."""
    with path.open("rb") as file:
        return file.read(most)


def _visible(parts: Iterable[str]) -> bool:
    return not any(part.startswith(".") or part == "__MACOSX" for part in parts)


def _walk(root: Path) -> Iterator[tuple[str, int, int]]:
    """Yield (name, size, modification time) of each visible file. Follow links to folders, but read no folder twice."""
    seen: set[str] = set()
    todo = [("", str(root))]
    while todo:
        prefix, folder = todo.pop()
        real = os.path.realpath(folder)
        if real in seen:
            continue
        seen.add(real)
        with os.scandir(folder) as entries:
            for entry in entries:
                if not _visible([entry.name]):
                    continue
                if entry.is_symlink() and not os.path.exists(entry.path):  # a broken or circular link
                    continue
                if entry.is_dir():
                    todo.append((f"{prefix}{entry.name}/", entry.path))
                elif entry.is_file():
                    stat = entry.stat()
                    yield f"{prefix}{entry.name}", stat.st_size, stat.st_mtime_ns
