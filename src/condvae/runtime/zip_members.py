"""Read zip files that may be damaged or hostile: no name twice, and no member that inflates beyond a limit."""

import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from condvae.runtime.messages import reason_of, short

MOST_INFLATED = 2**30
MOST_RATIO = 100
"""A member may inflate to more than `MOST_INFLATED` bytes only if that is at most `MOST_RATIO` times its packed size.
Deflate shrinks images by a factor of two to ten, and zeros by a factor of a thousand."""
_METHODS = {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}


class RepeatedNameError(ValueError):
    """Two files in a zip file have the same name."""


@contextmanager
def opened_zip(path: Path) -> Iterator[zipfile.ZipFile]:
    """Open a zip file inside a `with` block; raise ValueError with the reason if it is damaged or has a name twice."""
    try:
        archive = zipfile.ZipFile(path)
    except Exception as error:  # a damaged directory can raise any exception
        raise ValueError(reason_of(error)) from error
    with archive:
        seen: set[str] = set()
        for name in archive.namelist():
            if name in seen:
                raise RepeatedNameError(f"it contains two files named {short(name)}")
            seen.add(name)
        yield archive


@contextmanager
def opened_member(archive: zipfile.ZipFile, name: str) -> Iterator[IO[bytes]]:
    """Open one file of a zip inside a `with` block. Raise ValueError if it is damaged, or would inflate too much.

    At most as many bytes can be read as the directory of the zip file states.
    """
    try:
        member = archive.getinfo(name)
        if member.flag_bits & 1:
            raise ValueError("it is encrypted")
        if member.compress_type not in _METHODS:
            raise ValueError("it is compressed with another method than deflate")
        if member.file_size > MOST_INFLATED and member.file_size > MOST_RATIO * member.compress_size:
            raise ValueError(f"it would inflate to {member.file_size:,} bytes, {MOST_RATIO} times its size or more")
        with archive.open(member) as file:
            yield file
    except MemoryError:
        raise ValueError("it needs more memory than is available") from None
    except ValueError:
        raise
    except Exception as error:  # damaged members can raise any exception
        raise ValueError(reason_of(error)) from error


def read_member(archive: zipfile.ZipFile, name: str, *, most: int) -> bytes:
    """Return the content of one file of a zip; raise ValueError if it is damaged or has more than `most` bytes."""
    size = archive.getinfo(name).file_size
    if size > most:
        raise ValueError(f"it has {size:,} bytes, expected at most {most:,}")
    with opened_member(archive, name) as file:
        return file.read(most + 1)
