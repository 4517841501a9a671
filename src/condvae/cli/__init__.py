"""The command line: one file per verb, named after it."""
# Heavy imports stay inside the verbs, so that --help is quick.

import functools
import itertools
import operator
import os
import signal
import sys
from typing import Annotated, Any

import tyro

import condvae
from condvae.cli.compare import Compare
from condvae.cli.complete import Complete
from condvae.cli.design import Design
from condvae.cli.evaluate import Evaluate
from condvae.cli.export import Export
from condvae.cli.fetch import Fetch
from condvae.cli.import_ import Import
from condvae.cli.info import Info
from condvae.cli.ood import OOD
from condvae.cli.pretrain import Pretrain
from condvae.cli.reconstruct import Reconstruct
from condvae.cli.renamed import check_spelling
from condvae.cli.sample import Sample
from condvae.cli.train import Train
from condvae.training.options import TrainingOptions
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

_LISTS = ("--against", "--baselines", "--completions", "--metrics", "--policies", "--scores", "--sets", "--tasks")
"""Options with several values."""


def main(arguments: list[str] | None = None) -> None:
    """Run one verb; bad input is one sentence on stderr and exit code 2."""
    signals = _heeded() if arguments is None else []  # we are the whole process
    arguments = (sys.argv[1:] if arguments is None else arguments) or ["--help"]
    if arguments == ["--version"]:
        print(f"condvae {condvae.__version__}")
        return
    try:
        check_spelling(arguments)
        _check_once(arguments)
        verb: Any = tyro.cli(_verbs(arguments), prog="condvae", description=condvae.__doc__, args=arguments)
        verb.run()
    except SystemExit:
        raise
    except BrokenPipeError:  # whoever read what we print has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except BaseException as error:
        if signals or isinstance(error, KeyboardInterrupt):
            _leave("interrupted", 128 + (signals or [signal.SIGINT])[0])
        sentence, code = _explained(error, arguments)
        if sentence is None:
            raise
        _leave(sentence, code)


def _heeded() -> list[int]:
    """The signals that will have come to stop us: Ctrl-C and kill both clear away what is unfinished.

    A list, since libraries may turn the exception that a signal raises into one of theirs.
    """
    came: list[int] = []

    def stop(number: int, frame: object) -> None:
        came.append(number)
        raise KeyboardInterrupt

    for number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, stop)
    return came


def _explained(error: BaseException, arguments: list[str]) -> tuple[str | None, int]:
    """A sentence for the user and an exit code; no sentence for what should not have happened."""
    if isinstance(error, ValueError | OSError):
        return str(error), 2
    if isinstance(error, MemoryError) or "out of memory" in str(error) or "allocate memory" in str(error):
        batch = "--batch or --micro-batch"
        asked = {"pretrain": batch, "train": batch, "design": "--batch or -n"}
        less = f"a smaller {asked.get(arguments[0], '-n')}, or "
        if arguments[0] == "ood":  # its other two choose by themselves what is computed together
            less = "a smaller --block, or " if arguments[1:2] == ["experiment"] else ""
        return f"there is not enough memory: give {less}smaller or fewer images", 2
    from condvae.training import Diverged, Stopped

    codes: dict[type[BaseException], int] = {Diverged: 1, Stopped: 130}
    return (str(error), codes[type(error)]) if type(error) in codes else (None, 1)


def _verbs(arguments: list[str]) -> Any:
    """The verbs; a preset on the command line becomes the defaults of its verb, in `--help` too."""
    name = _preset_in(arguments)
    choices: list[Any] = []
    for word, kind in VERBS.items():
        given: dict[str, Any] = {}
        if issubclass(kind, TrainingOptions):
            chosen = name if arguments[:1] == [word] else None
            given["default"] = options_for(kind, chosen, data=tyro.MISSING, out=tyro.MISSING)
        choices.append(Annotated[kind, tyro.conf.subcommand(word, prefix_name=False, **given)])
    return functools.reduce(operator.or_, choices)


def _check_once(arguments: list[str]) -> None:
    """Raise a ValueError for a list that was given twice: its first values would be lost without a word."""
    options = [word.partition("=")[0] for word in arguments]
    for option in (*_LISTS, "--model") if arguments[:2] == ["ood", "experiment"] else _LISTS:
        if options.count(option) > 1:
            raise ValueError(f"{option} was given twice: give it once, with all values one after the other")


def _preset_in(arguments: list[str]) -> str | None:
    for word, after in itertools.pairwise([*arguments, ""]):
        if word == "--preset" and after:
            return after
        if word.startswith("--preset="):
            return word.removeprefix("--preset=")
    return None


def _leave(error: str, code: int) -> None:
    rank = os.environ.get("RANK", "0")
    sentence = " ".join(error.splitlines())  # names of files may have several lines
    print(f"condvae{'' if rank == '0' else f' (rank {rank})'}: {sentence}", file=sys.stderr)
    sys.exit(code)
