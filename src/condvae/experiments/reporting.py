"""The report of an experiment: its folder, tables in JSON, CSV and Markdown, and figures."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from condvae.runtime.atomic import replacing, write_text
from condvae.runtime.folders import check_folder, clear_away, make_folder, read_json
from condvae.runtime.formats import json_text, markdown_table
from condvae.runtime.messages import Say

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Result = Mapping[str, Any]
"""What results.json holds."""

TABLES = ("results.json", "results.csv", "results.md")
INCHES, DPI = (3.4, 3.2), 150
"""Of a panel, with its share of the legend."""
_MOST_COLUMNS = 4


class DrawingError(ValueError):
    """Figures could not be made, for reasons that are not in the numbers."""


class Tables(Protocol):
    """The module that makes an experiment's tables."""

    def as_csv(self, result: Result) -> str: ...

    def as_markdown(self, result: Result) -> str: ...


class Figures(Protocol):
    """The module that draws an experiment's figures."""

    def draw(self, result: Result, folder: Path) -> list[Path]: ...


@dataclass(frozen=True, kw_only=True)
class Report:
    """What an experiment writes to its folder, beside the results of its units of work."""

    format: str
    """What results.json calls itself."""
    what: str
    """The experiment, as in "this is not from ..."."""
    command: str
    pictures: Sequence[str]
    """Names of all files that are neither tables nor results of units."""
    tables: Tables
    figures: Figures
    parts: str = "runs"
    """The folder that holds a folder of results for each job."""

    def claim(self, folder: Path) -> None:
        """Make the folder, or raise a ValueError if it holds what is not from such an experiment."""
        names = (*TABLES, *self.pictures)
        check_folder(
            folder, folders=(self.parts,), report=names, what=self.what, ours=lambda path: self._read(path) is not None
        )
        # A kill may have left a report without its results.json, but not without the parts.
        begun = any((folder / name).exists() for name in ("results.json", self.parts))
        if not begun and any((folder / name).exists() for name in names):
            raise ValueError(f"{folder} holds results of something else: give another --out")
        make_folder(folder)

    def write(self, result: dict[str, Any], out: Path, say: Say) -> None:
        """Write tables and figures, and remove what killed processes have left."""
        for folder in (out, *out.glob(f"{self.parts}/*")):
            clear_away(folder)
        write_text(out / "results.csv", self.tables.as_csv(result))
        write_text(out / "results.md", self.tables.as_markdown(result))
        write_text(out / "results.json", json_text(result))  # the last of the tables: others take it for the report
        try:
            written = self.figures.draw(result, out)
        except DrawingError as error:
            written = []
            say(str(error))
        say(f"wrote {', '.join(str(out / name) for name in TABLES)}")
        if written:
            say(f"wrote {', '.join(map(str, written))}")

    def redraw(self, folder: Path) -> list[Path]:
        """Draw the figures again from the numbers in a folder; a ValueError if there are none or they were altered."""
        path = folder / "results.json"
        if (result := self._read(path)) is None:
            raise ValueError(f"{folder} holds no results.json of {self.what}: give the --out of {self.command}")
        try:
            return self.figures.draw(result, folder)
        except DrawingError:
            raise
        except (AttributeError, IndexError, KeyError, OverflowError, TypeError, ValueError) as error:
            raise ValueError(
                f"{path} has been altered ({type(error).__name__}: {error}): call {self.command} with the options of "
                "before, which writes it again from what was measured"
            ) from error

    def _read(self, path: Path) -> dict[str, Any] | None:
        return read_json(path, format=self.format)


def section(title: str, head: Sequence[str], body: Sequence[Sequence[str]]) -> list[str]:
    """The lines of a table under its title, in Markdown."""
    return [f"## {title}", "", *markdown_table(head, body), ""]


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


def panels(rows: int, columns: int, *, inches: tuple[float, float] = INCHES) -> "tuple[Figure, list[Axes]]":
    """A figure of rows x columns of axes, row by row."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(inches[0] * columns, inches[1] * rows), layout="constrained")
    axes = [figure.add_subplot(rows, columns, i + 1) for i in range(rows * columns)]
    for axis in axes:
        axis.tick_params(labelsize=7)
    return figure, axes


def panel_for_each(names: Sequence[str], draw: "Callable[[Axes, str], None]", *, ylabel: str = "") -> "Figure":
    """A figure with a panel for each name, at most four in a row, and one legend."""
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
    """Means, lower and upper ends of intervals; NaN where there is no number."""
    mean, low, high = (np.array([cell[key] for cell in cells], dtype=float) for key in ("mean", "low", "high"))
    return mean, low, high


def line_style(number: int) -> dict[str, Any]:
    """Colour and marker of line 0, 1, ...: lines differ without colour too."""
    return {"color": f"C{number % 10}", "marker": "osD^vPX*<>"[number % 10]}


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
