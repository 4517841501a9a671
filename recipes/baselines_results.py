r"""Fill the tables of docs/results/baselines.md from the raw numbers in docs/results/baselines. These commands make
them:

    condvae fetch metrics && condvae fetch cifar10
    python recipes/baselines.py --data cifar10 --out out/baselines --minutes 4
    python recipes/baselines_results.py --baselines out/baselines/baselines.json --figures

Without options, the tables are filled from the numbers that are already in the folder.
"""

import json
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from condvae.experiments.evaluation.figures import metrics_figure
from condvae.experiments.evaluation.plan import MIXTURE
from condvae.experiments.reporting import label, line_style, panel_for_each, save_figures
from condvae.metrics import FWV_SIGMAS
from condvae.runtime.scripts import run_script

sys.path.insert(0, str(Path(__file__).parents[1]))
from recipes import baselines
from recipes.baselines import TITLES
from recipes.baselines_speed import equal_time_table, speed_table
from recipes.baselines_statements import (
    BINS,
    METRICS,
    OWN,
    RULES,
    SIGMAS,
    lead,
    leaders,
    learned_in,
    mean,
    statements,
)
from recipes.evaluation_results import CIFAR10, by_bin, estimate, of_coverage, percent
from recipes.pages import Page, draw, markdown, short, small_webp
from recipes.statements import rule_table, statement_table

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PAGE = Path(__file__).parents[1] / "docs" / "results" / "baselines.md"
NUMBERS = "baselines"
"""The name of the file of raw numbers."""
NEAREST, RANDOM = "nearest training images", "random training image"
PANELS = (MIXTURE, BINS[0], BINS[2], BINS[4])
"""The panels of the figure of FWV."""
LEVEL = 0.8
"""The nominal level whose coverage is shown."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """Store new numbers, if some are given, and fill the tables of the page."""

    baselines: Path | None = None
    """baselines.json of recipes/baselines.py."""
    page: Path = PAGE
    """The page to fill; its numbers are in the folder of the same name."""
    figures: bool = False
    """Also draw the figures again, which needs matplotlib, and copy the sheets that lie next to --baselines."""


def main(options: Options) -> None:
    page = page_at(options.page)
    page.store({NUMBERS: options.baselines}, {NUMBERS: (baselines.FORMAT, "recipes/baselines.py")})
    if options.figures:
        draw(page.folder / f"{NUMBERS}.json", draw_figures, page.folder)
        for name in baselines.SHEETS:
            if options.baselines and (sheet := options.baselines.with_name(f"{name}.png")).is_file():
                (page.folder / f"{name}.webp").write_bytes(small_webp(sheet))


def page_at(path: Path = PAGE) -> Page:
    return Page(path=path, tables=all_tables)


def shown_methods(result: Mapping[str, Any]) -> dict[str, Any]:
    """Return the methods of a report by their names on the page: IPA and the learned baselines first."""
    methods = dict(result["methods"])
    trained = {title: methods.pop(baselines.method_of(name, methods)) for name, title in titles_in(result).items()}
    return {**trained, **methods}


def titles_in(result: Mapping[str, Any]) -> dict[str, str]:
    """Return the names on the page of the trained models in a report."""
    return {name: title for name, title in TITLES.items() if name in result["training"]}


def all_tables(raw: Mapping[str, Any]) -> dict[str, str]:
    if NUMBERS not in raw:
        raise ValueError("there are no numbers: give the JSON file of recipes/baselines.py with --baselines")
    result = raw[NUMBERS]
    if baselines.EMBEDDED not in result["training"]:
        raise ValueError(f"the page shows the model {baselines.EMBEDDED}: run recipes/baselines.py without --model")
    methods = shown_methods(result)
    titles = titles_in(result)
    trained = {name: methods[name] for name in titles.values()}
    speeds = {titles[name]: found for name, found in result.get("speed", {}).get("methods", {}).items()}
    tables = {
        "main": main_table(methods, result["training"], speeds),
        "training": training_table(result["training"]),
        "paper": paper_table(methods, result["training"]),
        "winners": winner_table(methods),
        "best-of": best_of_table(methods),
        "random": random_table(methods),
        "fwv": fwv_table(methods),
        "coverage": of_coverage(methods),
        "verdicts": verdict_list(methods),
        "statements": statement_table(statements(methods)),
        "rules": rule_table(RULES),
    }
    if "speed" in result:
        tables["speed"] = speed_table(result, titles)
        tables["equal-time"] = equal_time_table(result, titles)
    by_bins = ("fid", "cfid", "p_ids", "lpips_gt", "lpips_diversity", "crps_pixels", "crps_lpips", "fwv@0.2")
    for metric in metrics_in(methods, by_bins):
        shown, name = METRICS[metric], metric.partition("@")[0]
        best = max if shown.higher_is_better else min
        tables[f"bins-{name}"] = by_bin(methods, metric, shown.digits, best=best)
    # The best value is 1, and not the highest: no value is bold.
    tables["bins-sharpness"] = by_bin(trained, "sharpness", METRICS["sharpness"].digits, best=lambda _: math.nan)
    return tables


def metrics_in(methods: Mapping[str, Any], metrics: Sequence[str]) -> list[str]:
    """Return those of the metrics that were measured for all methods."""
    return [metric for metric in metrics if all(metric in found["metrics"] for found in methods.values())]


def main_table(methods: Mapping[str, Any], training: Mapping[str, Any], speeds: Mapping[str, Any]) -> str:
    """Return a table with a row for each method, in the mixture of bins. speeds: by title; empty if not measured."""
    rows = []
    for name, found in methods.items():
        metrics = {metric: columns[MIXTURE] for metric, columns in found["metrics"].items()}
        coverage = [found["coverage"][kind][MIXTURE] for kind in ("white", "smooth")]
        covered = [100 * one["coverage"][one["levels"].index(LEVEL)] for one in coverage]
        rows.append(
            [
                name,
                estimate(metrics["fid"], 1),
                percent(metrics["p_ids"]),
                estimate(metrics["lpips_gt"], 4),
                short(metrics["lpips_diversity"]["mean"], 4),
                ", ".join(short(one["error"], 3) for one in coverage),
                ", ".join(f"{share:.0f} %" for share in covered),
                *([f"{speeds[name]['milliseconds']:.3f}" if name in speeds else "not measured"] if speeds else []),
                *spent_on(name, training),
            ]
        )
    head = ["", "FID ↓", "P-IDS, % ↑", "LPIPS-GT ↓", "LPIPS diversity", "calibration error ↓, white, smooth"]
    covers = f"coverage of the {100 * LEVEL:.0f} % interval, white, smooth"
    timed = ["milliseconds per completion"] if speeds else []
    return markdown([*head, covers, *timed, "training, minutes", "weights, millions"], rows)


def spent_on(name: str, training: Mapping[str, Any]) -> list[str]:
    """Return the training minutes and the weights of a method; a simple baseline has none."""
    found = {title: training[model] for model, title in TITLES.items() if model in training}.get(name)
    return ["none", "none"] if found is None else [f"{found['minutes']:.2f}", f"{found['weights'] / 1e6:.2f}"]


def training_table(training: Mapping[str, Any]) -> str:
    """Return a table with a row for each training; IPA has two."""
    rows = []
    for model, name in ((model, name) for model, name in TITLES.items() if model in training):
        for part, found in training[model]["parts"].items():
            speed, trained = found.get("images_per_second"), found.get("trained_weights")
            rows.append(
                [
                    name if part == "network" else f"{name}: {part}",
                    f"{found['minutes']:.2f}",
                    f"{found['steps']:,}",
                    f"{found['images_seen'] / 1e6:.2f}",
                    "not logged" if speed is None else f"{speed:,.0f}",
                    "not logged" if speed is None else f"{found['images_seen'] / speed:.0f}",
                    str(found["batch"]),
                    f"{found['lr']:g}",
                    "not logged" if trained is None else f"{trained / 1e6:.2f}",
                    found["device"],
                ]
            )
    head = ["", "minutes", "steps", "images seen, millions", "images/s (median)", "seconds of steps"]
    return markdown([*head, "batch", "learning rate", "trained weights, millions", "device"], rows)


def paper_table(methods: Mapping[str, Any], training: Mapping[str, Any]) -> str:
    """Return a table of our numbers and the paper's, in the mixture of bins."""
    rows = []
    for row in (row for name in learned_in(methods) for row in CIFAR10 if row.method == name):
        metrics = {metric: columns[MIXTURE] for metric, columns in methods[row.method]["metrics"].items()}
        minutes, weights = spent_on(row.method, training)
        rows.append(
            [
                row.method,
                estimate(metrics["fid"], 1),
                f"*{row.fid:.2f}*",
                percent(metrics["p_ids"]),
                f"*{row.p_ids:.2f}*",
                estimate(metrics["lpips_gt"], 4),
                f"*{short(row.lpips_gt, 4)}*",
                f"{minutes} GPU-minutes",
                f"*{row.hours} GPU-hours*",
                weights,
                f"*{row.weights}*",
            ]
        )
    columns = ("FID", "P-IDS, %", "LPIPS-GT", "training", "weights, millions")
    head = [f"{name}, {whose}" for name in columns for whose in ("ours", "*paper*")]
    return markdown(["", *head], rows)


def winner_table(methods: Mapping[str, Any]) -> str:
    """Return a table of the best methods by metric and bin, among those with the same budget."""
    columns = (*BINS, MIXTURE)
    rows = []
    for metric in metrics_in(
        methods, ("fid", "cfid", "p_ids", "lpips_gt", "crps_pixels", "crps_lpips", *SIGMAS[1:6:2])
    ):
        rows.append([METRICS[metric].title, *(winners(methods, metric, column) for column in columns)])
    return markdown(["hidden share", *columns], rows)


def winners(methods: Mapping[str, Any], metric: str, column: str) -> str:
    names = learned_in(methods)
    if len({mean(methods, name, metric, column) for name in names}) == 1:
        return "all equal"
    first, *equal = leaders(methods, names, metric, column)
    return f"**{first}**" + (f" (not different: {', '.join(equal)})" if equal else "")


def best_of_table(methods: Mapping[str, Any]) -> str:
    """Return a table of LPIPS-GT by the number of completions, in the mixture of bins. The best of a column is bold."""
    best_of = [metric for metric in next(iter(methods.values()))["metrics"] if metric.startswith("lpips_gt@")]
    means = {name: [mean(methods, name, metric) for metric in best_of] for name in methods}
    lowest = [min(column) for column in zip(*means.values(), strict=True)]
    rows = []
    for name, values in means.items():
        cells = [short(value, 4) for value in values]
        rows.append([name, *(f"**{c}**" if v == low else c for c, v, low in zip(cells, values, lowest, strict=True))])
    return markdown(["K", *(metric.partition("@")[2] for metric in best_of)], rows)


def random_table(methods: Mapping[str, Any]) -> str:
    """Return a table that says where each learned method has a better LPIPS-GT than random training images."""
    cells = {**{column: ("lpips_gt", column) for column in (*BINS, MIXTURE)}, "mixture, K = 1": ("lpips_gt@1", MIXTURE)}
    said = {1: "better", 0: "not different", -1: "worse"}
    names = learned_in(methods)
    rows = [[name, *(said[lead(methods, name, RANDOM, *cell)] for cell in cells.values())] for name in names]
    return markdown(["hidden share", *cells], rows)


def fwv_table(methods: Mapping[str, Any]) -> str:
    """Return a table of FWV for all sigmas, in the mixture of bins."""
    rows = [[name, *(short(mean(methods, name, sigma), 3) for sigma in SIGMAS)] for name in methods]
    return markdown(["sigma", *(short(sigma, 2) for sigma in FWV_SIGMAS)], rows)


def verdict_list(methods: Mapping[str, Any]) -> str:
    """Return a list of the paper's statements by verdict, and of our own questions by answer."""
    said: dict[str, list[str]] = {}
    asked: dict[str, list[str]] = {}
    for one in statements(methods):
        group, text = (asked, sentence(one.text.removeprefix(OWN))) if one.text.startswith(OWN) else (said, one.text)
        group.setdefault(one.verdict, []).append(text)
    lines = [f"- **{verdict.capitalize()}**: {'; '.join(texts)}." for verdict, texts in said.items()]
    lines += [f"- **Our own questions, {verdict}**: {' '.join(texts)}" for verdict, texts in asked.items()]
    return "".join(f"{line}\n" for line in lines)


def sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


def draw_figures(folder: Path) -> list[Path]:
    """Draw metrics.png and fwv.png from results.json in the folder."""
    result = json.loads((folder / "results.json").read_text())
    drawn = drawn_methods(result)
    figures: dict[str, Callable[[], Figure | None]] = {
        "metrics.png": partial(metrics_figure, {"methods": drawn}),
        "fwv.png": partial(panel_for_each, PANELS, partial(_fwv_panel, drawn), ylabel="FWV"),
    }
    return save_figures(figures, folder)


def drawn_methods(result: Mapping[str, Any]) -> dict[str, Any]:
    """Return the methods of the figures, in the order that decides their colours: those that were trained, with solid
    lines, and the best of the simple baselines.
    """
    methods = shown_methods(result)
    trained = {name: {**methods[name], "model": name} for name in titles_in(result).values()}
    return {**trained, NEAREST: methods[NEAREST]} if NEAREST in methods else trained


def _fwv_panel(methods: Mapping[str, Any], axis: "Axes", column: str) -> None:
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


if __name__ == "__main__":
    run_script(main, Options, __doc__)
