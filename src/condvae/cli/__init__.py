"""The command line: one verb per job."""
# Heavy imports stay inside the verbs, so that --help is quick.

import itertools
import os
import signal
import sys
from typing import Annotated, Any

import tyro

import condvae
from condvae.cli.completing import Complete
from condvae.cli.drawing import Reconstruct, Sample
from condvae.cli.fetching import Fetch
from condvae.cli.files import Export, Import, Info
from condvae.cli.training import Pretrain, Train
from condvae.train.presets import options_for


def main(arguments: list[str] | None = None) -> None:
    """Run one verb; bad input is one sentence on stderr and exit code 2."""
    if arguments is None:  # we are the whole process: kill clears away what is unfinished, as Ctrl-C does
        signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    arguments = (sys.argv[1:] if arguments is None else arguments) or ["--help"]
    if arguments == ["--version"]:
        print(f"condvae {condvae.__version__}")
        return
    try:
        verb: Any = tyro.cli(_verbs(arguments), prog="condvae", description=condvae.__doc__, args=arguments)
        verb.run()
    except (ValueError, OSError) as error:
        _leave(error, 2)
    except KeyboardInterrupt:
        _leave("interrupted", 130)
    except (RuntimeError, MemoryError) as error:
        from condvae.train import Diverged

        if isinstance(error, Diverged):
            _leave(error, 1)
        scarce = isinstance(error, MemoryError) or "out of memory" in str(error) or "allocate memory" in str(error)
        if not scarce:
            raise
        less = "--batch or --micro-batch" if arguments[0] in ("pretrain", "train") else "-n"
        _leave(f"there is not enough memory: give a smaller {less}, or smaller or fewer images", 2)
    except Exception as error:
        from condvae.train import Stopped

        if not isinstance(error, Stopped):
            raise
        _leave(error, 130)


def _verbs(arguments: list[str]) -> Any:
    """The verbs; a preset on the command line becomes the defaults of its verb, in `--help` too."""
    name = _preset_in(arguments)
    training: dict[str, Any] = {}
    for word, kind in (("pretrain", Pretrain), ("train", Train)):
        chosen = name if arguments[:1] == [word] else None
        training[word] = options_for(kind, chosen, data=tyro.MISSING, out=tyro.MISSING)
    return (
        Annotated[Pretrain, tyro.conf.subcommand("pretrain", default=training["pretrain"], prefix_name=False)]
        | Annotated[Train, tyro.conf.subcommand("train", default=training["train"], prefix_name=False)]
        | Annotated[Complete, tyro.conf.subcommand("complete", prefix_name=False)]
        | Annotated[Sample, tyro.conf.subcommand("sample", prefix_name=False)]
        | Annotated[Reconstruct, tyro.conf.subcommand("reconstruct", prefix_name=False)]
        | Annotated[Fetch, tyro.conf.subcommand("fetch", prefix_name=False)]
        | Annotated[Import, tyro.conf.subcommand("import", prefix_name=False)]
        | Annotated[Export, tyro.conf.subcommand("export", prefix_name=False)]
        | Annotated[Info, tyro.conf.subcommand("info", prefix_name=False)]
    )


def _preset_in(arguments: list[str]) -> str | None:
    for word, after in itertools.pairwise([*arguments, ""]):
        if word == "--preset" and after:
            return after
        if word.startswith("--preset="):
            return word.removeprefix("--preset=")
    return None


def _leave(error: Exception | str, code: int) -> None:
    rank = os.environ.get("RANK", "0")
    sentence = " ".join(str(error).splitlines())  # names of files may have several lines
    print(f"condvae{'' if rank == '0' else f' (rank {rank})'}: {sentence}", file=sys.stderr)
    sys.exit(code)
