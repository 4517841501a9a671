"""Worker threads for CPU work whose results are the same, bit for bit, for any number of threads.

Convolutions round differently if the number of images or of threads changes. So samples are computed in blocks of a
fixed size, each block in one thread; several blocks run at a time to use all cores.
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
"""Most worker threads. Small networks spend much of their time in Python, where more threads would only wait."""
_AHEAD = 2
"""Tasks per worker that may be submitted before their results are fetched; this bounds the memory."""


@contextmanager
def on_workers(most: int) -> Iterator[Callable[[Callable[[Any], T], Iterable[Any]], Iterable[T]]]:
    """Provide a parallel `map`, whose worker threads each run torch with one thread.

    There are as many workers as torch would use threads, but at most `most`.
    """
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
    """Saves and restores torch's number of threads. New threads of other code would start with the number that the
    workers set, so the last user restores the number that the first user found.
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
