"""On Ctrl-C, SIGTERM or SIGHUP, finish the current step, write a checkpoint, and stop."""

import contextlib
import os
import signal
import threading
import time
from types import FrameType
from typing import Any


class Stopped(Exception):  # noqa: N818 (requested by the user, not an error)
    """Raised when a signal has stopped the run, after a checkpoint was written."""


_GRACE_SECONDS = 3.0  # a second signal within this time is taken for a repetition of the first


class StopSignals:
    """Context in which the first signal only sets `requested`. A signal some seconds later has its usual effect."""

    def __init__(self) -> None:
        self.requested = False
        self._first = 0.0
        self._before: dict[int, Any] = {}

    def __enter__(self) -> "StopSignals":
        if threading.current_thread() is threading.main_thread():
            # SIGHUP is sent when the terminal, or the connection to it, is closed.
            for number in {signal.SIGINT, signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGTERM)}:
                if signal.getsignal(number) is not signal.SIG_IGN:  # as for SIGHUP under nohup
                    self._before[number] = signal.signal(number, self._on_signal)
        return self

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        # When a job is cancelled, its scheduler and torchrun both send a signal, almost at the same time.
        if self.requested and time.monotonic() - self._first > _GRACE_SECONDS:
            signal.signal(number, self._before[number])
            signal.raise_signal(number)
        if not self.requested:
            self._first = time.monotonic()
            with contextlib.suppress(OSError):
                os.write(2, b"\nstopping after this step; to stop at once, send the signal again in a few seconds\n")
        self.requested = True

    def __exit__(self, *error: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
