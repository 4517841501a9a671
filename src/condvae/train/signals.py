"""Ctrl-C and SIGTERM as a wish: the run ends its step, leaves a checkpoint, and stops."""

import signal
import threading
from types import FrameType
from typing import Any


class Stopped(Exception):  # noqa: N818 (asked for, no error)
    """A signal asked the run to stop, and it has left a checkpoint."""


class StopSignals:
    """Inside, the first signal only sets `asked`; a second one is obeyed as usual."""

    def __init__(self) -> None:
        self.asked = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> "StopSignals":
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._heard)
        return self

    def _heard(self, number: int, frame: FrameType | None) -> None:
        self.asked = True
        signal.signal(number, self._before[number])

    def __exit__(self, *error: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
