"""Worker threads for CPU work whose results are the same, bit for bit, for any number of threads.

Convolutions round differently if the number of images or of threads changes. So samples are computed in blocks of a
fixed size, each block in one thread. Several blocks run at the same time, to use all cores.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

import torch

from condvae.runtime.torch_threads import saved_threads

T = TypeVar("T")

SAMPLES_PER_BLOCK = 4
"""Number of samples that are computed together on a CPU."""
_MOST = 4
"""Maximum number of worker threads. Small networks spend much time in Python, where more threads would only wait."""
_AHEAD = 2
"""Maximum number of tasks per worker whose results have not been fetched yet; this bounds the memory."""


@contextmanager
def on_workers(most: int) -> Iterator[Callable[[Callable[[Any], T], Iterable[Any]], Iterable[T]]]:
    """Yield a parallel version of `map`, in which every worker thread runs torch with a single thread.

    There are as many workers as torch would use threads, but at most `most`, and at most `_MOST`.
    """
    with saved_threads as threads:
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
