r"""Fill the tables of docs/results/ood.md from the raw numbers in docs/results/ood. These commands made them:

    condvae train --data cifar10 --artifact cifar10 --preset cifar10-small --objective reverse --form direct \
        --validation 1000 --evaluate-on 1000 --evaluate-every 10000 --checkpoint-every 10000 --log-every 500 \
        --sheet-every 0 --out ipa-r --minutes 3.5
    cp ipa-r/model.safetensors ipa-r.safetensors
    condvae ood experiment --model cifar10 --data cifar10 --out out/cifar10 \
        --against mnist=mnist fashion=fashion tiny=tiny64-a.zip faces=lfw64.zip \
        --scores gradient gradient-4 parts-4 channels likelihood ratio complexity regret \
        --baselines completed-ipa completed-nearest
    condvae ood experiment --model cifar10 ipa-r=ipa-r.safetensors --data cifar10 --out out/ipa_r \
        --against mnist=mnist fashion=fashion tiny=tiny64-a.zip faces=lfw64.zip \
        --scores gradient gradient-4 parts-4 channels likelihood --baselines
    condvae ood experiment --model faces64 --data faces64-a.zip faces64-b.zip faces64-c.zip --out out/faces64 \
        --images 250 --fit-images 3000 --against cifar10=cifar10 mnist=mnist \
        --scores gradient gradient-4 parts-4 likelihood --baselines
    python recipes/baselines.py --data cifar10 --out out/second --minutes 4 --methods comodgan diffusion --no-long \
        --no-evaluate
    condvae ood experiment --model cifar10 --data cifar10 --out out/ood --sets noise constant flip rotate \
        --scores gradient --baselines completed-ipa completed-nearest --images 1000 --completers \
        comodgan=out/second/comodgan/model.safetensors diffusion=out/second/diffusion/model.safetensors
    condvae evaluate --model cifar10 --data cifar10 --metrics lpips pixels bounds --images 500 --deep-images 500 \
        --out out/completions --baselines
    condvae evaluate --model ipa-r.safetensors --data cifar10 --metrics lpips pixels bounds --images 500 \
        --deep-images 500 --out out/completions --baselines
    python benchmarks/ood.py --device cuda --out out/speed_h200.json
    python benchmarks/ood.py --device cpu --images 40 --file picture.png --out out/speed_cpu.json
    python benchmarks/ood.py --device cpu --images 8 --file picture.png --model faces64 --out out/speed_cpu_faces64.json
    python recipes/ood_results.py --cifar10 out/cifar10/results.json --ipa-r out/ipa_r/results.json \
        --faces64 out/faces64/results.json --completers out/ood/results.json \
        --completions out/completions/results.json --speed-h200 out/speed_h200.json \
        --speed-cpu out/speed_cpu.json --speed-cpu-faces64 out/speed_cpu_faces64.json --figures

Without options, the tables are filled from the numbers that are already in the folder.
"""

import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from PIL import Image

from condvae.experiments.evaluation.report import REPORT as EVALUATION
from condvae.experiments.ood.plan import MEAN
from condvae.experiments.ood.report import EXAMPLES, REPORT, redraw
from condvae.experiments.ood.summary import ALL, PAPERS
from condvae.ood.strange_sets import PAPER_SETS
from condvae.runtime.scripts import run_script

sys.path.insert(0, str(Path(__file__).parents[1]))
from recipes.ood_tables import (
    BOUNDS,
    COMPLETED,
    COMPLETED_BY_SHARE,
    COMPLETERS,
    COMPLETIONS,
    FACES,
    FIGURE,
    IPA,
    IPA_R,
    METHODS,
    PAIRS,
    SHOWN_BY_SHARE,
    Pair,
    all_tables,
    index,
    merged,
    pair,
)
from recipes.pages import DIGITS, Page, draw, read, read_result, rounded

PAGE = Path(__file__).parents[1] / "docs" / "results" / "ood.md"
FORMATS = {
    **dict.fromkeys(("cifar10", "ipa_r", "faces64", "completers"), (REPORT.format, REPORT.command)),
    "completions": (EVALUATION.format, EVALUATION.command),
}
"""The format of the results of each option, and the command that writes them. Benchmarks of speed have no format."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """Store new numbers, if some are given, and fill the tables of the page."""

    cifar10: Path | None = None
    """results.json of `condvae ood experiment --model cifar10` with all scores and baselines."""
    ipa_r: Path | None = None
    """results.json of the same experiment with cifar10 and an IPA-R model named ipa-r."""
    faces64: Path | None = None
    """results.json of `condvae ood experiment --model faces64`."""
    completers: Path | None = None
    """results.json of `condvae ood experiment --model cifar10 --completers` with the paper's sets."""
    completions: Path | None = None
    """results.json of `condvae evaluate` for cifar10 and ipa-r."""
    speed_h200: Path | None = None
    """JSON of benchmarks/ood.py for cifar10 on an H200."""
    speed_cpu: Path | None = None
    """JSON of benchmarks/ood.py for cifar10 on a CPU."""
    speed_cpu_faces64: Path | None = None
    """JSON of benchmarks/ood.py for faces64 on a CPU."""
    page: Path = PAGE
    """The page to fill; its numbers are in the folder of the same name."""
    figures: bool = False
    """Also draw the figures again, which needs matplotlib."""


def main(options: Options) -> None:
    page = page_at(options.page)
    given = {name: path for name, path in vars(options).items() if name not in ("page", "figures")}
    new = read({name: path for name, path in given.items() if name not in FORMATS})
    new |= {name: read_result(given[name], *form) for name, form in FORMATS.items() if given[name] is not None}
    if "cifar10" in new and "ipa_r" in new:
        check_consistent(new["cifar10"], new["ipa_r"])
    reducers = {"cifar10": keep_ipa, "ipa_r": keep_ipa_r, "faces64": keep_faces}
    reducers |= {"completers": keep_completers, "completions": keep_shown_metrics}
    new |= {name: rounded(reduce(new[name]), DIGITS) for name, reduce in reducers.items() if name in new}
    page.update(new)
    if options.figures:
        with tempfile.TemporaryDirectory() as scratch:
            numbers = Path(scratch) / "numbers.json"
            numbers.write_text(json.dumps(figure_result(page.raw())))
            draw(numbers, redraw, page.folder)
        if options.cifar10 is not None:  # the picture of the sets is copied, since it cannot be drawn from numbers
            with Image.open(options.cifar10.with_name(EXAMPLES)) as sheet:
                sheet.convert("RGB").save(page.folder / "sets.webp", quality=60, method=6)


def page_at(path: Path = PAGE) -> Page:
    return Page(path=path, tables=all_tables)


def check_consistent(one: Mapping[str, Any], other: Mapping[str, Any]) -> None:
    """Raise ValueError if two experiments used different images, or have different results for a method in both."""
    if one["made_of"] != other["made_of"]:
        raise ValueError("the experiments with and without ipa-r used different images: give two with the same images")
    shared = one["methods"].keys() & other["methods"].keys()
    if off := sorted(name for name in shared if one["methods"][name] != other["methods"][name]):
        raise ValueError(f"the experiments with and without ipa-r disagree about {', '.join(off)}: repeat one of them")


def keep_ipa(result: Mapping[str, Any]) -> dict[str, Any]:
    by_share = [(SHOWN_BY_SHARE, of) for of in result["means"]]
    return keep_model(result, IPA, [pair(*names) for names in PAIRS if names[1] == IPA], by_share)


def keep_ipa_r(result: Mapping[str, Any]) -> dict[str, Any]:
    """Keep the results of IPA-R, which the other experiment lacks, and only for the methods on the page."""
    kept = keep_model(result, IPA_R, [pair(*names) for names in PAIRS if names[1] == IPA_R])
    return {**kept, "methods": {name: found for name, found in kept["methods"].items() if name in METHODS}}


def keep_faces(result: Mapping[str, Any]) -> dict[str, Any]:
    return keep_model(result, FACES, [f"{FACES} gradient - {FACES} likelihood", f"{FACES} parts-4 - {FACES} gradient"])


def keep_completers(result: Mapping[str, Any]) -> dict[str, Any]:
    """Keep what the page shows. The mean over the sets gets the name that it has elsewhere on the page."""
    if lacking := [name for name in COMPLETERS if f"{IPA} completed-{name}" not in result["methods"]]:
        raise ValueError(
            f"the experiment of --completers lacks completed-{lacking[0]}: repeat it with --model {IPA}, --baselines "
            "completed-ipa completed-nearest, and --completers comodgan=MODEL diffusion=MODEL"
        )
    if result["means"] != {ALL: list(PAPER_SETS)}:
        raise ValueError(f"the experiment of --completers has other sets: repeat it with --sets {' '.join(PAPER_SETS)}")

    def renamed(value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        return {PAPERS if key == ALL else key: renamed(inner) for key, inner in value.items()}

    return keep_model(renamed(result), IPA, [pair(*names) for names in COMPLETED.values()], COMPLETED_BY_SHARE)


def keep_model(
    result: Mapping[str, Any], model: str, pairs: Sequence[str], by_share: Sequence[tuple[Pair, str]] = ()
) -> dict[str, Any]:
    """Keep the methods of one model and some differences: means over hidden shares, and a few by hidden share."""
    at, whole = index(result, MEAN), {(pair(*names), of) for names, of in by_share}
    differences = {
        name: {of: cells if (name, of) in whole else [cells[at]] for of, cells in result["differences"][name].items()}
        for name in pairs
    }
    methods = {name: found for name, found in result["methods"].items() if found["model"] == model}
    return {**result, "methods": methods, "differences": differences}


def keep_shown_metrics(result: Mapping[str, Any]) -> dict[str, Any]:
    """Keep the metrics of an evaluation that the page shows, and how its models were trained."""

    def of_model(found: Mapping[str, Any]) -> dict[str, Any]:
        record = {key: found["record"][key] for key in ("steps", "images_seen", "minutes")}
        record |= {key: found["record"]["options"][key] for key in ("objective", "form")}
        metrics = {name: found["metrics"][name] for name in BOUNDS if name in found["metrics"]}
        return {"record": record, "metrics": metrics}

    return {
        **{key: value for key, value in result.items() if key not in ("models", "methods")},
        "models": {name: of_model(found) for name, found in result["models"].items()},
        "methods": {
            found["model"]: {"metrics": {name: found["metrics"][name] for name in COMPLETIONS}}
            for found in result["methods"].values()
        },
    }


def figure_result(raw: Mapping[str, Any]) -> dict[str, Any]:
    result = merged(raw)
    return {**result, "methods": {name: result["methods"][name] for name in FIGURE}, "differences": {}}


if __name__ == "__main__":
    run_script(main, Options, __doc__)
