"""Run GPU work in side streams, so that small kernels run at the same time as kernels of the main stream."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import torch

T = TypeVar("T")


class SideStream:
    """Runs the body of `with side_stream():` in a CUDA side stream, after all GPU work that was queued before.

    The main stream waits for the body only in `join`. If there are no side streams, the body runs in the main stream.
    Memory belongs to the stream that allocated it, and must not be freed while another stream reads it. So tensors that
    are used across streams are kept until `release`, which first waits for all streams.
    """

    def __init__(self, device: torch.device | None = None, streams: int = 0) -> None:
        cuda = device is not None and device.type == "cuda"
        self.streams = [torch.cuda.Stream(device) for _ in range(streams)] if cuda else []
        self.kept: list[object] = []
        self._next = 0
        self._begun: list[torch.cuda.Stream] = []  # a graph recording may wait only for streams that took part in it

    @contextmanager
    def __call__(self, *read: object, for_all: bool = False) -> Iterator[None]:
        """Run the body of the `with` block in the next side stream.

        read: tensors of the main stream that the body reads; they are kept until `release`. for_all: whether work that
        is later started in any side stream waits until the body has finished.
        """
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
        """Call `work` in a side stream and return its result. This replaces `VDVAE.aside`.

        shared: whether work that starts later in side streams reads the result.
        """
        with self(work, for_all=shared):  # keeping the closure keeps all tensors that it reads
            result = work()
        if shared and self.streams:
            self.kept.append(result)
        return result

    def join(self) -> None:
        """Make the main stream wait for all work that was started in side streams."""
        for stream in self._begun:
            torch.cuda.current_stream().wait_stream(stream)

    def release(self) -> None:
        """Wait for all side streams, and free the kept tensors. Call this after the backward pass."""
        self.join()
        self.kept.clear()
        self._begun.clear()

    def _take_part(self, stream: torch.cuda.Stream) -> None:
        if stream not in self._begun:
            self._begun.append(stream)
