r"""Fill the tables of docs/results/baselines.md from the raw numbers in docs/results/baselines. These commands make
them:

    condvae fetch metrics && condvae fetch cifar10
    python recipes/baselines.py --data cifar10 --out out/baselines --minutes 4
    python recipes/baselines_speed.py --data cifar10 --out out/baselines
    python recipes/mode_collapse.py --data cifar10 --positions 2 5 --out out/baselines/mode_collapse.png \
        --models CoModGAN=out/baselines/comodgan Diffusion=out/baselines/diffusion IPA=cifar10
    python recipes/baselines_results.py --baselines out/baselines/baselines.json --speed out/baselines/speed.json \
        --mode-collapse out/baselines/mode_collapse.json --figures

If different calls measured different methods, give all their files. They are joined, and of a method in several files
the last one is taken. This adds methods to those of the page:

    python recipes/baselines_results.py --baselines docs/results/baselines/baselines.json out/more/baselines.json

Without options, the tables are filled from the numbers that are already in the folder.
"""

import json
import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from condvae.experiments.evaluation.plan import MIXTURE
from condvae.metrics import FWV_SIGMAS
from condvae.runtime.messages import listed
from condvae.runtime.scripts import run_script

sys.path.insert(0, str(Path(__file__).parents[1]))
from recipes import baselines, baselines_speed, baselines_training, mode_collapse
from recipes.baselines import TITLES
from recipes.baselines_figures import draw_methods
from recipes.baselines_joining import joined
from recipes.baselines_speed import equal_time_table, speed_table
from recipes.baselines_statements import (
    ANP,
    BINS,
    CE,
    IPA,
    METRICS,
    OWN,
    PIC,
    RFR,
    RULES,
    SIGMAS,
    lead,
    leaders,
    learned_in,
    mean,
    measured_with,
    statements,
)
from recipes.evaluation_results import CIFAR10, by_bin, estimate, of_coverage, percent
from recipes.pages import DIGITS, Page, draw, markdown, read_result, rounded, short, small_webp
from recipes.statements import rule_table, statement_table

PAGE = Path(__file__).parents[1] / "docs" / "results" / "baselines.md"
NUMBERS, SPEED, COLLAPSE = "baselines", "speed", "mode_collapse"
"""The names of the files of raw numbers."""
NEAREST, RANDOM = "nearest training images", "random training image"
NEEDED = (IPA, CE, ANP, PIC, RFR, RANDOM)
"""Methods without which the page cannot be filled. Others are shown if they were measured."""
BY_BIN = ("fid", "cfid", "p_ids", "lpips_gt", "lpips_diversity", "crps_pixels", "crps_lpips", "fwv@0.2")
"""The metrics that have a table by bin, with the methods that were measured with them."""
LEVEL = 0.8
"""The nominal level whose coverage is shown."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """Store new numbers, if some are given, and fill the tables of the page."""

    baselines: tuple[Path, ...] = ()
    """baselines.json of recipes/baselines.py. Several files are joined, and stored as one."""
    speed: Path | None = None
    """speed.json of recipes/baselines_speed.py."""
    mode_collapse: Path | None = None
    """mode_collapse.json of recipes/mode_collapse.py. Its sheet, a .png file, lies next to it."""
    page: Path = PAGE
    """The page to fill; its numbers are in the folder of the same name."""
    figures: bool = False
    """Also draw the figures again, which needs matplotlib, and copy the sheets that lie next to the files of
    --baselines. Those of the second file are called sheet_2 and large_holes_2, and so on."""


def main(options: Options) -> None:
    page = page_at(options.page)
    new = {}
    if options.baselines:
        new[NUMBERS] = joined(
            [read_result(path, baselines.FORMAT, "recipes/baselines.py") for path in options.baselines]
        )
    if options.speed is not None:
        new[SPEED] = read_result(options.speed, baselines_speed.FORMAT, "recipes/baselines_speed.py")
    if options.mode_collapse is not None:
        new[COLLAPSE] = read_result(options.mode_collapse, mode_collapse.FORMAT, "recipes/mode_collapse.py")
    page.update(rounded(new, DIGITS))
    if options.figures:
        if options.mode_collapse is not None:
            (page.folder / f"{COLLAPSE}.webp").write_bytes(small_webp(options.mode_collapse.with_suffix(".png")))
        draw(page.folder / f"{NUMBERS}.json", draw_figures, page.folder)
        for number, path in enumerate(options.baselines, start=1):
            for name in baselines.SHEETS:
                if (sheet := path.with_name(f"{name}.png")).is_file():
                    shown = name if number == 1 else f"{name}_{number}"
                    (page.folder / f"{shown}.webp").write_bytes(small_webp(sheet))


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
    methods, titles = shown_methods(result), titles_in(result)
    if missing := [name for name in NEEDED if name not in methods]:
        raise ValueError(
            f"the page shows {listed(missing)}, which the numbers do not have: give more files with --baselines"
        )
    trained = {name: methods[name] for name in titles.values()}
    speed = speed_of_all(raw[SPEED]) if SPEED in raw else None
    speeds = {} if speed is None else {titles[name]: one for name, one in speed["methods"].items() if name in titles}
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
    if speed is not None:
        tables["speed"] = speed_table(speed, titles)
        tables["equal-time"] = equal_time_table(speed, titles)
    for metric in BY_BIN:
        shown, name = METRICS[metric], metric.partition("@")[0]
        if having := measured_with(methods, metric):
            best = max if shown.higher_is_better else min
            tables[f"bins-{name}"] = by_bin(having, metric, shown.digits, best=best)
    # The best value is 1, and not the highest: no value is bold.
    tables["bins-sharpness"] = by_bin(trained, "sharpness", METRICS["sharpness"].digits, best=lambda _: math.nan)
    return tables


def speed_of_all(speed: Mapping[str, Any]) -> dict[str, Any]:
    """Return the result of recipes/baselines_speed.py with a speed of IPA. If it was not measured, it is that of the
    embedded model, which has the same network.
    """
    if (reference := speed["equal_time"]["reference"]) != baselines.EMBEDDED:
        raise ValueError(
            f"the speeds are relative to {reference}, expected {baselines.EMBEDDED}: run recipes/baselines_speed.py "
            "without --model"
        )
    return {**speed, "methods": {baselines_training.IPA: speed["methods"][reference], **speed["methods"]}}


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
    """Return a table of the best methods by metric and bin, among those with the same budget.

    A metric that only some of them were measured with has a row that names these, if there are at least two.
    """
    columns, everyone = (*BINS, MIXTURE), learned_in(methods)
    rows = []
    for metric in ("fid", "cfid", "p_ids", "lpips_gt", "crps_pixels", "crps_lpips", *SIGMAS[1:6:2]):
        names = learned_in(measured_with(methods, metric))
        if len(names) > 1:
            title = METRICS[metric].title + ("" if names == everyone else f", only {listed(names)}")
            rows.append([title, *(winners(methods, metric, column) for column in columns)])
    return markdown(["hidden share", *columns], rows)


def winners(methods: Mapping[str, Any], metric: str, column: str) -> str:
    names = learned_in(measured_with(methods, metric))
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
    return draw_methods(drawn_methods(json.loads((folder / "results.json").read_text())), folder)


def drawn_methods(result: Mapping[str, Any]) -> dict[str, Any]:
    """Return the methods of the figures, in the order that decides their colours: those that were trained, with solid
    lines, and the best of the simple baselines.
    """
    methods = shown_methods(result)
    trained = {name: {**methods[name], "model": name} for name in titles_in(result).values()}
    return {**trained, NEAREST: methods[NEAREST]} if NEAREST in methods else trained


if __name__ == "__main__":
    run_script(main, Options, __doc__)
