r"""Fill the tables of docs/results/pretraining.md from the raw numbers in docs/results/pretraining. These commands made
them:

    condvae fetch cifar10
    condvae fetch metrics
    python recipes/pretraining.py --out out/pretraining --other tiny64-a.zip tiny64-b.zip \
        --short-minutes 1.5 --precision fast --processes 8
    python recipes/pretraining_results.py --results out/pretraining/experiment/results.json --figures

Without options, the tables are filled from the numbers that are already in the folder.
"""

import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from condvae.experiments.pretraining.plan import SCRATCH, TARGETS, condition_of, metrics_for
from condvae.experiments.pretraining.report import REPORT, redraw
from condvae.runtime.scripts import run_script
from condvae.training.presets import TRAIN_PRESETS

sys.path.insert(0, str(Path(__file__).parents[1]))
from recipes.pages import Page, draw, markdown, short, small_webp
from recipes.pretraining_statements import IPA, IPA_SHORT, NAMES, RULES, TRANSFER, spread, statements
from recipes.statements import rule_table, statement_table

PAGE = Path(__file__).parents[1] / "docs" / "results" / "pretraining.md"
ARTIFACTS = {
    SCRATCH: "none",
    IPA: "`cifar10`, the VAE of the embedded model",
    TRANSFER: "a VAE of other images, trained by the recipe",
    IPA_SHORT: "a VAE of the same images, trained briefly by the recipe",
}
"""The artifact of each arm."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """Store new numbers, if some are given, and fill the tables of the page."""

    results: Path | None = None
    """results.json of recipes/pretraining.py."""
    page: Path = PAGE
    """The page to fill; its numbers are in the folder of the same name."""
    figures: bool = False
    """Also draw the figures again, which needs matplotlib, and copy the sheets that lie next to --results."""


def main(options: Options) -> None:
    page = page_at(options.page)
    page.store({"results": options.results}, {"results": (REPORT.format, REPORT.command)})
    if options.figures:
        add_pictures(page.folder, "results", options.results)


def add_pictures(folder: Path, name: str, results: Path | None, prefix: str = "") -> None:
    """Draw the figures of the stored results of this name, and copy the sheets that lie next to new results."""
    draw(folder / f"{name}.json", redraw, folder, prefix)
    for sheet in sorted(results.parent.glob("sheet-*.png")) if results is not None else ():
        (folder / f"{prefix}{sheet.stem}.webp").write_bytes(small_webp(sheet))


def page_at(path: Path = PAGE) -> Page:
    return Page(path=path, tables=all_tables)


def all_tables(raw: Mapping[str, Any]) -> dict[str, str]:
    result = raw["results"]
    return {
        "curves": curve_table(result),
        "statements": statement_table(statements(result)),
        "rules": rule_table(RULES),
        "targets": target_table(result),
        "conditions": condition_table(result),
        "arms": markdown(ARM_HEAD, arm_rows(result, ARTIFACTS)),
    }


def curve_table(result: Mapping[str, Any]) -> str:
    """Return a table with a row for each snapshot of each arm: its time and its metrics over seeds."""
    metrics = metrics_for(condition_of(result))
    rows = [
        [
            NAMES[name],
            f"{point['steps']:,}",
            short(point["minutes"], 2),
            short(point["total_minutes"], 2),
            *(spread(np.array(point[metric]["values"]), metric) for metric in metrics),
        ]
        for name, arm in result["arms"].items()
        for point in arm["points"]
    ]
    head = ["arm", "steps", "GPU-minutes", "GPU-minutes with pretraining", *(one.title for one in metrics.values())]
    return markdown(head, rows)


def target_table(result: Mapping[str, Any]) -> str:
    """Return a table with a row for each arm: its last bounds with both targets, and how far it is from scratch.

    Trainings with the same seed are evaluated with the same holes, so the differences are between such trainings.
    """

    def nats(name: str, target: str) -> NDArray[np.float64]:
        return np.array(result["arms"][name]["held_out"][target]["values"])

    def cell(values: NDArray[np.float64], sign: str = "") -> str:
        std = f" ±{values.std(ddof=1):.1f}" if len(values) > 1 else ""
        return f"{values.mean():{sign},.1f}{std}"

    rows = []
    for name, arm in result["arms"].items():
        hidden, whole = (nats(name, target) for target in TARGETS)
        cells = [cell(one) for one in (hidden, whole, whole - hidden)]
        apart = ["" if name == SCRATCH else cell(nats(name, one) - nats(SCRATCH, one), "+") for one in TARGETS]
        rows.append([NAMES[name], short(arm["points"][-1]["minutes"], 2), *cells, *apart])
    apart = [f"{title}, minus from scratch" for title in TARGETS.values()]
    return markdown(["arm", "GPU-minutes", *TARGETS.values(), "known pixels", *apart], rows)


def condition_table(result: Mapping[str, Any]) -> str:
    """Return a table with a row for each other condition: both bounds, their difference, and the theorem's limits."""
    rows = []
    for condition, found in result["conditions"].items():
        scratch, ipa = (bound_text(found["arms"][arm][-1]) for arm in (SCRATCH, IPA))
        information, difference = found["information_nats"], found["ipa_minus_scratch_nats"]
        if "most" in information:
            left = [f"at most {short(information['most']['mean'], 2)}", ""]
            limit = f"0 to {short(information['most']['mean'], 2)}"
        else:
            left = [estimate_text(information[name]) for name in ("measured", "calibrated")]
            limit = f"0 to {information['calibrated']['mean']:,.1f}, if the artifact were perfect"
        rows.append([f"`{condition}`", ipa, scratch, estimate_text(difference, "+"), *left, limit, seen(found)])
    head = ["condition", "IPA", "from scratch", "IPA - from scratch", "I*, measured", "I*, calibrated"]
    return markdown([*head, "the theorem, for the best of both", "seen"], rows)


def bound_text(point: Mapping[str, Any]) -> str:
    return f"{point['nats']['mean']:,.1f} after {short(point['minutes'], 2)} minutes"


def estimate_text(found: Mapping[str, float], sign: str = "") -> str:
    return f"{found['mean']:{sign},.1f} ±{found['standard_error']:.1f}"


def seen(found: Mapping[str, Any]) -> str:
    """Say who is ahead, by more than two standard errors, and whether the lead exceeds I*, by as much."""
    mean, error = (found["ipa_minus_scratch_nats"][key] for key in ("mean", "standard_error"))
    if abs(mean) <= 2 * error:
        return "no clear difference"
    if mean < 0:
        return "IPA is ahead, so joint training is not at its best yet"
    names = {"measured": "I* measured", "calibrated": "I* calibrated", "most": "the largest possible I*"}
    exceeded = [
        names[name]
        for name, one in sorted(found["information_nats"].items(), reverse=True)
        if mean - one["mean"] > 2 * math.hypot(error, one.get("standard_error", 0.0))
    ]
    by = f"more than {' and '.join(exceeded)}" if exceeded else "no more than I*"
    return f"from scratch is ahead, by {by}"


ARM_HEAD = ["arm", "artifact", "its data", "its GPU-minutes", "its steps", "time of a step", "images/s"]


def arm_rows(result: Mapping[str, Any], artifacts: Mapping[str, str]) -> list[list[str]]:
    """Return a row for each arm: what it was pretrained on and for how long, and its speed.

    artifacts: what the artifact of each arm is.
    """
    batch = result["settings"]["batch"] or TRAIN_PRESETS[result["settings"]["preset"]]["batch"]
    rows = []
    for name, arm in result["arms"].items():
        before, seconds = arm["pretraining"], arm["seconds_per_step"]
        made = ["", "", ""]
        if before is not None:
            made = [before["data"], short(arm["pretraining_minutes"], 2), f"{before['steps']:,}"]
        rows.append([NAMES[name], artifacts[name], *made, f"{1000 * seconds:.2f} ms", f"{batch / seconds:,.0f}"])
    return rows


if __name__ == "__main__":
    run_script(main, Options, __doc__)
