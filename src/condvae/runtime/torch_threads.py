"""The number of threads with which torch computes one operation."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import torch


class _SavedThreads:
    """A context that saves torch's number of threads, which its users set to 1, and restores it.

    Otherwise, new threads of other code would start with 1 as well. If several contexts overlap, the last one to end
    restores the number that the first one found.
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


saved_threads = _SavedThreads()


@contextmanager
def on_one_thread() -> Iterator[None]:
    """Inside the `with` block, run torch with a single thread, for thousands of small operations.

    With more threads, each operation waits until all of them had a turn. If other programs keep the cores busy, this
    takes a hundred times as long as the operation.
    """
    with saved_threads:
        torch.set_num_threads(1)
        yield
