"""What reports are made of: JSON that people can read too, tables in Markdown, figures that are whole or not there."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from condvae.runtime.atomic import replacing, write_text
from condvae.runtime.folders import check_folder, make_folder, read_json
from condvae.runtime.formats import json_text
from condvae.runtime.messages import Say

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INCHES, DPI = (3.4, 3.2), 150
"""Of a panel, with its share of the legend."""


class DrawingError(ValueError):
    """Figures could not be made, for reasons that are not in the numbers."""


def cell_text(cell: Mapping[str, float | None], *, signed: bool = False) -> str:
    """A number with its interval, for a table; signed: a difference."""
    form = "+.3f" if signed else ".3f"
    if cell["mean"] is None:
        return "-"
    between = "" if cell["low"] is None else f" [{cell['low']:{form}}, {cell['high']:{form}}]"
    return f"{cell['mean']:{form}}{between}"


def save_figures(figures: Mapping[str, "Callable[[], Figure | None]"], folder: Path) -> list[Path]:
    """Draw figures into files of these names; one that is None is of an earlier report, which this one would belie."""
    try:
        import matplotlib as _  # noqa: F401
    except ImportError as error:
        raise DrawingError("figures need matplotlib: pip install 'condvae[plots]', then --redraw the folder") from error
    written = []
    for name, draw in figures.items():
        figure = draw()
        if figure is None:
            (folder / name).unlink(missing_ok=True)
            continue
        try:
            with replacing(folder / name) as temporary, warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # letters that the font lacks show as boxes
                figure.savefig(temporary, dpi=DPI, format="png")
        except OSError as error:
            raise DrawingError(
                f"{folder / name} cannot be written ({error.strerror}): make room, then --redraw the folder"
            ) from error
        written.append(folder / name)
    return written


def claim_folder(folder: Path, *, report: Sequence[str], format: str, what: str) -> None:
    """Make a folder for an experiment, whose parts lie in runs/; a ValueError if it holds what is not of such a one."""
    check_folder(
        folder,
        folders=("runs",),
        report=report,
        what=what,
        ours=lambda path: read_json(path, format=format) is not None,
    )
    # A kill may have left a report without its results.json, but not without the parts.
    told, kept = (folder / "results.json").exists(), (folder / "runs").exists()
    if not told and not kept and any((folder / name).exists() for name in report):
        raise ValueError(f"{folder} holds results of something else: give another --out")
    make_folder(folder)


def write_report(
    result: dict[str, Any],
    out: Path,
    *,
    csv: str,
    markdown: str,
    draw: Callable[[dict[str, Any], Path], list[Path]],
    say: Say,
) -> None:
    """The report's files; results.json last of the tables, as it is what others are told by."""
    write_text(out / "results.csv", csv)
    write_text(out / "results.md", markdown)
    write_text(out / "results.json", json_text(result))
    try:
        written = draw(result, out)
    except DrawingError as error:
        written = []
        say(str(error))
    say(f"wrote {', '.join(str(out / name) for name in ('results.json', 'results.csv', 'results.md'))}")
    if written:
        say(f"wrote {', '.join(map(str, written))}")


def draw_again(
    result: Mapping[str, Any] | None,
    folder: Path,
    draw: Callable[[Mapping[str, Any], Path], list[Path]],
    *,
    what: str,
    command: str,
) -> list[Path]:
    """Draw the figures of a report anew; a ValueError says if there is none, or if its numbers have been altered."""
    if result is None:
        raise ValueError(f"{folder} holds no results.json of {what}: give the --out of {command}")
    try:
        return draw(result, folder)
    except DrawingError:
        raise
    except (AttributeError, IndexError, KeyError, OverflowError, TypeError, ValueError) as error:
        raise ValueError(
            f"{folder / 'results.json'} has been altered ({type(error).__name__}: {error}): call {command} with the "
            "options of before, which writes it again from what was measured"
        ) from error


def panels(rows: int, columns: int, *, inches: tuple[float, float] = INCHES) -> "tuple[Figure, list[Axes]]":
    """A figure of rows x columns of axes, row by row."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(inches[0] * columns, inches[1] * rows), layout="constrained")
    axes = [figure.add_subplot(rows, columns, i + 1) for i in range(rows * columns)]
    for axis in axes:
        axis.tick_params(labelsize=7)
    return figure, axes


def label(name: str) -> str:
    """A name as it is: dollars are no formulas, and an underscore in front hides nothing."""
    return f" {name}".replace("$", r"\$") if name.startswith("_") else name.replace("$", r"\$")


def legend(figure: "Figure", axes: "Sequence[Axes]") -> None:
    """One for all axes, below them."""
    lines: dict[str, Any] = {}
    for axis in axes:
        handles, labels = axis.get_legend_handles_labels()
        lines.update(zip(labels, handles, strict=True))
    figure.legend(
        list(lines.values()),
        list(lines),
        loc="outside lower center",
        ncols=min(len(lines), 5),
        fontsize=8,
        frameon=False,
    )
