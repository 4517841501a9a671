r"""Fill the tables of docs/results/edges.md from the raw numbers in docs/results/edges. These commands make them, after
those of recipes/edges.py:

    python recipes/edges_model.py --model shoes64 --data shoes64.zip bags64.zip --out out/shoes64.json
    python benchmarks/edges.py --data shoes64.zip --out out/benchmark.json
    python recipes/edges_results.py --shoes64 out/shoes64.json --benchmark out/benchmark.json \
        --shoes out/edges/shoes/results.json --bags out/edges/bags/results.json --figures

Without options, the tables are filled from the numbers that are already in the folder.
"""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from condvae.experiments.pretraining.plan import SCRATCH, metrics_for
from condvae.experiments.pretraining.report import REPORT
from condvae.observe import Edges
from condvae.runtime.scripts import run_script
from condvae.training.presets import TRAIN_PRESETS

sys.path.insert(0, str(Path(__file__).parents[1]))
from benchmarks import edges
from recipes import edges_model
from recipes.edges_statements import RULES, statements
from recipes.pages import Page, markdown, short
from recipes.pretraining_results import ARM_HEAD, add_pictures, arm_rows, curve_table
from recipes.pretraining_statements import IPA, TRANSFER
from recipes.statements import rule_table, statement_table

PAGE = Path(__file__).parents[1] / "docs" / "results" / "edges.md"
SETS = ("shoes", "bags")
MADE_BY = {
    **dict.fromkeys(SETS, (REPORT.format, "recipes/edges.py")),
    "shoes64": (edges_model.FORMAT, "recipes/edges_model.py"),
    "benchmark": (edges.FORMAT, "benchmarks/edges.py"),
}
"""The format of each file of raw numbers, and the command that writes it."""
ARTIFACTS = {SCRATCH: "none", TRANSFER: "a VAE of Tiny ImageNet", IPA: "a VAE of shoes and bags"}
"""The artifact of each arm."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """Store new numbers, if some are given, and fill the tables of the page."""

    shoes: Path | None = None
    """results.json of recipes/edges.py for shoes."""
    bags: Path | None = None
    """results.json of recipes/edges.py for bags."""
    shoes64: Path | None = None
    """JSON file of recipes/edges_model.py for the embedded model shoes64."""
    benchmark: Path | None = None
    """JSON file of benchmarks/edges.py."""
    page: Path = PAGE
    """The page to fill; its numbers are in the folder of the same name."""
    figures: bool = False
    """Also draw the figures again, which needs matplotlib, and copy the sheets that lie next to new results."""


def main(options: Options) -> None:
    page = page_at(options.page)
    page.store({name: getattr(options, name) for name in MADE_BY}, MADE_BY)
    if options.figures:
        for name in SETS:
            add_pictures(page.folder, name, getattr(options, name), f"{name}-")


def page_at(path: Path = PAGE) -> Page:
    return Page(path=path, tables=all_tables)


def all_tables(raw: Mapping[str, Any]) -> dict[str, str]:
    if missing := [name for name in MADE_BY if name not in raw]:
        raise ValueError(f"there are no numbers of {missing[0]}: give its JSON file with --{missing[0]}")
    results = {name: raw[name] for name in SETS}
    return {
        "shoes64": model_table(raw["shoes64"]),
        "benchmark": speed_table(raw["benchmark"]),
        **{f"curves-{name}": curve_table(result) for name, result in results.items()},
        "statements": statement_table({name: statements(result) for name, result in results.items()}),
        "rules": rule_table(RULES),
        "protocol": protocol_table(results),
        "arms": markdown(
            ["data", *ARM_HEAD], [[name, *row] for name in SETS for row in arm_rows(results[name], ARTIFACTS)]
        ),
    }


def model_table(result: Mapping[str, Any]) -> str:
    """Return a table with a row for each set of test images that a model was measured on."""
    names = metrics_for(Edges.name)
    rows = [
        [name, f"{found['images']:,}", *(short(found["metrics"][key], one.digits) for key, one in names.items())]
        for name, found in result["sets"].items()
    ]
    return markdown(["test images", "number", *(one.title for one in names.values())], rows)


def speed_table(result: Mapping[str, Any]) -> str:
    rows = [[f"edges made {name}", f"{rate:,.0f}"] for name, rate in result["images_per_second"].items()]
    once, each = result["images_per_second"].values()
    rows.append(["ratio", f"{once / each:.1f}"])
    return markdown([f"{result['device']}, {result['preset']}, batch {result['batch']}", "images/s"], rows)


def protocol_table(results: Mapping[str, Any]) -> str:
    """Return a table with a row for each data set: its images, and the settings of trainings and measurements."""
    rows = []
    for name, result in results.items():
        settings = result["settings"]
        batch = settings["batch"] or TRAIN_PRESETS[settings["preset"]]["batch"]
        counts = [result["images"]["training"], settings["validation"], settings["images"], settings["bound_images"]]
        deep = f"{settings['n']} answers for each of {settings['deep_images']} images"
        trained = [settings["seeds"], f"`{settings['preset']}`", batch, f"{settings['lr']:g}"]
        rows.append([name, *(f"{count:,}" for count in counts), deep, *map(str, trained)])
    head = ["data", "training images", "held out", "FID, KID: test images", "-ELBO: test images", "LPIPS"]
    return markdown([*head, "trainings of each arm", "preset", "batch", "learning rate"], rows)


if __name__ == "__main__":
    run_script(main, Options, __doc__)
