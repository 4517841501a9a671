"""The figures of an evaluation's report: metrics against the hidden share, as in the paper, and coverage curves."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from condvae.experiments.evaluation.plan import MIXTURE
from condvae.experiments.reporting import label, line_style, panel_for_each, save_figures
from condvae.metrics import HOLE_BINS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


class Panel(NamedTuple):
    """A panel of metrics.png: its title, and a factor by which its values are multiplied."""

    title: str
    scale: float = 1.0


NAMES = ("metrics.png", "coverage.png")
PANELS = {
    "fid": Panel("FID ↓"),
    "p_ids": Panel("P-IDS, % ↑", 100.0),
    "lpips_gt": Panel("LPIPS-GT ↓"),
    "lpips_diversity": Panel("LPIPS diversity"),
}
COVERAGES = {"white": "white projections", "smooth": "smooth projections", "reference": "LPIPS to reference images"}


def draw(result: Mapping[str, Any], folder: Path) -> list[Path]:
    """Draw metrics.png and coverage.png if there are numbers for them; return the written paths."""
    drawn = {"metrics.png": partial(metrics_figure, result), "coverage.png": partial(coverage_figure, result)}
    return save_figures(drawn, folder)


def metrics_figure(result: Mapping[str, Any]) -> "Figure | None":
    """Return a figure with a panel for each metric and a line for each method; error bars are standard errors."""
    methods = result["methods"]
    shown = [name for name in PANELS if any(name in found["metrics"] for found in methods.values())]
    return panel_for_each(shown, partial(_metric, methods)) if shown else None


def _metric(methods: Mapping[str, Any], axis: "Axes", metric: str) -> None:
    panel = PANELS[metric]
    for number, (name, found) in enumerate(methods.items()):
        if metric not in found["metrics"]:
            continue
        cells = [found["metrics"][metric][str(hole)] for hole in HOLE_BINS]
        places = [i for i, cell in enumerate(cells) if cell["mean"] is not None]
        axis.errorbar(
            places,
            [panel.scale * cells[i]["mean"] for i in places],
            yerr=[panel.scale * (cells[i]["standard_error"] or 0.0) for i in places],
            label=label(name),
            linestyle=_line(found),
            linewidth=1.2,
            markersize=4,
            capsize=2,
            **line_style(number),
        )
    bins = [f"{100 * hole.low:.0f}-{100 * hole.high:.0f}" for hole in HOLE_BINS]
    axis.set_xticks(range(len(HOLE_BINS)), bins, fontsize=7)
    axis.set_xlabel("hidden pixels, %", fontsize=8)
    axis.set_title(panel.title, fontsize=10)
    axis.set_ylim(bottom=0)


def coverage_figure(result: Mapping[str, Any]) -> "Figure | None":
    """Plot coverage against its nominal level, in the mixture of bins. A calibrated method lies on the diagonal."""
    methods = result["methods"]
    having = any(found.get("coverage") for found in methods.values())
    return panel_for_each(list(COVERAGES), partial(_coverage, methods), ylabel="coverage") if having else None


def _coverage(methods: Mapping[str, Any], axis: "Axes", kind: str) -> None:
    axis.plot([0, 1], [0, 1], color="0.6", linewidth=0.8, linestyle="--")
    for number, (name, found) in enumerate(methods.items()):
        if found.get("coverage"):
            curve, colour = found["coverage"][kind][MIXTURE], line_style(number)["color"]
            style = {"color": colour, "linestyle": _line(found), "linewidth": 1.2}
            axis.plot(curve["levels"], curve["coverage"], label=label(name), **style)
    axis.set_xlabel("nominal level", fontsize=8)
    axis.set_title(f"coverage, {COVERAGES[kind]}", fontsize=10)
    axis.set_xlim(0, 1)
    axis.set_ylim(0, 1)


def _line(found: Mapping[str, Any]) -> str:
    """Return the line style: solid for models, dashed for other methods."""
    return "-" if "model" in found else "--"
