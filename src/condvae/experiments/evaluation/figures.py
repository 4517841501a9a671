"""The figures of a report: metrics against the hidden share, as in the paper, and curves of expected coverage."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from condvae.experiments.evaluation.parts import read_report
from condvae.experiments.evaluation.plan import MIXTURE
from condvae.experiments.reporting import draw_again, label, legend, panels, save_figures
from condvae.metrics import HOLE_BINS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


class Panel(NamedTuple):
    """A metric in the figure of metrics."""

    metric: str
    label: str
    scale: float = 1.0


PANELS = (
    Panel("fid", "FID ↓"),
    Panel("p_ids", "P-IDS, % ↑", 100.0),
    Panel("lpips_gt", "LPIPS-GT ↓"),
    Panel("lpips_diversity", "LPIPS diversity"),
)
COVERAGES = {"white": "white projections", "smooth": "smooth projections", "reference": "LPIPS to references"}


def redraw(folder: Path) -> list[Path]:
    """Draw the figures again from the numbers in a folder."""
    result = read_report(folder / "results.json")
    return draw_again(result, folder, draw, what="an evaluation", command="condvae evaluate")


def draw(result: Mapping[str, Any], folder: Path) -> list[Path]:
    """metrics.png and coverage.png, as far as there are numbers for them."""
    drawn = {"metrics.png": partial(metrics_figure, result), "coverage.png": partial(coverage_figure, result)}
    return save_figures(drawn, folder)


def metrics_figure(result: Mapping[str, Any]) -> "Figure | None":
    """A panel for each metric, a line for each method, standard errors as bars."""
    methods = result["methods"]
    shown = [panel for panel in PANELS if any(panel.metric in found["metrics"] for found in methods.values())]
    if not shown:
        return None
    figure, axes = _row_of(len(shown))
    for axis, panel in zip(axes, shown, strict=True):
        for number, (name, found) in enumerate(methods.items()):
            if panel.metric not in found["metrics"]:
                continue
            cells = [found["metrics"][panel.metric][str(hole)] for hole in HOLE_BINS]
            places = [i for i, cell in enumerate(cells) if cell["mean"] is not None]
            axis.errorbar(
                places,
                [panel.scale * cells[i]["mean"] for i in places],
                yerr=[panel.scale * (cells[i]["standard_error"] or 0.0) for i in places],
                label=label(name),
                **_style(number, methods),
            )
        axis.set_xticks(
            range(len(HOLE_BINS)), [f"{100 * hole.low:.0f}-{100 * hole.high:.0f}" for hole in HOLE_BINS], fontsize=7
        )
        axis.set_xlabel("hidden share of the pixels, %", fontsize=8)
        axis.set_title(panel.label, fontsize=10)
        axis.set_ylim(bottom=0)
    legend(figure, axes)
    return figure


def coverage_figure(result: Mapping[str, Any]) -> "Figure | None":
    """Expected coverage against the credibility level, in the mixture of bins; the diagonal is calibrated."""
    methods = result["methods"]
    having = {name: found["coverage"] for name, found in methods.items() if found.get("coverage")}
    if not having:
        return None
    figure, axes = _row_of(len(COVERAGES))
    for axis, (kind, title) in zip(axes, COVERAGES.items(), strict=True):
        axis.plot([0, 1], [0, 1], color="0.6", linewidth=0.8, linestyle="--")
        for number, name in enumerate(methods):
            if name in having:
                curve = having[name][kind][MIXTURE]
                style = {key: value for key, value in _style(number, methods).items() if key in ("color", "linestyle")}
                axis.plot(curve["levels"], curve["coverage"], label=label(name), linewidth=1.2, **style)
        axis.set_xlabel("credibility level", fontsize=8)
        axis.set_title(f"coverage, {title}", fontsize=10)
        axis.set_xlim(0, 1)
        axis.set_ylim(0, 1)
    legend(figure, axes)
    return figure


def _row_of(count: int) -> "tuple[Figure, list[Axes]]":
    figure, axes = panels(1, count)
    for axis in axes:
        axis.grid(alpha=0.3, linewidth=0.5)
    return figure, axes


def _style(number: int, methods: Mapping[str, Any]) -> dict[str, Any]:
    """Lines that differ without colour too; models solid, what they are measured against dashed."""
    own = "model" in list(methods.values())[number]
    return {
        "color": f"C{number % 10}",
        "linestyle": "-" if own else "--",
        "marker": "osD^vPX*<>"[number % 10],
        "markersize": 4,
        "linewidth": 1.2,
        "capsize": 2,
    }
