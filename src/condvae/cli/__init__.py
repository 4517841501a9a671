"""The command line interface. Each verb has its own file, with the verb's name."""
# Verbs import torch and other slow packages only when they run, so that --help is quick.

import functools
import gc
import itertools
import operator
import os
import signal
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import tyro

import condvae
from condvae.cli.compare import Compare
from condvae.cli.complete import Complete
from condvae.cli.design import Design
from condvae.cli.evaluate import Evaluate
from condvae.cli.export import Export
from condvae.cli.fetch import Fetch
from condvae.cli.help_text import first_paragraph
from condvae.cli.import_ import Import
from condvae.cli.info import Info
from condvae.cli.ood import OOD
from condvae.cli.option_values import OPTION_VALUES, fill_in_face, join_boxes
from condvae.cli.pretrain import Pretrain
from condvae.cli.reconstruct import Reconstruct
from condvae.cli.renamed import check_spelling
from condvae.cli.sample import Sample
from condvae.cli.shared import opening
from condvae.cli.terminal import keeping_codes, open_closed_streams, safe_output, widen_terminal
from condvae.cli.train import Train
from condvae.completers.learned_names import LEARNED_PRESETS
from condvae.runtime.messages import DegenerateSamples, short
from condvae.runtime.progress import Display, showing, track, warn
from condvae.training.options import TrainingOptions, TrainOptions
from condvae.training.presets import options_for

VERBS: dict[str, type] = {
    "complete": Complete,
    "sample": Sample,
    "reconstruct": Reconstruct,
    "pretrain": Pretrain,
    "train": Train,
    "evaluate": Evaluate,
    "compare": Compare,
    "design": Design,
    "ood": OOD,
    "fetch": Fetch,
    "import": Import,
    "export": Export,
    "info": Info,
}

_LISTS = (
    "--against",
    "--baselines",
    "--completions",
    "--metrics",
    "--observe",
    "--policies",
    "--scores",
    "--sets",
    "--tasks",
    "--temperature",
)
"""Options that take several values after one name, in some verbs at least. They may be given only once."""
_FIRST_LINE = 0.2
"""Seconds until a command says what it opens. Bad input that is found earlier gives one line, the error."""

_LONGEST_MESSAGE = 2_000
MEMORY_OPTIONS = {
    "complete": "-n",
    "sample": "-n",
    "pretrain": "--batch or --micro-batch",
    "train": "--batch or --micro-batch",
    "evaluate": "-n",
    "design scan": "-n",
    "design train": "--batch",
    "design experiment": "-n or --block",
    "ood experiment": "--block",
}
"""The options that decide how much a verb computes together, and so how much memory it needs."""
_WITHOUT_IMAGES = ("fetch", "import", "export", "info")


def main(arguments: list[str] | None = None) -> None:
    """Run one verb. Bad input ends with a one-line message on stderr and exit code 2."""
    open_closed_streams()
    widen_terminal()
    # Handle signals only if this call is the whole process, not if a program calls `main` with arguments.
    called = arguments is not None
    signals = [] if called else _catch_stop_signals()
    arguments = (sys.argv[1:] if arguments is None else arguments) or ["--help"]
    if arguments == ["--version"]:
        print(f"condvae {condvae.__version__}")
        return
    with safe_output() as streams:
        try:
            check_spelling(arguments)
            _check_once(arguments)
            _check_not_empty(arguments)
            words = fill_in_face(join_boxes(arguments))
            with OPTION_VALUES, keeping_codes(*streams):  # the colours of the help
                verb: Any = tyro.cli(_verbs(arguments), prog="condvae", description=condvae.__doc__, args=words)
            job = getattr(verb, "job", verb)  # design and ood have sub-verbs
            # Only a whole process soon says what it opens; a program that calls `main` gets lines for long jobs only.
            first = None if called or isinstance(verb, Info) else _FIRST_LINE
            with showing(Display(quiet=job.quiet, first=first)), track(opening(job), unit=""), _warnings_printed():
                verb.run()
            if not called:
                gc.freeze()  # or else Python would search all objects for garbage before it ends: .3 s with torch
        except SystemExit:
            raise
        except BaseException as error:
            if signals or isinstance(error, KeyboardInterrupt):
                _exit_with("interrupted", 128 + (signals or [signal.SIGINT])[0])
            message, code = _message_and_code(error, arguments)
            if message is None:
                raise
            _exit_with(message, code)


@contextmanager
def _warnings_printed() -> Iterator[None]:
    """Inside the `with` block, print warnings about degenerate samples in one line, without a line of code."""
    with warnings.catch_warnings():
        others = warnings.showwarning

        def show(message: Warning | str, category: type[Warning], *where: Any) -> None:
            if issubclass(category, DegenerateSamples):
                warn(f"warning: {message}")
            else:
                others(message, category, *where)

        warnings.showwarning = show  # type: ignore[assignment]
        warnings.simplefilter("default", DegenerateSamples)
        yield


def _catch_stop_signals() -> list[int]:
    """Make Ctrl-C, kill and a closed terminal raise KeyboardInterrupt, so that unfinished files are removed.

    Return a list to which the handler appends each signal that arrives. The list is needed because libraries may turn
    the KeyboardInterrupt into an exception of their own.
    """
    received: list[int] = []

    def stop(number: int, frame: object) -> None:
        if number in received and number != signal.SIGINT:
            return  # kernel and shell both send SIGHUP when a terminal is closed: files may be being removed already
        received.append(number)
        raise KeyboardInterrupt

    for number in {signal.SIGINT, signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGTERM)}:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, stop)
    return received


def _message_and_code(error: BaseException, arguments: list[str]) -> tuple[str | None, int]:
    """Return the error message for the user (None for an unexpected error, which is a bug), and the exit code."""
    if isinstance(error, ValueError | OSError):
        return str(error), 2
    if isinstance(error, MemoryError) or "out of memory" in str(error) or "allocate memory" in str(error):
        verb = " ".join(arguments[:2]) if arguments[0] in ("design", "ood") else arguments[0]
        if verb in _WITHOUT_IMAGES:
            return "there is not enough memory: close other programs, or use a machine with more memory", 2
        advice = f"a smaller {MEMORY_OPTIONS[verb]}, or " if verb in MEMORY_OPTIONS else ""
        return f"there is not enough memory: give {advice}smaller or fewer images", 2
    from condvae.training import Diverged, Stopped

    codes: dict[type[BaseException], int] = {Diverged: 1, Stopped: 130}
    return (str(error), codes[type(error)]) if type(error) in codes else (None, 1)


def _verbs(arguments: list[str]) -> Any:
    """Return the union of all verbs, which is the type that tyro parses.

    If --preset or the name of a --baseline is given, its options become the defaults of its verb, also in `--help`.
    """
    name, baseline = _value_of("--preset", arguments), _value_of("--baseline", arguments)
    choices: list[Any] = []
    for word, kind in VERBS.items():
        asked = arguments[:1] == [word]
        # The list of verbs has one sentence for each verb, and the help of a verb has all of its text.
        options: dict[str, Any] = {} if asked else {"description": first_paragraph(kind)}
        if issubclass(kind, TrainingOptions):
            chosen = name if asked else None
            given: dict[str, Any] = {"data": tyro.MISSING, "out": tyro.MISSING}
            if asked and issubclass(kind, TrainOptions) and baseline in LEARNED_PRESETS:
                given["baseline"] = baseline
            options["default"] = options_for(kind, chosen, **given)
        choices.append(Annotated[kind, tyro.conf.subcommand(word, prefix_name=False, **options)])
    return functools.reduce(operator.or_, choices)


def _check_once(arguments: list[str]) -> None:
    """Raise a ValueError if a list option was given twice, because tyro would silently drop its first values."""
    options = [word.partition("=")[0] for word in arguments]
    lists = {"ood experiment": "--model", "pretrain": "--data", "train": "--data"}  # elsewhere they take one value
    verb = " ".join(arguments[:2])
    for option in (*_LISTS, *(option for start, option in lists.items() if verb.startswith(start))):
        if options.count(option) > 1:
            raise ValueError(f"{option} was given twice: give it once, followed by all its values")


def _check_not_empty(arguments: list[str]) -> None:
    """Raise a ValueError if an argument is empty: as a path, it would mean the current folder."""
    for before, word in itertools.pairwise(["", *arguments]):
        option, equals, value = word.partition("=")
        if word == "" or (option.startswith("--") and equals and value == ""):
            given = option or (before if before.startswith("-") else "")
            what = f"the value of {given}" if given else "an argument"
            raise ValueError(f"{what} is empty: give a value or leave it out (perhaps a shell variable is not set)")


def _value_of(option: str, arguments: list[str]) -> str | None:
    """Return the value of an option, if it was given."""
    for word, after in itertools.pairwise([*arguments, ""]):
        if word == option and after:
            return after
        if word.startswith(f"{option}="):
            return word.removeprefix(f"{option}=")
    return None


def _exit_with(message: str, code: int) -> None:
    """Print a message on stderr in one line, and exit."""
    rank = os.environ.get("RANK", "0")
    line = short(" ".join(message.splitlines()), _LONGEST_MESSAGE)  # the names of files may contain line breaks
    print(f"condvae{'' if rank == '0' else f' (rank {rank})'}: {line}", file=sys.stderr)
    sys.exit(code)
