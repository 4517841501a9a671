"""Output that no text can break: closed streams, old encodings, narrow terminals, and control codes in names."""

import os
import re
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO, cast

_LEAST_COLUMNS = 40
"""The help is never narrower than this. In five columns, wrapping it would take for ever."""
_PROGRESS = re.compile(r"\A(\r|\x1b\[2?K)*")
"""What a progress line may begin with: a return to the start of the line, and a code that clears the line."""
# Control codes, codes that change the direction of text, line separators, and halves of surrogate pairs.
_UNSAFE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_IN_ASCII = str.maketrans({"±": "+-"})


class SafeStream:
    """A text stream that replaces unsafe characters, and characters that the stream's encoding does not have."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream
        self.keeps_codes = False
        """Whether control codes are kept, such as the colours of the help."""

    def write(self, text: str) -> int:
        if not self.keeps_codes:
            start = _PROGRESS.match(text)
            assert start is not None  # the pattern can be empty
            text = start[0] + _UNSAFE.sub("?", text[start.end() :])
        try:
            return self.stream.write(text)
        except UnicodeEncodeError as error:
            plain = text.translate(_IN_ASCII).encode(error.encoding, "replace").decode(error.encoding)
            return self.stream.write(plain)
        except BrokenPipeError:
            self._drop()
            return len(text)

    def flush(self) -> None:
        try:
            self.stream.flush()
        except BrokenPipeError:
            self._drop()

    def _drop(self) -> None:
        """Discard further output: the program that reads it, such as head, has closed it. The command still goes on."""
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, self.stream.fileno())
        os.close(nowhere)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


@contextmanager
def safe_output() -> Iterator[tuple[SafeStream, SafeStream]]:
    """Inside the `with` block, replace stdout and stderr by safe streams, which are yielded."""
    before = sys.stdout, sys.stderr
    with open(os.devnull, "w") as nowhere:
        out, err = (SafeStream(stream or nowhere) for stream in before)
        sys.stdout, sys.stderr = cast(TextIO, out), cast(TextIO, err)
        try:
            yield out, err
        finally:
            sys.stdout, sys.stderr = before


@contextmanager
def keeping_codes(*streams: SafeStream) -> Iterator[None]:
    """Inside the `with` block, keep control codes, for output that contains no text from files."""
    for stream in streams:
        stream.keeps_codes = True
    try:
        yield
    finally:
        for stream in streams:
            stream.keeps_codes = False


def open_closed_streams() -> None:
    """Connect stdin, stdout and stderr to nothing if they are closed.

    Otherwise, the next file that is opened would get the number of stderr, and messages of libraries would go into it.
    """
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest free number, which is this one


def widen_terminal() -> None:
    """Make the help wide enough to be wrapped in very narrow terminals."""
    if shutil.get_terminal_size().columns < _LEAST_COLUMNS:
        os.environ["COLUMNS"] = str(_LEAST_COLUMNS)
