r"""Fill the tables of docs/results/design.md from the raw numbers in docs/results/design. The text is written by hand.

    condvae design experiment --data nih128.zip --out out/xray
    condvae design experiment --data nih128.zip --out out/xray_n40 -n 40 --tasks edema effusion infiltration \
        "no finding" --policies eig-ipa random uncond non-greedy full
    python benchmarks/design.py --device cuda --block 128 --model xray --classifier xray --out out/speed_h200.json
    python benchmarks/design.py --device cpu --model xray --classifier xray --out out/speed_cpu.json
    python benchmarks/classifier.py --device cuda --classifier xray --out out/classifier_h200.json
    python recipes/baselines.py --data cifar10 --out out/second --minutes 4 --methods comodgan diffusion \
        --no-long --no-evaluate
    python recipes/design_cifar10.py --data cifar10 --device cpu --out out/classifier
    python recipes/design_cifar10.py --data cifar10 --classifier out/classifier/classifier.safetensors \
        --against comodgan=out/second/comodgan/model.safetensors \
        diffusion=out/second/diffusion/model.safetensors --training-images --images 1000 --out out/design
    python recipes/design_results.py --xray out/xray/results.json --xray-n40 out/xray_n40/results.json \
        --speed-h200 out/speed_h200.json --speed-cpu out/speed_cpu.json \
        --classifier-h200 out/classifier_h200.json --cifar10 out/design/results.json --figures

The first call of design_cifar10.py trains the classifier that the second one uses. The quality of the x-ray classifier
alone is read from the record in its file. Without options, the tables are filled from the numbers that are already in
the folder.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from condvae.design.avp_cnn.classifier_file import describe_classifier
from condvae.experiments.design.plan import FULL, OURS, PAPER_TASKS
from condvae.experiments.design.report import redraw
from condvae.runtime.scripts import run_script

sys.path.insert(0, str(Path(__file__).parents[1]))
from recipes.design_cifar10 import FORMAT
from recipes.design_cifar10_tables import cifar10_tables, without_times
from recipes.pages import Page, draw, markdown, read, read_result, rounded, short

PAGE = Path(__file__).parents[1] / "docs" / "results" / "design.md"
PAPER_SET = "the paper's tasks"
DIGITS = 6
"""How many significant digits of an experiment's numbers are kept."""
VARIABLES = {"no finding": "any finding"}
"""The classifier's variable for each task that has another name. A task and its negation have the same AUROC."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """Store new numbers, if some are given, and fill the tables of the page."""

    xray: Path | None = None
    """results.json of `condvae design experiment`, with all tasks and policies."""
    xray_n40: Path | None = None
    """results.json of the same experiment with -n 40, the paper's tasks, and the policies eig-ipa, random, uncond,
    non-greedy and full."""
    speed_h200: Path | None = None
    """JSON of benchmarks/design.py on an H200."""
    speed_cpu: Path | None = None
    """JSON of benchmarks/design.py on a CPU."""
    classifier_h200: Path | None = None
    """JSON of benchmarks/classifier.py on an H200."""
    cifar10: Path | None = None
    """results.json of recipes/design_cifar10.py."""
    page: Path = PAGE
    """The page to fill."""
    figures: bool = False
    """Also draw the figures again; this needs matplotlib."""


def main(options: Options) -> None:
    page = page_at(options.page)
    speeds = read({name: getattr(options, name) for name in ("speed_h200", "speed_cpu", "classifier_h200")})
    new = {name: without_folders(found) for name, found in speeds.items()}
    for name, result in read({"xray": options.xray, "xray_n40": options.xray_n40}).items():
        new[name] = rounded(thinned(result), DIGITS)
    if options.cifar10:
        result = read_result(options.cifar10, FORMAT, "recipes/design_cifar10.py")
        new["cifar10"] = rounded(without_times(result), DIGITS)
    page.update(new)
    if options.figures:  # without new counts, the maps of where policies scan stay unchanged
        draw(options.xray or page.folder / "xray.json", redraw, page.folder)


def page_at(path: Path = PAGE) -> Page:
    return Page(path=path, tables=all_tables)


def without_folders(found: Mapping[str, Any]) -> dict[str, Any]:
    """Shorten the paths of model and classifier to their last part, without the folders of the measuring machine."""
    return {**found, **{key: Path(found[key]).name for key in ("model", "classifier") if key in found}}


def thinned(result: Mapping[str, Any]) -> dict[str, Any]:
    """Remove the counts of scans by location and the NLL differences of single tasks, to keep the file small."""
    policies = {policy: {**found, "where": {}} for policy, found in result["policies"].items()}
    differences = {
        policy: {**found, "nll": {name: found["nll"][name] for name in result["sets"]}}
        for policy, found in result["differences"].items()
    }
    return {**result, "policies": policies, "differences": differences}


def all_tables(raw: Mapping[str, Any]) -> dict[str, str]:
    few, many = raw["xray"], raw["xray_n40"]
    return {
        "auroc": by_policy(few, "auroc", between),
        "nll": by_policy(few, "nll", lambda cell: short(cell["mean"], 3)),
        "auroc-differences": of_differences(few, "auroc"),
        "nll-differences": of_differences(few, "nll"),
        "tasks": by_task(few, "policies", between),
        "task-differences": by_task(few, "differences", difference),
        "n40": of_numbers(few, many),
        "n40-auroc-differences": of_differences(many, "auroc"),
        "n40-nll-differences": of_differences(many, "nll"),
        "cross": of_cross_tasks(few),
        "ece": of_calibration(few),
        "classifier": of_classifier(describe_classifier("xray").record),
        "speed": of_speed([raw[name] for name in ("speed_h200", "speed_cpu") if name in raw]),
        "classifier-speed": of_classifier_speed(raw["classifier_h200"]),
        **cifar10_tables(raw["cifar10"]),
    }


def without_first(result: Mapping[str, Any], cells: Sequence[Any]) -> Sequence[Any]:
    """Remove the column of 0 scans, in which all policies are equal."""
    assert result["columns"][0] == "0"
    return cells[1:]


def by_policy(result: Mapping[str, Any], metric: str, write: Callable[[Mapping[str, float]], str]) -> str:
    """Return a table of one metric by policy and number of scans, averaged over the paper's tasks."""
    rows = [
        [policy, *map(write, without_first(result, found[metric][PAPER_SET]))]
        for policy, found in result["policies"].items()
    ]
    return markdown(["number of scans", *without_first(result, result["columns"])], rows)


def of_differences(result: Mapping[str, Any], metric: str) -> str:
    """Return a table of eig-ipa minus every other policy, averaged over the paper's tasks."""
    rows = [
        [policy, *(difference(cell) for cell in without_first(result, found[metric][PAPER_SET]))]
        for policy, found in result["differences"].items()
    ]
    return markdown([f"{OURS} minus ..., by number of scans", *without_first(result, result["columns"])], rows)


def by_task(result: Mapping[str, Any], of: str, write: Callable[[Mapping[str, float]], str]) -> str:
    """Return a table of the AUROC, or of its differences, by task, averaged over 2 to 5 scans."""
    rows = [
        [policy, *(write(found["auroc"][task][-1]) for task in result["tasks"])] for policy, found in result[of].items()
    ]
    corner = f"{OURS} minus ..., " if of == "differences" else ""
    return markdown([f"{corner}mean over {result['columns'][-1]} scans", *result["tasks"]], rows)


def of_numbers(few: Mapping[str, Any], many: Mapping[str, Any]) -> str:
    """Return a table of the AUROC with few and with many completions; policies that use none have one row."""
    rows = []
    for policy in many["policies"]:
        alike = policy in (FULL, "random")
        for result in (few,) if alike else (few, many):
            name = policy if alike else f"{policy}, N = {result['settings']['n']}"
            cells = without_first(result, result["policies"][policy]["auroc"][PAPER_SET])
            rows.append([name, *(short(cell["mean"], 3) for cell in cells)])
    return markdown(["number of scans", *without_first(few, few["columns"])], rows)


def of_cross_tasks(result: Mapping[str, Any]) -> str:
    """Return a table of the AUROC after all scans, by task and by the task that scans were chosen for; row maxima are
    bold.
    """
    found = result["cross_tasks"][OURS]
    rows = []
    for task, line in zip(found["tasks"], found["last"], strict=True):
        means = [cell["mean"] for cell in line]
        shown = [f"**{short(mean, 3)}**" if mean == max(means) else short(mean, 3) for mean in means]
        rows.append([task, *shown])
    return markdown(["AUROC of this task, with scans chosen for ...", *found["tasks"]], rows)


def of_calibration(result: Mapping[str, Any]) -> str:
    """Return a table of the calibration error after each scan, averaged over all tasks."""
    rows = []
    for policy, found in result["policies"].items():
        means = [sum(errors) / len(errors) for errors in zip(*found["ece"].values(), strict=True)]
        steps = result["settings"]["steps"]
        rows.append([policy, *(short(mean, 3) for mean in (means * (steps + 1) if policy == FULL else means))])
    return markdown(["number of scans", *result["columns"][:-1]], rows)


def of_classifier(record: Mapping[str, Any]) -> str:
    """Return a table of the classifier's quality when patches at random locations are known."""
    four = [VARIABLES.get(task, task) for task in PAPER_TASKS]

    def of_four(view: Mapping[str, Any], metric: str) -> float:
        each = {name.lower(): value for name, value in view[f"{metric} of"].items()}
        return float(sum(each[name] for name in four) / len(four))

    shown: Mapping[str, Callable[[Mapping[str, Any]], float]] = {
        "AUROC, mean over the paper's four tasks": lambda view: of_four(view, "auroc"),
        "AUROC, mean over all variables with positives": lambda view: float(view["auroc"]),
        "NLL, nats per variable": lambda view: float(view["nll"]),
        "ECE, mean over the paper's four tasks": lambda view: of_four(view, "ece"),
        "ECE, mean over all 15 variables": lambda view: float(view["ece"]),
    }
    rows = [
        [f"{title}: {name}", *(short(value(view), 3) for view in record[split].values())]
        for title, value in shown.items()
        for split, name in (("validation", "held-out images"), ("test", "test images"))
    ]
    return markdown(
        ["number of known patches", *(f"{view} image" if view == "whole" else view for view in record["test"])], rows
    )


def of_speed(measured: Sequence[Mapping[str, Any]]) -> str:
    """Return a table of the time for one step, with one column for each machine."""

    def by_block(found: Mapping[str, Any]) -> str:
        return f"{time(found['block']['step_ms'])} for {found['block']['images']}" if "block" in found else ""

    def of_experiment(found: Mapping[str, Any]) -> str:
        block = found.get("block")
        return f"{block['minutes_for_500_images_5_scans_4_tasks']:.2f} minutes (target: under 12)" if block else ""

    shown: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
        "one step for one image": lambda found: f"**{time(found['step_ms']['median'])}**",
        "target": lambda found: f"under {time(found['step_wanted_ms'])}",
        "slowest of ten steps; first call": lambda found: (
            f"{time(found['step_ms']['worst'])}; {time(found['step_ms']['first'])}"
        ),
        "completions in one step": lambda found: time(found["completions_ms"]["median"]),
        "predictions of g in one step": lambda found: time(found["foresight_ms"]["median"]),
        "one step of the reference": lambda found: time(found["reference"]["step_ms"]),
        "speed-up over the reference": lambda found: f"{found['times_the_reference']:,.0f}",
        "one step for a block of images": by_block,
        "500 images x 5 scans x 4 tasks": of_experiment,
        "peak memory": lambda found: f"{found['peak_gb']:.1f} GB" if "peak_gb" in found else "",
    }
    rows = [[title, *map(write, measured)] for title, write in shown.items()]
    return markdown(["", *(found["device"] for found in measured)], rows)


def of_classifier_speed(found: Mapping[str, Any]) -> str:
    """Return a table of the classifier's speed and rounding error, by implementation."""
    implementations = {
        "plain_exact": "plain torch, float32",
        "plain_half": "plain torch, float16",
        "fused_half": "fused kernels, float16",
    }
    rows = []
    for key, name in implementations.items():
        off = found[key]["log_probabilities_off"]
        exact = not off["worst"]
        rows.append(
            [
                name,
                f"{found[key]['per_s']:,}",
                f"{found[key]['peak_gb']:.1f} GB",
                "" if exact else f"{short(off['mean'], 4)}; {short(off['worst'], 3)}",
                "" if exact else short(off["worst_probability"], 4),
            ]
        )
    head = [
        found["device"],
        "images/s",
        "peak memory",
        "error of log-probabilities: mean; worst",
        "worst error of probabilities",
    ]
    return markdown(head, rows)


def between(cell: Mapping[str, float]) -> str:
    """Format an estimate with its confidence interval."""
    return f"{short(cell['mean'], 3)} [{short(cell['low'], 3)}, {short(cell['high'], 3)}]"


def difference(cell: Mapping[str, float]) -> str:
    """Format a difference with its sign and confidence interval, in bold if the interval excludes 0."""
    mean, low, high = (short(cell[key], 3, "+") for key in ("mean", "low", "high"))
    text = f"{mean} [{low}, {high}]"
    return f"**{text}**" if decided(cell) else text


def decided(cell: Mapping[str, float]) -> bool:
    """Return whether the confidence interval of a difference excludes 0."""
    return cell["low"] > 0 or cell["high"] < 0


def time(ms: float) -> str:
    return f"{ms / 1000:.1f} s" if ms >= 1000 else f"{ms:.1f} ms" if ms < 100 else f"{ms:.0f} ms"


if __name__ == "__main__":
    run_script(main, Options, __doc__)
