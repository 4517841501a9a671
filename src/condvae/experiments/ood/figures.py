"""The paper's figure: AUROC against how much is hidden, for every set."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from condvae.experiments.ood.plan import MEAN, WHOLE, DetectionMethod
from condvae.experiments.reporting import label, legend, panels, save_figures

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

NAMES = ("auroc.png",)
_LINES = ("-", "--", ":", "-.")
"""Of the models."""


def draw(result: Mapping[str, Any], folder: Path) -> list[Path]:
    """All figures of the numbers."""
    return save_figures({"auroc.png": partial(auroc_figure, result)}, folder)


def auroc_figure(result: Mapping[str, Any]) -> "Figure | None":
    """A panel for each set and each mean of sets, a colour for each score, a kind of line for each model."""
    names = [*result["means"], *result["sets"]]
    if not names or not result["methods"]:
        return None
    columns = min(len(names), 4)
    figure, axes = panels(-(-len(names) // columns), columns)
    for axis, name in zip(axes, names, strict=False):
        _panel(axis, result, name)
    for axis in axes[len(names) :]:
        axis.set_axis_off()
    axes[0].set_ylabel("AUROC", fontsize=8)
    legend(figure, axes[: len(names)])
    return figure


def _panel(axis: "Axes", result: Mapping[str, Any], name: str) -> None:
    shares = [column for column in result["columns"] if column != MEAN]
    models = list(dict.fromkeys(found["model"] for found in result["methods"].values()))
    scores = list(dict.fromkeys(found["score"] for found in result["methods"].values()))
    where = np.arange(len(shares), dtype=float)
    for method, found in result["methods"].items():
        cells = dict(zip(result["columns"], found["auroc"][name], strict=True))
        mean, low, high = (
            np.array([cells[one][key] for one in shares], dtype=float) for key in ("mean", "low", "high")
        )
        number, ours = scores.index(found["score"]), DetectionMethod(found["model"], found["score"]).ours
        colour = f"C{number % 10}"
        line = _LINES[models.index(found["model"]) % len(_LINES)]
        style: dict[str, Any] = {"color": colour, "marker": "osD^vPX*<>"[number % 10], "markersize": 3.5}
        holes = slice(0, len(shares) - 1)  # beside them stands the whole image, which is inferred by q
        width = 1.8 if ours else 1.0
        axis.plot(where[holes], mean[holes], linestyle=line, linewidth=width, label=label(method), **style)
        axis.plot(where[-1:], mean[-1:], linestyle="none", **style)
        if ours:  # those of all would hide each other; differences have their own intervals in the tables
            axis.fill_between(where[holes], low[holes], high[holes], color=colour, alpha=0.12, linewidth=0)
    axis.axhline(0.5, color="0.6", linewidth=0.6)
    axis.set_title(label(name), fontsize=10)
    axis.set_xticks(where, [_percent(share) for share in shares], fontsize=7)
    axis.set_xlabel("hidden, %", fontsize=8)
    axis.grid(alpha=0.3, linewidth=0.5)


def _percent(share: str) -> str:
    if share == WHOLE:
        return share
    low, high = map(float, share.split("-"))
    return f"{100 * low:.0f}-{100 * high:.0f}"
