"""GPU work in side streams, so that small kernels run at the same time as those of the main stream."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import torch

T = TypeVar("T")


class SideStream:
    """`with side_stream():` runs its body in a side stream, after all work queued before. The main stream does not
    wait for the body until `join`. Without side streams, the body runs in the main stream.

    Memory belongs to the stream that allocated it, and must not be freed while another stream reads it. So tensors that
    are used across streams are kept until `release`, which joins all streams first.
    """

    def __init__(self, device: torch.device | None = None, streams: int = 0) -> None:
        cuda = device is not None and device.type == "cuda"
        self.streams = [torch.cuda.Stream(device) for _ in range(streams)] if cuda else []
        self.kept: list[object] = []
        self._next = 0
        self._begun: list[torch.cuda.Stream] = []  # a graph recording may wait only for streams that took part in it

    @contextmanager
    def __call__(self, *read: object, for_all: bool = False) -> Iterator[None]:
        """Run the body of the `with` in the next side stream.

        read: tensors of the main stream that the body reads. for_all: all side work that starts later waits for it.
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
        """Run the work in a side stream (replaces `VDVAE.aside`). shared: work that starts later reads the result."""
        with self(work, for_all=shared):  # keeping the closure keeps all tensors that it reads
            result = work()
        if shared and self.streams:
            self.kept.append(result)
        return result

    def join(self) -> None:
        """Make the main stream wait for all side work that was started."""
        for stream in self._begun:
            torch.cuda.current_stream().wait_stream(stream)

    def release(self) -> None:
        """Join, then free the kept tensors. Call this after the backward pass."""
        self.join()
        self.kept.clear()
        self._begun.clear()

    def _take_part(self, stream: torch.cuda.Stream) -> None:
        if stream not in self._begun:
            self._begun.append(stream)
