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
    condvae ood experiment --model faces64 --data lfw64.zip --out out/faces64 --images 250 --fit-images 3000 \
        --against cifar10=cifar10 mnist=mnist --scores gradient gradient-4 parts-4 likelihood --baselines
    condvae evaluate --model cifar10 --data cifar10 --metrics lpips pixels bounds --images 500 --deep-images 500 \
        --out out/completions --baselines
    condvae evaluate --model ipa-r.safetensors --data cifar10 --metrics lpips pixels bounds --images 500 \
        --deep-images 500 --out out/completions --baselines
    python benchmarks/ood.py --device cuda --out out/speed_h200.json
    python benchmarks/ood.py --device cpu --images 40 --file picture.png --out out/speed_cpu.json
    python benchmarks/ood.py --device cpu --images 8 --file picture.png --model faces64 --out out/speed_cpu_faces64.json
    python recipes/ood_results.py --cifar10 out/cifar10/results.json --ipa-r out/ipa_r/results.json \
        --faces64 out/faces64/results.json --completions out/completions/results.json \
        --speed-h200 out/speed_h200.json --speed-cpu out/speed_cpu.json \
        --speed-cpu-faces64 out/speed_cpu_faces64.json --figures

Without options, the tables are filled from the numbers that are already in the folder.
"""

import json
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from PIL import Image

from condvae.experiments.ood.plan import MEAN
from condvae.experiments.ood.report import EXAMPLES, redraw
from condvae.experiments.ood.summary import ALL, PAPERS
from condvae.runtime.scripts import run_script

sys.path.insert(0, str(Path(__file__).parents[1]))
from recipes.design_results import difference
from recipes.pages import DIGITS, Page, draw, markdown, read, rounded, short

PAGE = Path(__file__).parents[1] / "docs" / "results" / "ood.md"
IPA, IPA_R, FACES = "cifar10", "ipa-r", "faces64"
"""Names of the models in the experiments."""

METHODS = {
    f"{IPA} gradient": "IPA, gradient",
    f"{IPA_R} gradient": "IPA-R, gradient",
    f"{IPA} completed-ipa": "completed by IPA, gradient",
    f"{IPA} completed-nearest": "completed by nearest training image, gradient",
    f"{IPA} likelihood": "IPA, likelihood",
    f"{IPA} gradient-4": "IPA, gradient-4",
    f"{IPA} parts-4": "IPA, parts-4",
    f"{IPA} channels": "IPA, channels",
    f"{IPA} complexity": "IPA, complexity",
    f"{IPA} ratio-1": "IPA, ratio-1",
    f"{IPA} regret-5": "IPA, regret-5 (latent offsets)",
}
"""The methods in the tables for CIFAR-10, and their names on the page."""
BY_BIN = {
    "bins-gradient": f"{IPA} gradient",
    "bins-ipa-r": f"{IPA_R} gradient",
    "bins-completed": f"{IPA} completed-ipa",
    "bins-likelihood": f"{IPA} likelihood",
    "bins-parts-4": f"{IPA} parts-4",
}
"""The method that each table by hidden share shows."""
FIGURE = (*list(METHODS)[:5], f"{IPA} parts-4", f"{IPA} channels", f"{IPA} complexity")
"""The methods in the figure. With more methods, the lines would hide each other."""
PAIRS = (
    ("gradient", IPA, "likelihood"),
    ("gradient", IPA, "completed-ipa"),
    ("gradient", IPA, "completed-nearest"),
    ("gradient", IPA_R, "gradient"),
    ("gradient", IPA, "complexity"),
    ("parts-4", IPA, "gradient"),
    ("parts-4", IPA, "gradient-4"),
    ("parts-4", IPA, "complexity"),
)
"""The differences on the page. Each is a score of IPA, and the model and score that are subtracted from it."""
SHOWN_BY_SHARE = ("gradient", IPA, "completed-ipa")
"""The difference that is shown by hidden share as well."""

_SETS = ("noise", "constant", "flip", "rotate", "crop")
PAPER_CIFAR10 = {
    "the paper: IPA": (0.995, 0.949, 0.552, 0.594),
    "the paper: IPA-R": (0.987, 0.921, 0.635, 0.619),
    "the paper: completed by CoModGAN": (0.993, 0.909, 0.543, 0.536),
}
PAPER_FFHQ = {
    "the paper, FFHQ-256: IPA": (1.0, 1.0, 0.809, 0.808, 0.912),
    "the paper, FFHQ-256: IPA-R": (1.0, 1.0, 0.770, 0.775, 0.902),
    "the paper, FFHQ-256: completed by CoModGAN": (1.0, 0.98, 0.769, 0.771, 0.823),
}
"""Averages over hidden shares in the paper's figure fig:ood-results, for the first of _SETS."""
COMPLETIONS = {"lpips_gt@1": 4, "lpips_gt": 4, "lpips_diversity": 4, "best_mse": 5, "psnr_of_mean": 2}
BOUNDS = {"forward_kl_nats_per_dim": 4, "hidden_bits_per_dim": 3}
"""The metrics of completions and of models on the page, with their number of digits."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """Store new numbers, if some are given, and fill the tables of the page."""

    cifar10: Path | None = None
    """results.json of `condvae ood experiment --model cifar10` with all scores and baselines."""
    ipa_r: Path | None = None
    """results.json of the same experiment with cifar10 and an IPA-R model named ipa-r."""
    faces64: Path | None = None
    """results.json of `condvae ood experiment --model faces64`."""
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
    names = ("cifar10", "ipa_r", "faces64", "completions", "speed_h200", "speed_cpu", "speed_cpu_faces64")
    new = read({name: getattr(options, name) for name in names})
    if "cifar10" in new and "ipa_r" in new:
        check_consistent(new["cifar10"], new["ipa_r"])
    reducers = {"cifar10": keep_ipa, "ipa_r": keep_ipa_r, "faces64": keep_faces, "completions": keep_shown_metrics}
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
    return keep_model(result, IPA, [pair(*names) for names in PAIRS if names[1] == IPA])


def keep_ipa_r(result: Mapping[str, Any]) -> dict[str, Any]:
    """Keep the results of IPA-R, which the other experiment lacks, and only for the methods on the page."""
    kept = keep_model(result, IPA_R, [pair(*names) for names in PAIRS if names[1] == IPA_R])
    return {**kept, "methods": {name: found for name, found in kept["methods"].items() if name in METHODS}}


def keep_faces(result: Mapping[str, Any]) -> dict[str, Any]:
    return keep_model(result, FACES, [f"{FACES} gradient - {FACES} likelihood", f"{FACES} parts-4 - {FACES} gradient"])


def keep_model(result: Mapping[str, Any], model: str, pairs: Sequence[str]) -> dict[str, Any]:
    """Keep the methods of one model, and the differences on the page: means over hidden shares, one by hidden share."""
    at = index(result, MEAN)
    differences = {
        name: {
            of: cells if name == pair(*SHOWN_BY_SHARE) and of in result["means"] else [cells[at]]
            for of, cells in result["differences"][name].items()
        }
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


def pair(score: str, model: str, other: str) -> str:
    """Return the name that a difference has in the results of the experiment."""
    return f"{IPA} {score} - {model} {other}"


def merged(raw: Mapping[str, Any]) -> dict[str, Any]:
    """Merge both experiments on CIFAR-10 into one, with methods in the order of the page."""
    ipa, ipa_r = raw["cifar10"], raw["ipa_r"]
    methods = {**ipa["methods"], **ipa_r["methods"]}
    differences = {**ipa["differences"], **ipa_r["differences"]}
    return {**ipa, "methods": {name: methods[name] for name in METHODS}, "differences": differences}


def figure_result(raw: Mapping[str, Any]) -> dict[str, Any]:
    result = merged(raw)
    return {**result, "methods": {name: result["methods"][name] for name in FIGURE}, "differences": {}}


def all_tables(raw: Mapping[str, Any]) -> dict[str, str]:
    result = merged(raw)
    scores = {f"{FACES} {name}": f"faces64: {name}" for name in ("gradient", "gradient-4", "parts-4", "likelihood")}
    speeds = [raw[name] for name in ("speed_h200", "speed_cpu", "speed_cpu_faces64")]
    return {
        "auroc": table_by_set(result, METHODS, PAPER_CIFAR10),
        "differences": difference_table(result),
        "differences-by-share": difference_table_by_share(result),
        **{name: table_by_hidden_share(result, method) for name, method in BY_BIN.items()},
        "faces64": table_by_set(raw["faces64"], scores, PAPER_FFHQ),
        "completions": completion_table(raw["completions"]),
        "speed": speed_table(speeds),
    }


def table_by_set(result: Mapping[str, Any], methods: Mapping[str, str], paper: Mapping[str, Sequence[float]]) -> str:
    """Return a table of means over hidden shares: our rows, then the paper's rows for the sets that the paper has."""
    at, names = index(result, MEAN), [*result["sets"], *result["means"]]
    rows = [
        [title, *(short(result["methods"][method]["auroc"][name][at]["mean"], 3) for name in names)]
        for method, title in methods.items()
    ]
    for title, values in paper.items():
        known = dict(zip(_SETS, values, strict=False)) | {PAPERS: sum(values[:4]) / 4}
        rows.append([title, *(short(known[name], 3) if name in known else "" for name in names)])
    return markdown(["", *names], rows)


def table_by_hidden_share(result: Mapping[str, Any], method: str) -> str:
    """Return a table of one method, with a row for each set and a column for each range of the hidden share."""
    found = result["methods"][method]["auroc"]
    shares = [one for one in result["columns"] if found[ALL][index(result, one)]["mean"] is not None]
    names = [*result["sets"], *result["means"]]
    rows = [[name, *(short(found[name][index(result, share)]["mean"], 3) for share in shares)] for name in names]
    return markdown(["hidden share", *shares], rows)


def index(result: Mapping[str, Any], column: str) -> int:
    return list(result["columns"]).index(column)


def difference_table(result: Mapping[str, Any]) -> str:
    """Return a table of differences of means over hidden shares, with a row per set and a column per difference."""
    pairs = [pair(*names) for names in PAIRS]

    def cell(name: str, of: str) -> Mapping[str, float]:
        """Return the mean over hidden shares. It may be the only column that was kept."""
        cells: list[Mapping[str, float]] = result["differences"][name][of]
        return cells[0 if len(cells) == 1 else index(result, MEAN)]

    rows = [[of, *(difference(cell(name, of)) for name in pairs)] for of in [*result["means"], *result["sets"]]]
    heads = [f"{score} - {'' if model == IPA else 'IPA-R '}{other}" for score, model, other in PAIRS]
    return markdown(["", *heads], rows)


def difference_table_by_share(result: Mapping[str, Any]) -> str:
    """Return a table of one difference by hidden share, for the means over sets."""
    shares = result["columns"][: index(result, MEAN)]
    found = result["differences"][pair(*SHOWN_BY_SHARE)]
    rows = [[of, *(difference(found[of][index(result, share)]) for share in shares)] for of in result["means"]]
    return markdown(["gradient - completed-ipa, by hidden share", *shares], rows)


def completion_table(result: Mapping[str, Any]) -> str:
    """Return a table that compares completions of IPA and IPA-R over all bins, with standard errors over images."""
    titles = {
        "lpips_gt@1": "LPIPS from one completion to the original",
        "lpips_gt": f"LPIPS-GT, the nearest of {result['settings']['k']} completions",
        "lpips_diversity": "LPIPS diversity",
        "best_mse": f"squared error of the best of {result['settings']['k']} completions",
        "psnr_of_mean": "PSNR of the mean completion, dB",
        "forward_kl_nats_per_dim": "KL(q(z\\|x) \\|\\| c(z\\|y)), nats per dimension",
        "hidden_bits_per_dim": "bits per hidden dimension (a bound)",
    }
    rows = []
    for of, metrics in (("methods", COMPLETIONS), ("models", BOUNDS)):
        for metric, digits in metrics.items():
            if metric not in result[of][IPA]["metrics"]:
                continue
            cells = [result[of][model]["metrics"][metric]["mixture"] for model in (IPA, IPA_R)]
            shown = [f"{short(c['mean'], digits)} ± {short(c['standard_error'], digits)}" for c in cells]
            rows.append([titles[metric], *shown])
    return markdown(["", "IPA", "IPA-R"], rows)


def speed_table(measured: Sequence[Mapping[str, Any]]) -> str:
    """Return a table of speeds, with a column for each machine and model."""

    def command(found: Mapping[str, Any]) -> str:
        return with_target(f"{found['command']['seconds']:.1f} s", found) if "command" in found else ""

    def of_5000(found: Mapping[str, Any]) -> str:
        return with_target(f"{found['parts-4']['seconds']:.2f} s", found) if found["images"] == 5000 else ""

    def with_target(seconds: str, found: Mapping[str, Any]) -> str:
        return f"**{seconds}** (target: under {found['wanted_seconds']:.0f} s)"

    shown: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
        "parts-4, images/s": lambda found: f"{found['parts-4']['images_per_second']:,.1f}",
        "gradient, images/s": lambda found: f"{found['gradient']['images_per_second']:,.1f}",
        "reference, images/s": lambda found: f"{found['reference']['images_per_second']:,.1f}",
        "gradient, speed-up over the reference": lambda found: f"{found['gradient_times_the_reference']:,.1f}",
        "parts-4, time for 5,000 images": of_5000,
        "parts-4, first call": lambda one: f"{one['parts-4']['first_seconds']:.1f} s for {one['images']:,} images",
        "`condvae ood score` of one file, the whole command": command,
        "peak memory": lambda found: f"{found['peak_gb']:.1f} GB" if "peak_gb" in found else "",
    }
    rows = [[title, *map(write, measured)] for title, write in shown.items()]
    return markdown(["", *(f"{found['model']}, {found['device']}" for found in measured)], rows)


if __name__ == "__main__":
    run_script(main, Options, __doc__)
