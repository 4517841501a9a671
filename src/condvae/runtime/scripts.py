"""Run a recipe or a benchmark as a program. Bad input ends it with one sentence and exit code 2."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

Options = TypeVar("Options")


def run_script(main: Callable[[Options], object], options: type[Options], description: str | None = None) -> None:
    """Call `main` with the options of the command line.

    options: a dataclass. description: the text of --help, by default the docstring of `options`.
    """
    import tyro

    try:
        main(tyro.cli(options, description=description))
    except (ValueError, OSError) as error:
        print(f"{Path(sys.argv[0]).stem}: {error}", file=sys.stderr)
        sys.exit(2)
