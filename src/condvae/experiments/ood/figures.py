"""Draw the paper's figure: the AUROC against the hidden share, with one panel for every set."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from condvae.experiments.ood.plan import MEAN, WHOLE, DetectionMethod
from condvae.experiments.reporting import curve, label, line_style, panel_for_each, save_figures

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

NAMES = ("auroc.png",)
_LINES = ("-", "--", ":", "-.")
"""Line styles of the models, in order; they repeat if there are more models."""


def draw(result: Mapping[str, Any], folder: Path) -> list[Path]:
    """Draw all figures of an experiment's result, save them in a folder, and return their paths."""
    return save_figures({"auroc.png": partial(auroc_figure, result)}, folder)


def auroc_figure(result: Mapping[str, Any]) -> "Figure | None":
    """Draw one panel for each set and each mean over sets. Each score has a colour, and each model has a line style."""
    names = [*result["means"], *result["sets"]]
    if not names or not result["methods"]:
        return None
    return panel_for_each(names, partial(_panel, result), ylabel="AUROC")


def _panel(result: Mapping[str, Any], axis: "Axes", name: str) -> None:
    shares = [column for column in result["columns"] if column != MEAN]
    models = list(dict.fromkeys(found["model"] for found in result["methods"].values()))
    scores = list(dict.fromkeys(found["score"] for found in result["methods"].values()))
    where = np.arange(len(shares), dtype=float)
    for method, found in result["methods"].items():
        cells = dict(zip(result["columns"], found["auroc"][name], strict=True))
        mean, low, high = curve([cells[share] for share in shares])
        ours = DetectionMethod(found["model"], found["score"]).ours
        line = _LINES[models.index(found["model"]) % len(_LINES)]
        style = {**line_style(scores.index(found["score"])), "markersize": 3.5}
        holes = slice(0, len(shares) - 1)  # the last point is for whole images, whose latents come from q(z | x)
        width = 1.8 if ours else 1.0
        axis.plot(where[holes], mean[holes], linestyle=line, linewidth=width, label=label(method), **style)
        axis.plot(where[-1:], mean[-1:], linestyle="none", **style)
        if ours:  # bands of all methods would overlap; the tables show intervals of differences
            axis.fill_between(where[holes], low[holes], high[holes], color=style["color"], alpha=0.12, linewidth=0)
    axis.axhline(0.5, color="0.6", linewidth=0.6)
    axis.set_title(label(name), fontsize=10)
    axis.set_xticks(where, [_percent(share) for share in shares], fontsize=7)
    axis.set_xlabel("hidden share, %", fontsize=8)


def _percent(share: str) -> str:
    if share == WHOLE:
        return share
    low, high = map(float, share.split("-"))
    return f"{100 * low:.0f}-{100 * high:.0f}"
