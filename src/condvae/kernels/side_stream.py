"""Work beside the main line of a GPU, in streams of its own, so that small kernels run at the same time."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import torch

T = TypeVar("T")


class SideStream:
    """`with side_stream():` does what is inside in a stream of its own, after all that was asked for before; nobody
    waits for it until `join`. Without streams it is done at once.

    Memory is handed out by stream: what one stream allocated must not be freed while another reads it. So tensors that
    cross over are kept until `release`, when all is joined.
    """

    def __init__(self, device: torch.device | None = None, streams: int = 0) -> None:
        cuda = device is not None and device.type == "cuda"
        self.streams = [torch.cuda.Stream(device) for _ in range(streams)] if cuda else []
        self.kept: list[object] = []
        self._next = 0
        self._begun: list[torch.cuda.Stream] = []  # a recording knows only streams that took part in it

    @contextmanager
    def __call__(self, *read: object, for_all: bool = False) -> Iterator[None]:
        """read: what the work inside reads of the main line. for_all: work that is begun later waits for this."""
        if not self.streams:
            yield
            return
        stream = self.streams[self._next]
        self._next = (self._next + 1) % len(self.streams)
        self.kept.extend(read)
        self._take_part(stream)
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            yield
        if for_all:
            for other in self.streams:
                if other is not stream:
                    self._take_part(other)
                    other.wait_stream(stream)

    def run(self, work: Callable[[], T], *, shared: bool = False) -> T:
        """`VDVAE.aside`: do the work in a stream of its own; shared: work that is begun later reads the result."""
        with self(work, for_all=shared):  # the closure holds on to all that the work reads
            result = work()
        if shared and self.streams:
            self.kept.append(result)
        return result

    def join(self) -> None:
        """From here on the main line waits for all that was begun."""
        for stream in self._begun:
            torch.cuda.current_stream().wait_stream(stream)

    def release(self) -> None:
        """Join, and let go of what was kept: no gradient is waited for any more."""
        self.join()
        self.kept.clear()
        self._begun.clear()

    def _take_part(self, stream: torch.cuda.Stream) -> None:
        if stream not in self._begun:
            self._begun.append(stream)
