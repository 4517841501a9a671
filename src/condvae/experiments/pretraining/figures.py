"""Draw the figures: metrics against time, FID against the bound, and the bounds for other conditions."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from condvae.experiments.pretraining.plan import METRICS, condition_of, metrics_for
from condvae.experiments.reporting import label, legend, line_style, panels, save_figures

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

NAMES = ("curves.png", "fid_against_bound.png", "conditions.png")
_AXES = {"minutes": "GPU-minutes of conditional training", "total_minutes": "GPU-minutes with pretraining"}


def draw(result: Mapping[str, Any], folder: Path) -> list[Path]:
    """Draw all figures of a result, save them in a folder, and return their paths."""
    makers = (curves_figure, fid_figure, conditions_figure)
    return save_figures({name: partial(make, result) for name, make in zip(NAMES, makers, strict=True)}, folder)


def curves_figure(result: Mapping[str, Any]) -> "Figure":
    """Draw each metric against time: without the artifact's own training in the first row, with it in the second."""
    metrics = metrics_for(condition_of(result))
    figure, axes = panels(len(_AXES), len(metrics))
    cells = [(time, metric) for time in _AXES for metric in metrics]
    for axis, (time, metric) in zip(axes, cells, strict=True):
        for number, (name, arm) in enumerate(result["arms"].items()):
            minutes = [point[time] for point in arm["points"]]
            found = [point[metric] for point in arm["points"]]
            _bars(axis, minutes, found, name, number)
        axis.set_title(METRICS[metric].title, fontsize=9)
        _log_minutes(axis, _AXES[time])
    legend(figure, axes)
    return figure


def fid_figure(result: Mapping[str, Any]) -> "Figure":
    """Draw FID against the bound, one point per snapshot: at the same bound, a lower point has better images."""
    figure, (axis,) = panels(1, 1, inches=(4.2, 3.6))
    for number, (name, arm) in enumerate(result["arms"].items()):
        bound, fid = ([point[metric]["mean"] for point in arm["points"]] for metric in ("bits_per_dim", "fid"))
        axis.plot(bound, fid, label=label(name), markersize=4, linewidth=1.2, **line_style(number))
    axis.set_xlabel(METRICS["bits_per_dim"].title, fontsize=8)
    axis.set_ylabel("FID", fontsize=8)
    axis.grid(alpha=0.3, linewidth=0.5)
    legend(figure, [axis])
    return figure


def conditions_figure(result: Mapping[str, Any]) -> "Figure | None":
    """Draw the bound against time for each other condition."""
    if not result["conditions"]:
        return None
    figure, axes = panels(1, len(result["conditions"]))
    for axis, (condition, found) in zip(axes, result["conditions"].items(), strict=True):
        for number, (name, points) in enumerate(found["arms"].items()):
            nats = [point["nats"]["mean"] for point in points]
            axis.plot(
                [point["minutes"] for point in points], nats, label=label(name), markersize=4, **line_style(number)
            )
        axis.set_title(label(condition), fontsize=9)
        _log_minutes(axis, _AXES["minutes"])
    axes[0].set_ylabel("-ELBO, nats per image", fontsize=8)
    legend(figure, axes)
    return figure


def _bars(axis: "Axes", minutes: list[float], found: list[Mapping[str, Any]], name: str, number: int) -> None:
    mean, std = [one["mean"] for one in found], [one["std"] or 0.0 for one in found]
    axis.errorbar(
        minutes, mean, yerr=std, label=label(name), markersize=3.5, linewidth=1.2, capsize=2, **line_style(number)
    )


def _log_minutes(axis: "Axes", title: str) -> None:
    from matplotlib.ticker import LogLocator, NullFormatter

    axis.set_xscale("log")
    axis.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.xaxis.set_major_formatter("{x:g}")
    axis.xaxis.set_minor_formatter(NullFormatter())
    axis.set_xlabel(title, fontsize=8)
    axis.grid(alpha=0.3, linewidth=0.5, which="both")
