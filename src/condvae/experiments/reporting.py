"""The report of an experiment: its folder, tables in JSON, CSV and Markdown, and figures."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from condvae.runtime.atomic import clear_away, replacing, write_text
from condvae.runtime.folders import check_folder, make_folder, read_json
from condvae.runtime.formats import json_text, markdown_table
from condvae.runtime.messages import Say, warn_with

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Result = Mapping[str, Any]
"""The content of results.json."""

TABLES = ("results.json", "results.csv", "results.md")
INCHES, DPI = (3.4, 3.2), 150
"""Width and height of one panel in inches, including its part of the legend, and the resolution in dots per inch."""
_MOST_COLUMNS = 4


class DrawingError(ValueError):
    """Figures could not be drawn although the numbers are valid, for example because the disk is full."""


class Tables(Protocol):
    """The interface of a module that formats the tables of an experiment."""

    def as_csv(self, result: Result) -> str: ...

    def as_markdown(self, result: Result) -> str: ...


class Figures(Protocol):
    """The interface of a module that draws the figures of an experiment."""

    def draw(self, result: Result, folder: Path) -> list[Path]: ...


@dataclass(frozen=True, kw_only=True)
class Report:
    """Writes the report of an experiment to its output folder, which also contains the results of units of work."""

    format: str
    """The value of "format" in results.json, by which a report of this experiment is recognised."""
    what: str
    """The name of the experiment with its article, such as "an evaluation", for messages."""
    command: str
    pictures: Sequence[str]
    """File names of the figures and sheets. They may contain *, as in sheet-*.png."""
    tables: Tables
    figures: Figures
    parts: str = "runs"
    """The name of the subfolder in which each job has a folder for its results."""

    def claim(self, folder: Path) -> None:
        """Create the folder, or raise a ValueError if it contains files that are not from this kind of experiment."""
        names = (*TABLES, *self.pictures)
        check_folder(
            folder, folders=(self.parts,), report=names, what=self.what, ours=lambda path: self._read(path) is not None
        )
        # A killed process can leave a report without results.json, but not without results of units.
        begun = any((folder / name).exists() for name in ("results.json", self.parts))
        if not begun and any(any(folder.glob(name)) for name in names):
            raise ValueError(f"{folder} contains results that are not from {self.what}: choose another --out folder")
        make_folder(folder)

    def write(self, result: dict[str, Any], out: Path, say: Say) -> None:
        """Write tables and figures, and remove temporary files that killed processes have left."""
        for folder in (out, *out.glob(f"{self.parts}/*")):
            clear_away(folder)
        write_text(out / "results.csv", self.tables.as_csv(result))
        write_text(out / "results.md", self.tables.as_markdown(result))
        write_text(out / "results.json", json_text(result))  # last, since it marks a complete report
        try:
            written = self.figures.draw(result, out)
        except DrawingError as error:
            written = []
            warn_with(say)(str(error))
        say(f"wrote {', '.join(str(out / name) for name in TABLES)}")
        if written:
            say(f"wrote {', '.join(map(str, written))}")

    def redraw(self, folder: Path) -> list[Path]:
        """Draw the figures again from results.json; raise a ValueError if it is missing or was altered."""
        path = folder / "results.json"
        if (result := self._read(path)) is None:
            raise ValueError(f"{folder} holds no results.json of {self.what}: give the --out folder of {self.command}")
        try:
            return self.figures.draw(result, folder)
        except DrawingError:
            raise
        except (AttributeError, IndexError, KeyError, OverflowError, TypeError, ValueError) as error:
            raise ValueError(
                f"{path} has been altered ({type(error).__name__}: {error}): run `{self.command}` again with its "
                "original options, which writes the file again from the stored measurements"
            ) from error

    def _read(self, path: Path) -> dict[str, Any] | None:
        return read_json(path, format=self.format)


def section(title: str, head: Sequence[str], body: Sequence[Sequence[str]]) -> list[str]:
    """Return the Markdown lines of a table under a heading."""
    return [f"## {title}", "", *markdown_table(head, body), ""]


def cell_text(cell: Mapping[str, float | None], *, signed: bool = False) -> str:
    """Format a number with its confidence interval for a table. signed: show the sign of positive numbers too."""
    form = "+.3f" if signed else ".3f"
    if cell["mean"] is None:
        return "-"
    between = "" if cell["low"] is None else f" [{cell['low']:{form}}, {cell['high']:{form}}]"
    return f"{cell['mean']:{form}}{between}"


def save_figures(figures: Mapping[str, "Callable[[], Figure | None]"], folder: Path) -> list[Path]:
    """Draw each figure and save it under its name; return the written paths.

    If there is no figure (None), the file of an earlier report is deleted, since it does not match the new numbers.
    """
    try:
        import matplotlib as _  # noqa: F401
    except ImportError as error:
        raise DrawingError("figures need matplotlib: pip install 'condvae[plots]', then use --redraw") from error
    written = []
    for name, draw in figures.items():
        figure = draw()
        if figure is None:
            (folder / name).unlink(missing_ok=True)
            continue
        try:
            with replacing(folder / name) as temporary, warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # letters missing in the font appear as boxes
                figure.savefig(temporary, dpi=DPI, format="png")
        except OSError as error:
            raise DrawingError(
                f"{folder / name} cannot be written ({error.strerror}): free some space, then use --redraw"
            ) from error
        written.append(folder / name)
    return written


def panels(rows: int, columns: int, *, inches: tuple[float, float] = INCHES) -> "tuple[Figure, list[Axes]]":
    """Return a figure and its rows x columns axes, listed row by row."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(inches[0] * columns, inches[1] * rows), layout="constrained")
    axes = [figure.add_subplot(rows, columns, i + 1) for i in range(rows * columns)]
    for axis in axes:
        axis.tick_params(labelsize=7)
    return figure, axes


def panel_for_each(names: Sequence[str], draw: "Callable[[Axes, str], None]", *, ylabel: str = "") -> "Figure":
    """Return a figure with one panel for each name, at most four in a row, and one common legend."""
    columns = min(len(names), _MOST_COLUMNS)
    figure, axes = panels(-(-len(names) // columns), columns)
    for axis, name in zip(axes, names, strict=False):
        draw(axis, name)
        axis.grid(alpha=0.3, linewidth=0.5)
    for axis in axes[len(names) :]:
        axis.set_axis_off()
    axes[0].set_ylabel(ylabel, fontsize=8)
    legend(figure, axes[: len(names)])
    return figure


def curve(cells: Sequence[Mapping[str, float | None]]) -> tuple[NDArray[np.float64], ...]:
    """Return the means, the lower limits and the upper limits of numbers with intervals; None becomes NaN."""
    mean, low, high = (np.array([cell[key] for cell in cells], dtype=float) for key in ("mean", "low", "high"))
    return mean, low, high


def line_style(number: int) -> dict[str, Any]:
    """Return the colour and marker of a line, given its number. Markers differ, so that colour is not needed."""
    return {"color": f"C{number % 10}", "marker": "osD^vPX*<>"[number % 10]}


def label(name: str) -> str:
    """Escape a name for matplotlib, so that $ starts no formula and a leading _ does not hide the label."""
    return f" {name}".replace("$", r"\$") if name.startswith("_") else name.replace("$", r"\$")


def legend(figure: "Figure", axes: "Sequence[Axes]") -> None:
    """Add one legend for all axes, below them."""
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
