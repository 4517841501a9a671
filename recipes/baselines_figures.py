"""The figures of the comparison with learned baselines: metrics by the hidden share, and FWV by sigma."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from condvae.experiments.evaluation.figures import metrics_figure
from condvae.experiments.evaluation.plan import MIXTURE
from condvae.experiments.reporting import label, line_style, panel_for_each, save_figures
from condvae.metrics import FWV_SIGMAS
from recipes.baselines_statements import BINS, SIGMAS, mean

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PANELS = (MIXTURE, BINS[0], BINS[2], BINS[4])
"""The panels of the figure of FWV."""


def draw_methods(methods: Mapping[str, Any], folder: Path) -> list[Path]:
    """Draw metrics.png and fwv.png. methods: in the order that decides their colours."""
    return save_figures(
        {
            "metrics.png": partial(metrics_figure, {"methods": methods}),
            "fwv.png": partial(panel_for_each, PANELS, partial(fwv_panel, methods), ylabel="FWV"),
        },
        folder,
    )


def fwv_panel(methods: Mapping[str, Any], axis: "Axes", column: str) -> None:
    """Plot FWV against sigma on logarithmic axes, without methods that do not vary, whose FWV is 0."""
    for number, (name, found) in enumerate(methods.items()):
        if not found["varies"]:
            continue
        axis.plot(
            FWV_SIGMAS,
            [mean(methods, name, sigma, column) for sigma in SIGMAS],
            label=label(name),
            linestyle="-" if "model" in found else "--",
            linewidth=1.2,
            markersize=4,
            **line_style(number),
        )
    axis.set_xscale("log")
    axis.set_yscale("log")
    axis.set_xticks(FWV_SIGMAS, [f"{sigma:g}" for sigma in FWV_SIGMAS], fontsize=7)
    axis.xaxis.minorticks_off()
    axis.tick_params(which="both", labelsize=7)
    axis.set_xlabel("sigma", fontsize=8)
    low, _, high = column.partition("-")
    title = "mixture of bins" if column == MIXTURE else f"{100 * float(low):.0f}-{100 * float(high):.0f} % hidden"
    axis.set_title(f"FWV ↑, {title}", fontsize=10)
