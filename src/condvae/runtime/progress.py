"""Show how far a long job has come: a bar on a terminal, else a line at least every ten seconds, both on stderr.

A command opens one `Display` with `showing`. Any function below it can then `track` a job: it counts units, and a
thread of the display shows the count, also while a single unit takes minutes. Without a display, `track` only counts,
so that functions that are called from Python are silent.
"""

import math
import os
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TextIO

from condvae.runtime.messages import Say, in_words, printable

_EVERY = 9.0
"""Seconds between two lines if stderr is not a terminal. The thread looks twice a second, so these are at most ten."""
_TICK = 0.5
_BAR_WIDTH = 10
_LONG = 600.0
"""From this number of seconds in all, a job on a CPU gets a hint that a GPU is faster."""
_SETTLED_UNITS, _SETTLED_SECONDS = 3, 5.0
"""The time left is estimated after this number of units, or after one unit and this number of seconds."""


class TrackedJob:
    """A job whose units are counted. `update` does nothing but count, so it can be called in a hot loop."""

    def __init__(
        self,
        what: str,
        *,
        total: float | None = None,
        unit: str = "",
        measured: Callable[[], float] | None = None,
        left: Callable[[], float | None] | None = None,
        gpu_guide: str | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.what, self.total, self.unit = what, total, unit
        self.done = 0.0
        self.note = ""
        """Further numbers for the line, such as the loss."""
        self.told = self.hinted = False
        """Whether a line with an estimate, and the hint at a GPU, have been printed."""
        self._measured, self._left, self._gpu_guide, self._clock = measured, left, gpu_guide, clock
        self._began, self._noted = clock(), -math.inf

    def update(self, units: float = 1) -> None:
        """Count finished units."""
        self.done += units

    def note_due(self) -> bool:
        """Return True at the first call, and then about every ten seconds: the caller may then update `note`."""
        now = self._clock()
        due = now - self._noted >= _EVERY
        self._noted = now if due else self._noted
        return due

    def measure(self) -> None:
        """Update the count of a job that cannot call `update`, such as another program that writes a file."""
        if self._measured is not None:
            with suppress(OSError):
                self.done = self._measured()

    @property
    def elapsed(self) -> float:
        return self._clock() - self._began

    @property
    def seconds_left(self) -> float | None:
        """Estimate the seconds until the end; None while this cannot be known, or would be a wild guess."""
        settled = self.done >= _SETTLED_UNITS or (self.done > 0 and self.elapsed >= _SETTLED_SECONDS)
        if not settled or self.elapsed < 1:
            return None
        if self._left is not None:
            return self._left()
        return None if self.total is None else max(0.0, self.elapsed * (self.total - self.done) / self.done)

    def text(self) -> str:
        """Describe the job in one line: "drawing: 3 of 40 images, 2 min 10 s so far, about 30 min left"."""
        parts = []
        if self.total is not None:
            done = min(self.done, self.total)
            plural = "" if self.total == 1 or self.unit == "MB" else "s"
            parts.append(f"{done:,.0f} of {self.total:,.0f} {self.unit}{plural}")
        elif self.done:
            parts.append(f"{self.done:,.0f} {self.unit}s")
        if self.unit == "MB" and self.done and self.elapsed >= 1:
            parts.append(f"{self.done / self.elapsed:.1f} MB/s")
        if self.elapsed >= 1:
            parts.append(f"{in_words(self.elapsed)} so far")
        if left := self.seconds_left:
            parts.append(f"about {in_words(left, rough=True)} left")
        if self.note:
            parts.append(self.note)
        what = printable(self.what)  # it may contain file names
        return f"{what}: {', '.join(parts)}" if parts else f"{what} ..."

    def hint(self) -> str | None:
        """Return a hint at a GPU, once, if the job runs on a CPU and takes long in all."""
        left = self.seconds_left
        if self._gpu_guide is None or self.hinted or left is None or self.elapsed + left < _LONG:
            return None
        self.hinted = True
        whole = in_words(self.elapsed + left, rough=True)
        return f"{self.what} takes about {whole} in all on this CPU; a GPU is much faster: see {self._gpu_guide}"


class Display:
    """Shows the messages and the jobs of one command. Jobs can be nested: the innermost one is shown."""

    def __init__(
        self,
        *,
        quiet: bool = False,
        first: float | None = None,
        every: float = _EVERY,
        tick: float = _TICK,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Prepare the display; `showing` starts it.

        quiet: print only results, warnings and errors. every: seconds between lines. first: seconds until the first
        line, if others than these. tick: seconds between two calls of `beat` by the thread. clock: tells the time.
        """
        self.quiet, self.shows = quiet, not quiet and os.environ.get("RANK", "0") == "0"
        self.every, self.tick, self.clock = every, tick, clock
        self.jobs: list[TrackedJob] = []
        self._first = every if first is None else first
        self._next = clock() + self._first
        self._drawn = self._ended = False
        self._lock = threading.RLock()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="condvae progress", daemon=True)

    def start(self) -> None:
        """Start the thread that shows the jobs."""
        if self.shows:
            self._thread.start()

    def end(self) -> None:
        """Stop the thread and clear the bar; nothing is shown afterwards."""
        self._stop.set()
        with self._lock:
            self._clear()
            self._ended = True
        if self._thread.is_alive():
            self._thread.join(timeout=1)

    def begin(self, job: TrackedJob, *, announce: bool) -> None:
        """Show a job from now on. announce: print its total at once."""
        with self._lock:
            self.jobs.append(job)
            if announce and self.shows and not self._ended and not _is_terminal():
                self._write(job.text() + "\n")

    def finish(self, job: TrackedJob) -> None:
        """Show the job no longer, but the one that it is part of."""
        with self._lock:
            self.jobs.remove(job)
            self._clear()
            if len(self.jobs) == 1 and not self.jobs[0].unit:
                self.jobs[0].what = "still working"  # this was what the command opens, which is open by now

    def print(self, line: str, stream: TextIO | None = None) -> None:
        """Print a line, on stdout unless another stream is given, without breaking the bar."""
        with self._lock:
            self._clear()
            print(line, file=stream, flush=True)

    def beat(self) -> None:
        """Draw the bar again, or print a line if one is due. The thread calls this twice a second."""
        with self._lock:
            if self._ended or not self.shows or not self.jobs:
                return
            job, now = self.jobs[-1], self.clock()
            job.measure()
            left = job.seconds_left
            opens = not job.unit and not job.told
            if _is_terminal() and not opens:
                if job.unit or now >= self._next:
                    self._draw(job)
            # The first estimate of a long job does not wait, so that the user knows it soon.
            elif now >= self._next or (left is not None and left >= self.every and not job.told):
                self._next = now + self.every
                job.told = opens or left is not None
                self._write(job.text() + "\n")
            if hint := job.hint():
                self._clear()
                self._write(hint + "\n")

    def _run(self) -> None:
        pause = min(self._first, self.tick)
        while not self._stop.wait(pause):
            self.beat()
            pause = self.tick

    def _draw(self, job: TrackedJob) -> None:
        text = job.text()
        if job.total:
            full = round(_BAR_WIDTH * min(job.done / job.total, 1))
            text = f"[{'#' * full}{'-' * (_BAR_WIDTH - full)}] {text}"
        self._write(f"\r\x1b[K{text[: max(20, shutil.get_terminal_size().columns - 1)]}")
        self._drawn = True

    def _clear(self) -> None:
        if self._drawn:
            self._write("\r\x1b[K")
            self._drawn = False

    def _write(self, text: str) -> None:
        with suppress(OSError, ValueError):  # a job does not fail because nobody watches it
            if sys.stderr is not None:
                sys.stderr.write(text)
                sys.stderr.flush()


_current: Display | None = None


@contextmanager
def showing(display: Display) -> Iterator[Display]:
    """Use this display for all messages and jobs in the block, in every thread."""
    global _current
    before, _current = _current, display
    display.start()
    try:
        yield display
    finally:
        _current = before
        display.end()


def has_display() -> bool:
    """Return whether progress is shown or, with --quiet, suppressed here, so that libraries must not show their own."""
    return _current is not None


@contextmanager
def with_display() -> Iterator[None]:
    """Open a display, unless there is one. For functions that also report their progress when called from Python."""
    if _current is not None:
        yield
    else:
        with showing(Display()):
            yield


@contextmanager
def track(
    what: str,
    *,
    total: float | None = None,
    unit: str = "image",
    measured: Callable[[], float] | None = None,
    left: Callable[[], float | None] | None = None,
    gpu_guide: str | None = None,
    announce: bool = False,
    inner: bool = False,
) -> Iterator[TrackedJob]:
    """Count the units of a job, and show the count if there is a display; it ends with the block, also by an error.

    what: the job, as in "drawing". total: the number of units, if known. unit: their name, or "" for a job without
    units. measured: returns the count, for jobs that cannot call `update`. left: estimates the seconds left; by
    default, from the units of this job. gpu_guide: the page to read if the job turns out to take long on a CPU; None on
    a GPU. announce: print the total at once. inner: show this job only if it is not part of another one with several
    units.
    """
    display = _current
    clock = time.monotonic if display is None else display.clock
    job = TrackedJob(what, total=total, unit=unit, measured=measured, left=left, gpu_guide=gpu_guide, clock=clock)
    if display is None or (inner and any((outer.total or 0) > 1 for outer in display.jobs)):
        yield job
        return
    display.begin(job, announce=announce)
    try:
        yield job
    finally:
        display.finish(job)


def result(line: str) -> None:
    """Print a line of the result of a command on stdout, which --quiet does not suppress."""
    if _current is None:
        print(line, flush=True)
    else:
        _current.print(line)


def warn(line: str) -> None:
    """Print a warning. With --quiet it goes to stderr, so that stdout contains nothing but the result."""
    if _current is None or not _current.quiet:
        result(line)
    elif sys.stderr is not None:
        with suppress(OSError, ValueError):
            _current.print(line, sys.stderr)


class _Messages:
    """Prints messages on stdout, and none with --quiet, except for warnings."""

    def __call__(self, line: str) -> None:
        if _current is None or not _current.quiet:
            result(line)

    def warn(self, line: str) -> None:
        warn(line)


say: Say = _Messages()
"""Print a message on the progress of a command on stdout. `warn_with(say)` is the function for warnings."""


def _is_terminal() -> bool:
    try:
        return sys.stderr is not None and sys.stderr.isatty()
    except ValueError:  # it is closed
        return False
