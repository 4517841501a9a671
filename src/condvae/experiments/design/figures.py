"""The figures of a report: AUROC and NLL by number of scans, the cross-task matrix, and maps of scanned locations."""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from condvae.experiments.design.plan import FULL, OURS
from condvae.experiments.reporting import curve, label, line_style, panel_for_each, panels, save_figures

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

NAMES = ("auroc.png", "nll.png", "cross_tasks.png", "where.png")
_SQUARE = (2.1, 2.2)
"""Width and height of a map of scanned locations, in inches."""


def draw(result: Mapping[str, Any], folder: Path) -> list[Path]:
    """Draw every figure for which the report has numbers; return their paths."""
    drawn: dict[str, Callable[[], Figure | None]] = {
        "auroc.png": partial(curves_figure, result, "auroc"),
        "nll.png": partial(curves_figure, result, "nll"),
        "cross_tasks.png": partial(cross_tasks_figure, result),
        "where.png": partial(where_figure, result),
    }
    return save_figures(drawn, folder)


def curves_figure(result: Mapping[str, Any], metric: str) -> "Figure | None":
    """Draw one panel per task, and one per set of tasks with the mean over the set. Each has one line per policy."""
    tasks = [name for name, task in result["tasks"].items() if metric == "nll" or not task["trouble"]]
    names = [*result["sets"], *tasks]
    if not names:
        return None
    ylabel = {"auroc": "AUROC (higher is better)", "nll": "NLL in nats (lower is better)"}[metric]
    return panel_for_each(names, partial(_curves, result, metric), ylabel=ylabel)


def _curves(result: Mapping[str, Any], metric: str, axis: "Axes", name: str) -> None:
    steps = result["settings"]["steps"]
    scans = np.arange(1, steps + 1)  # without a scan, all policies are equal
    for number, (policy, found) in enumerate(result["policies"].items()):
        mean, low, high = curve(found[metric][name][1 : steps + 1])
        if policy == FULL:
            axis.plot(scans, mean, color="0.3", linestyle=":", linewidth=1.2, label="full image")
            continue
        style = line_style(number)
        axis.plot(
            scans,
            mean,
            linestyle="-" if policy.startswith(("eig-", "epe-")) else "--",
            markersize=4,
            linewidth=2.0 if policy == OURS else 1.1,
            label=label(policy),
            **style,
        )
        if policy == OURS:  # bands of all policies would overlap; the tables have intervals of the differences
            axis.fill_between(scans, low, high, color=style["color"], alpha=0.15, linewidth=0)
    members = result["sets"].get(name)
    axis.set_title(f"mean of {len(members)} tasks" if members else name, fontsize=10)
    axis.set_xticks(scans)
    axis.set_xlabel("number of scans", fontsize=8)


def cross_tasks_figure(result: Mapping[str, Any]) -> "Figure | None":
    """Draw the cross-task matrix of eig-ipa or, if eig-ipa was not run, of the first policy that has a matrix.

    The darker a cell is, the closer its AUROC is to the best AUROC of its row.
    """
    matrices = result["cross_tasks"]
    if not matrices:
        return None
    policy = OURS if OURS in matrices else next(iter(matrices))
    found = matrices[policy]
    names = found["tasks"]
    side = 1.2 + 0.55 * len(names)
    figure, axes = panels(1, 2, inches=(side + 0.6, side))
    titles = {
        "last": f"after {result['settings']['steps']} scans",
        "mean": f"mean over 1 to {result['settings']['steps']} scans",
    }
    for axis, (which, title) in zip(axes, titles.items(), strict=True):
        values = np.array([[cell["mean"] for cell in line] for line in found[which]], dtype=float)
        best = np.where(np.isnan(values), -np.inf, values).max(axis=1, keepdims=True)
        behind = np.where(np.isnan(values), 0.0, best - values)
        most = max(float(behind.max()), 1e-6)
        axis.imshow(-behind, cmap="Blues", vmin=-1.3 * most, vmax=0.0)
        for (i, j), value in np.ndenumerate(values):
            colour = "black" if behind[i, j] > 0.5 * most else "white"
            text = "-" if np.isnan(value) else f"{value:.3f}"
            axis.text(j, i, text, ha="center", va="center", fontsize=7, color=colour)
        axis.set_xticks(range(len(names)), [label(name) for name in names], rotation=40, ha="right", fontsize=7)
        axis.set_yticks(range(len(names)), [label(name) for name in names], fontsize=7)
        axis.set_xlabel("task for which scans were chosen", fontsize=8)
        axis.set_title(f"{label(policy)}, {title}", fontsize=9)
    axes[0].set_ylabel("task that is predicted (AUROC)", fontsize=8)
    return figure


def where_figure(result: Mapping[str, Any]) -> "Figure | None":
    """Draw one map per policy and task, with the share of scans at each location. All maps have the same scale."""
    rows = {policy: found["where"] for policy, found in result["policies"].items() if found["where"]}
    if not rows:
        return None
    tasks, points = list(result["tasks"]), result["settings"]["points"]
    figure, axes = panels(len(rows), len(tasks), inches=_SQUARE)
    most = max(max(counts) / max(sum(counts), 1) for found in rows.values() for counts in found.values())
    for i, (policy, found) in enumerate(rows.items()):
        for j, task in enumerate(tasks):
            axis = axes[i * len(tasks) + j]
            counts = found.get(task, found.get("all tasks"))
            share = np.array(counts, dtype=float).reshape(points, points) / max(sum(counts), 1)
            # The square root makes rarely scanned locations visible.
            axis.imshow(np.sqrt(share), cmap="magma", vmin=0, vmax=most**0.5, interpolation="nearest")
            axis.set_xticks([])
            axis.set_yticks([])
            if i == 0:
                axis.set_title(label(task), fontsize=8)
            if j == 0:
                axis.set_ylabel(label(policy), fontsize=8)
    return figure
