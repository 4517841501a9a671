"""Many images into one array, in parallel: in memory, or beyond a limit in a memory-mapped file that is kept."""

import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np
from tqdm import tqdm

from condvae.images.archive import digest
from condvae.runtime.atomic import replacing
from condvae.runtime.checks import check_choice, check_whole
from condvae.runtime.pixels import PixelArray

_CHUNK = 64  # images per task of a thread: few enough for an even load, enough to hide the cost of a task
_BAR_FROM = 5_000  # images from which on a terminal shows a progress bar
_FORMAT = 1  # part of each key: raise it when the same files should decode to other pixels

T = TypeVar("T")

# Too many threads slow each other down: Pillow lets go of the interpreter's lock only while it decodes. With 16 cores,
# JPEGs of 64 and 128 pixels were read fastest by one thread, of 256 by two (1.5 times), of 512 by four (2.4 times).
_SIDE_PER_THREAD = 128


@dataclass(frozen=True, kw_only=True)
class ReadOptions:
    """How images are to be read."""

    size: int | None
    channels: int | None
    cache: Path
    workers: int
    memory_limit: int
    """Bytes of an array from which on it goes to a file in `cache`."""

    def __post_init__(self) -> None:
        """Refuse sizes and channels that no network has."""
        if self.size is not None:
            check_whole(self.size, "size", least=1)
        if self.channels is not None:
            check_choice(self.channels, "channels", (1, 3))
        check_whole(self.workers, "workers", least=1)

    def for_side(self, side: int) -> "ReadOptions":
        """With no more threads than images of so many pixels a side are worth."""
        return replace(self, workers=min(self.workers, max(1, side // _SIDE_PER_THREAD)))

    def key(self, identity: str, what: str) -> str:
        """The name under which a file of the cache holds these images, read this way."""
        return digest([_FORMAT, identity, what, self.size, self.channels])


class Stored(NamedTuple):
    """An array of images, and what could not be read: those rows are black and must not be used."""

    images: PixelArray  # [N, H, W, C]
    broken: dict[int, str]  # row -> reason


def store(
    shape: tuple[int, int, int, int], make: Callable[[int], PixelArray], *, key: str, name: str, reading: ReadOptions
) -> Stored:
    """Image i is make(i); where that raises, row i is black and the reason is kept. name: of the set, for the user."""
    needed = int(np.prod(shape, dtype=np.int64))
    if needed <= reading.memory_limit:
        images = np.zeros(shape, dtype=np.uint8)
        return Stored(images, _fill(images, make, name, reading.workers))
    try:
        reading.cache.mkdir(parents=True, exist_ok=True)
        with _alone(reading.cache / f"{key}.lock"):
            return stored(key, reading) or _write(shape, make, key=key, name=name, reading=reading)
    except OSError as error:
        raise ValueError(
            f"{name} needs {needed / 2**30:.1f} GiB in the folder {reading.cache}, which cannot be written "
            f"({error.strerror or error}): make room there (or set XDG_CACHE_HOME to another place), or lower --size"
        ) from error


def stored(key: str, reading: ReadOptions) -> Stored | None:
    """What an earlier run left in the cache, if it is whole."""
    path = reading.cache / f"{key}.npy"
    try:
        images = np.load(path, mmap_mode="r")
        broken = json.loads(path.with_suffix(".json").read_text())
        return Stored(images, {int(row): str(reason) for row, reason in broken.items()})
    except (OSError, ValueError, EOFError, AttributeError):
        return None  # absent or cut short: it is written again


def in_threads(work: Callable[[int], T], n: int, *, workers: int, label: str) -> Iterator[T]:
    """work(0), ..., work(n - 1) in order; an interruption ends it at once and not after all the work."""

    def chunk(start: int) -> list[T]:
        return [work(i) for i in range(start, min(start + _CHUNK, n))]

    shown = n >= _BAR_FROM and sys.stderr.isatty()
    pool = ThreadPoolExecutor(workers)
    try:
        with tqdm(total=n, desc=label, unit=" images", disable=not shown) as bar:
            for results in pool.map(chunk, range(0, n, _CHUNK)):
                bar.update(len(results))
                yield from results
    finally:
        pool.shutdown(cancel_futures=True)


def reason_of(error: Exception) -> str:
    """An exception as a few words on one line."""
    return " ".join(str(error).split()) or type(error).__name__


def _fill(images: PixelArray, make: Callable[[int], PixelArray], name: str, workers: int) -> dict[int, str]:
    def one(i: int) -> str | None:
        try:
            images[i] = make(i)
        except Exception as error:  # decoders raise whatever they like on broken files
            images[i] = 0
            return reason_of(error)
        return None

    reasons = in_threads(one, len(images), workers=workers, label=f"reading {name}")
    return {i: reason for i, reason in enumerate(reasons) if reason is not None}


def _write(
    shape: Sequence[int], make: Callable[[int], PixelArray], *, key: str, name: str, reading: ReadOptions
) -> Stored:
    """Read all images into a file of the cache, which is then mapped."""
    path = reading.cache / f"{key}.npy"
    for left_over in reading.cache.glob(f".{key}.*.part"):  # by a run that died; the lock says that it did
        left_over.unlink(missing_ok=True)
    needed, free = int(np.prod(shape, dtype=np.int64)), shutil.disk_usage(reading.cache).free
    if needed > free:
        raise OSError(f"{free / 2**30:.1f} GiB are free")
    with replacing(path) as temporary:
        images = np.lib.format.open_memmap(temporary, mode="w+", dtype=np.uint8, shape=tuple(shape))
        with temporary.open("rb+") as file:
            if hasattr(os, "posix_fallocate"):  # a full disk shall be an error now, not a bus error while writing
                os.posix_fallocate(file.fileno(), 0, os.fstat(file.fileno()).st_size)
            broken = _fill(images, make, name, reading.workers)
            images.flush()
            del images
            path.with_suffix(".json").write_text(json.dumps(broken))
            os.fsync(file.fileno())
    whole = stored(key, reading)
    if whole is None:
        raise OSError(f"{path.name} cannot be read back")
    return whole


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """One process at a time: the first of several ranks decodes, the others wait and then map its file."""
    try:
        import fcntl
    except ImportError:  # not on Windows, where several processes do the same work and the last one stays
        yield
        return
    with open(path, "a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
