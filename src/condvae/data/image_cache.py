"""Read many images in parallel into one array: in memory, or, if it is large, in a memory-mapped cache file."""

import json
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np

from condvae.images.archive import digest
from condvae.runtime.atomic import replacing
from condvae.runtime.checks import check_choice, check_whole
from condvae.runtime.json_reading import read_json_file
from condvae.runtime.messages import reason_of
from condvae.runtime.pixels import PixelArray
from condvae.runtime.progress import track

_CHUNK = 64  # images per thread task: few enough to balance the load, enough to hide the cost of starting a task
_FORMAT = 2  # part of each cache key: increase it when the same files decode to different pixels

T = TypeVar("T")

# Use one thread per 128 pixels of image side. Pillow releases the interpreter's lock only while it decodes, so more
# threads slow each other down. On 16 cores, one thread was fastest for JPEGs of 64 and 128 pixels, two for 256 pixels
# (1.5 times as fast as one) and four for 512 pixels (2.4 times).
_SIDE_PER_THREAD = 128


@dataclass(frozen=True, kw_only=True)
class ReadOptions:
    """How to read the images of a data set. The fields are arguments of `open_data`."""

    size: int | None
    channels: int | None
    cache: Path
    workers: int
    memory_limit: int
    """An array of more bytes than this is written to a file in the folder `cache`."""

    def __post_init__(self) -> None:
        """Raise ValueError if the size, the channels or the number of workers is out of range."""
        if self.size is not None:
            check_whole(self.size, "size", least=1)
        if self.channels is not None:
            check_choice(self.channels, "channels", (1, 3))
        check_whole(self.workers, "workers", least=1)

    def for_side(self, side: int) -> "ReadOptions":
        """Return options with no more threads than are useful for images of side x side pixels."""
        return replace(self, workers=min(self.workers, max(1, side // _SIDE_PER_THREAD)))

    def key(self, identity: str, what: str) -> str:
        """Return the name of the cache file: a digest of the images' identity and of the options that change pixels."""
        return digest([_FORMAT, identity, what, self.size, self.channels])


class Stored(NamedTuple):
    """An array of images. Images that could not be read are black in it, and must not be used."""

    images: PixelArray  # [N, H, W, C]
    broken: dict[int, str]  # row of an unreadable image -> reason


def store(
    shape: tuple[int, int, int, int], make: Callable[[int], PixelArray], *, key: str, name: str, reading: ReadOptions
) -> Stored:
    """Return an array whose image i is make(i). If make(i) raises, image i is black, and the reason is kept.

    An array above the memory limit is kept in a cache file.
    key: name of the cache file.
    name: name of the data set in messages.
    """
    needed = int(np.prod(shape, dtype=np.int64))
    if needed <= reading.memory_limit:
        images = np.zeros(shape, dtype=np.uint8)
        return Stored(images, _fill(images, make, name, reading.workers))
    try:
        reading.cache.mkdir(parents=True, exist_ok=True)
        with _exclusive_lock(reading.cache / f"{key}.lock"):
            return stored(key, reading) or _write(shape, make, key=key, name=name, reading=reading)
    except OSError as error:
        raise ValueError(
            f"{name} needs {needed / 2**30:.1f} GiB of disk space in {reading.cache}, but writing there failed "
            f"({error.strerror or error}): free disk space, set XDG_CACHE_HOME to another folder, or reduce --size"
        ) from error


def stored(key: str, reading: ReadOptions) -> Stored | None:
    """Return the array that an earlier run wrote to the cache; None if the file is missing or incomplete."""
    path = reading.cache / f"{key}.npy"
    try:
        images = np.load(path, mmap_mode="r")
        broken = read_json_file(path.with_suffix(".json"))
        return Stored(images, {int(row): str(reason) for row, reason in broken.items()})
    except (OSError, ValueError, EOFError, AttributeError):
        return None  # missing or truncated, so it is written again


def in_threads(work: Callable[[int], T], n: int, *, workers: int, label: str) -> Iterator[T]:
    """Yield work(0), ..., work(n - 1) in order, computed by threads. If interrupted, begin no further calls."""

    def chunk(start: int) -> list[T]:
        return [work(i) for i in range(start, min(start + _CHUNK, n))]

    pool = ThreadPoolExecutor(workers)
    try:
        with track(label, total=n) as job:
            for results in pool.map(chunk, range(0, n, _CHUNK)):
                job.update(len(results))
                yield from results
    finally:
        pool.shutdown(cancel_futures=True)


def _fill(images: PixelArray, make: Callable[[int], PixelArray], name: str, workers: int) -> dict[int, str]:
    def one(i: int) -> str | None:
        try:
            images[i] = make(i)
        except Exception as error:  # decoders can raise any exception on broken files
            images[i] = 0
            return reason_of(error)
        return None

    reasons = in_threads(one, len(images), workers=workers, label=f"reading {name}")
    return {i: reason for i, reason in enumerate(reasons) if reason is not None}


def _write(
    shape: Sequence[int], make: Callable[[int], PixelArray], *, key: str, name: str, reading: ReadOptions
) -> Stored:
    """Read all images into a cache file, then memory-map it."""
    path = reading.cache / f"{key}.npy"
    for left_over in reading.cache.glob(f".{key}.*.part"):  # from killed runs: a live one would hold the lock
        left_over.unlink(missing_ok=True)
    needed, free = int(np.prod(shape, dtype=np.int64)), shutil.disk_usage(reading.cache).free
    if needed > free:
        raise OSError(f"only {free / 2**30:.1f} GiB of disk space are free")
    with replacing(path) as temporary:
        images = np.lib.format.open_memmap(temporary, mode="w+", dtype=np.uint8, shape=tuple(shape))
        with temporary.open("rb+") as file:
            if hasattr(os, "posix_fallocate"):  # fail now if the disk is full, not with a bus error later
                os.posix_fallocate(file.fileno(), 0, os.fstat(file.fileno()).st_size)
            broken = _fill(images, make, name, reading.workers)
            images.flush()
            del images
            path.with_suffix(".json").write_text(json.dumps(broken))
            os.fsync(file.fileno())
    whole = stored(key, reading)
    if whole is None:
        raise OSError(f"the cache file {path.name} was written but cannot be read")
    return whole


@contextmanager
def _exclusive_lock(path: Path) -> Iterator[None]:
    """Let one process at a time into the `with` block.

    So the first of several ranks decodes the images, and the other ranks wait and then memory-map its file.
    """
    try:
        import fcntl
    except ImportError:  # Windows has no fcntl: there, each process decodes, and the last one's file is kept
        yield
        return
    with open(path, "a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
