"""Run `condvae ...` in a forked process, and end the process at a chosen moment.

The caller has imported everything already, so a call takes as long as its work. The caller must not have started
threads.
"""

import os
import select
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

PATIENCE = 300.0
"""Seconds after which a call is considered stuck."""
TEMPORARY = ".temporary"
"""The subfolder of a call's folder that is its folder for temporary files, such as those of downloads."""
_OUTPUT = ".output"
_FAILED = 70

_CHANGES = {"os.rename": 1, "os.remove": 0, "os.mkdir": 0, "os.rmdir": 0, "os.chmod": 0, "os.truncate": 0}
"""Audit events that change files, and the position of the changed path in the event's arguments."""


@dataclass(frozen=True, kw_only=True)
class Strike:
    """A signal to a call, and when it is sent."""

    kind: Literal["moment", "before", "after"]
    """At a moment, just before a change of files, or shortly after it."""
    at: float
    """Seconds for a moment; else the number of the change of files, counted from 0."""
    delay: float = 0.0
    """Seconds to wait after the change."""
    number: int = signal.SIGKILL


@dataclass(frozen=True, kw_only=True)
class Ended:
    """How a call ended."""

    code: int
    """The exit code; negative if a signal has ended the process."""
    changes: int
    """How many changes of files the call has begun."""
    seconds: float
    said: str
    struck: bool
    """Whether the signal was sent before the call ended."""


def run(
    words: Sequence[str], folder: Path, *, strike: Strike | None = None, prepare: Callable[[], None] | None = None
) -> Ended:
    """Run a command in a folder to its end, or until the strike ends it. prepare: called in the new process."""
    reader, writer = os.pipe()
    process = os.fork()
    if process == 0:
        os.close(reader)
        _be_the_call(words, folder, writer, strike, prepare)
    os.close(writer)
    try:
        os.read(reader, 1)  # the process is ready
        begin = time.monotonic()
        changes, sent = _watch(process, reader, strike, begin)
    finally:
        os.close(reader)
    code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    said = (folder / _OUTPUT).read_text(errors="replace") if (folder / _OUTPUT).exists() else ""
    struck = strike is not None and (sent or strike.kind == "before") and code != 0
    return Ended(code=code, changes=changes, seconds=time.monotonic() - begin, said=said, struck=struck)


def _watch(process: int, reader: int, strike: Strike | None, begin: float) -> tuple[int, bool]:
    """Count the changes of files until the call ends, and send the signal. Return the count, and whether it was sent.

    The call ends when it closes its end of the pipe.
    """
    changes, sent = 0, False
    until = begin + strike.at if strike and strike.kind == "moment" else float("inf")
    while True:
        now = time.monotonic()
        if not sent and strike and (now >= until or (strike.kind == "after" and changes > strike.at)):
            time.sleep(strike.delay)
            os.kill(process, strike.number)
            sent = True
        if now - begin > PATIENCE:
            os.kill(process, signal.SIGKILL)
        left = PATIENCE if sent else min(until, begin + PATIENCE) - now
        if select.select([reader], [], [], max(left, 0.0))[0]:
            read = os.read(reader, 65536)
            if not read:
                return changes, sent
            changes += len(read)


def _be_the_call(
    words: Sequence[str], folder: Path, writer: int, strike: Strike | None, prepare: Callable[[], None] | None
) -> None:
    """Become the process of the call. This function does not return."""
    code = _FAILED
    try:
        output = os.open(folder / _OUTPUT, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.chdir(folder)
        (folder / TEMPORARY).mkdir(exist_ok=True)
        os.environ |= {"TMPDIR": str(folder / TEMPORARY), "XDG_CACHE_HOME": str(folder / TEMPORARY)}
        tempfile.tempdir = None
        signal.signal(signal.SIGINT, signal.default_int_handler)
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        if prepare:
            prepare()
        sys.argv = ["condvae", *words]
        from condvae.cli import main

        _count_changes(folder, writer, strike if strike and strike.kind == "before" else None)
        os.write(writer, b"!")
        try:
            main()
            code = 0
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else int(end.code is not None)
        except KeyboardInterrupt:  # it came before `main` handles signals
            code = 128 + signal.SIGINT
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _count_changes(folder: Path, writer: int, strike: Strike | None) -> None:
    """Write one byte for every change of files in the folder that begins, and send the signal before a chosen one."""
    count = 0
    inside, temporary = f"{folder}/", f"{folder / TEMPORARY}/"

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal count
        if event == "open":
            path, _, flags = arguments
            if not isinstance(flags, int) or not flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
                return
        elif event in _CHANGES:
            path = arguments[_CHANGES[event]]
        else:
            return
        if not isinstance(path, str | bytes | os.PathLike):
            return
        where = os.path.abspath(os.fsdecode(path))
        if not where.startswith(inside) or where.startswith(temporary):
            return
        count += 1
        if strike and count == int(strike.at) + 1:
            os.kill(os.getpid(), strike.number)
        os.write(writer, b".")

    sys.addaudithook(hook)
