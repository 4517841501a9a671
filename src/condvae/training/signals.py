"""Ctrl-C, SIGTERM and SIGHUP as a wish: the run ends its step, leaves a checkpoint, and stops."""

import contextlib
import os
import signal
import threading
import time
from types import FrameType
from typing import Any


class Stopped(Exception):  # noqa: N818 (asked for, no error)
    """A signal asked the run to stop, and it has left a checkpoint."""


_AGAIN = 3.0  # seconds after which a second signal is meant as one


class StopSignals:
    """Inside, the first signal only sets `asked`; one that comes seconds later is obeyed as usual."""

    def __init__(self) -> None:
        self.asked = False
        self._first = 0.0
        self._before: dict[int, Any] = {}

    def __enter__(self) -> "StopSignals":
        if threading.current_thread() is threading.main_thread():
            # SIGHUP: the terminal, or the connection to it, is gone.
            for number in {signal.SIGINT, signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGTERM)}:
                self._before[number] = signal.signal(number, self._heard)
        return self

    def _heard(self, number: int, frame: FrameType | None) -> None:
        # A job that is ended as a whole is told twice within moments: by its scheduler and by torchrun.
        if self.asked and time.monotonic() - self._first > _AGAIN:
            signal.signal(number, self._before[number])
            signal.raise_signal(number)
        if not self.asked:
            self._first = time.monotonic()
            with contextlib.suppress(OSError):
                os.write(2, b"\nstopping after this step; once more in a few seconds stops at once\n")
        self.asked = True

    def __exit__(self, *error: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
