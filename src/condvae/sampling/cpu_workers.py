"""Threads for work on a CPU whose bits do not depend on how many there are.

Convolutions round differently for another number of images, or of threads. So samples are computed in blocks of always
the same number, each in one thread; several blocks at a time use all cores.
"""

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

import torch

T = TypeVar("T")

SAMPLES_PER_BLOCK = 4
"""Samples computed together on a CPU."""
_MOST = 4
"""Small networks spend much of their time in Python, which more threads would only wait for."""
_AHEAD = 2
"""Results that may wait to be fetched, for each worker: memory stays bounded."""


@contextmanager
def on_workers(most: int) -> Iterator[Callable[[Callable[[Any], T], Iterable[Any]], Iterable[T]]]:
    """`map`, in threads of their own that compute with one thread each: as many as torch would use, up to `most`."""
    with _threads as threads:
        workers = max(1, min(threads, _MOST, most))
        pool = ThreadPoolExecutor(workers, initializer=torch.set_num_threads, initargs=(1,))

        def each(work: Callable[[Any], T], items: Iterable[Any]) -> Iterator[T]:
            waiting: deque[Future[T]] = deque()
            for item in items:
                if len(waiting) == _AHEAD * workers:
                    yield waiting.popleft().result()
                waiting.append(pool.submit(work, item))
            while waiting:
                yield waiting.popleft().result()

        try:
            yield each
        finally:
            pool.shutdown(cancel_futures=True)


class _Threads:
    """How many threads torch uses: what workers set for themselves is also what new threads of others start with, so
    the last user puts back what the first found.
    """

    def __init__(self) -> None:
        self._lock, self._users, self._before = threading.Lock(), 0, 0

    def __enter__(self) -> int:
        with self._lock:
            if not self._users:
                self._before = torch.get_num_threads()
            self._users += 1
            return self._before

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._users -= 1
            if not self._users:
                torch.set_num_threads(self._before)


_threads = _Threads()
