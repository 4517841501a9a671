"""The tables of docs/results/ood.md: which methods and differences they show, and how they are made."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from condvae.experiments.ood.plan import MEAN
from condvae.experiments.ood.summary import ALL, PAPERS
from condvae.ood.strange_sets import PAPER_SETS
from recipes.design_results import difference
from recipes.pages import markdown, short

IPA, IPA_R, FACES = "cifar10", "ipa-r", "faces64"
"""Names of the models in the experiments."""
Pair: TypeAlias = tuple[str, str, str]
"""A difference: a score of IPA, and the model and score that are subtracted from it."""

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
"""The differences in the first tables of the page."""
SHOWN_BY_SHARE = ("gradient", IPA, "completed-ipa")
"""The difference that is shown by hidden share as well."""
COMPLETERS = {"comodgan": "CoModGAN", "diffusion": "diffusion", "ipa": "IPA", "nearest": "nearest training image"}
"""What completes images in the experiment with learned completers, and its name on the page."""
COMPLETED = {name: ("gradient", IPA, f"completed-{name}") for name in COMPLETERS}
"""The differences of that experiment, as in PAIRS."""
COMPLETED_BY_SHARE = (
    *((names, PAPERS) for names in COMPLETED.values()),
    *((COMPLETED["comodgan"], name) for name in PAPER_SETS),
)
"""The differences of that experiment that are shown by hidden share, each with a set or the mean over sets."""

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


def pair(score: str, model: str, other: str) -> str:
    """Return the name that a difference has in the results of the experiment."""
    return f"{IPA} {score} - {model} {other}"


def merged(raw: Mapping[str, Any]) -> dict[str, Any]:
    """Merge both experiments on CIFAR-10 into one, with methods in the order of the page."""
    ipa, ipa_r = raw["cifar10"], raw["ipa_r"]
    methods = {**ipa["methods"], **ipa_r["methods"]}
    differences = {**ipa["differences"], **ipa_r["differences"]}
    return {**ipa, "methods": {name: methods[name] for name in METHODS}, "differences": differences}


def all_tables(raw: Mapping[str, Any]) -> dict[str, str]:
    result = merged(raw)
    scores = {f"{FACES} {name}": f"faces64: {name}" for name in ("gradient", "gradient-4", "parts-4", "likelihood")}
    speeds = [raw[name] for name in ("speed_h200", "speed_cpu", "speed_cpu_faces64")]
    return {
        "auroc": table_by_set(result, METHODS, PAPER_CIFAR10),
        "differences": difference_table(result, PAIRS),
        "differences-by-share": difference_table_by_share(
            result, "gradient - completed-ipa, by hidden share", {of: (SHOWN_BY_SHARE, of) for of in result["means"]}
        ),
        **{name: table_by_hidden_share(result, method) for name, method in BY_BIN.items()},
        **completer_tables(raw["completers"]),
        "faces64": table_by_set(raw["faces64"], scores, PAPER_FFHQ),
        "completions": completion_table(raw["completions"]),
        "speed": speed_table(speeds),
    }


def completer_tables(result: Mapping[str, Any]) -> dict[str, str]:
    """Return the tables of the experiment with learned completers."""
    methods = {f"{IPA} gradient": METHODS[f"{IPA} gradient"]}
    methods |= {f"{IPA} completed-{name}": f"completed by {title}, gradient" for name, title in COMPLETERS.items()}
    paper = {name: values for name, values in PAPER_CIFAR10.items() if "IPA-R" not in name}
    by_share = {f"{other}, {of}": ((score, model, other), of) for (score, model, other), of in COMPLETED_BY_SHARE}
    return {
        "completers": table_by_set(result, methods, paper),
        "completers-differences": difference_table(result, list(COMPLETED.values())),
        "completers-by-share": difference_table_by_share(result, "gradient minus ..., by hidden share", by_share),
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


def difference_table(result: Mapping[str, Any], pairs: Sequence[Pair]) -> str:
    """Return a table of differences of means over hidden shares, with a row per set and a column per difference."""

    def cell(name: str, of: str) -> Mapping[str, float]:
        """Return the mean over hidden shares. It may be the only column that was kept."""
        cells: list[Mapping[str, float]] = result["differences"][name][of]
        return cells[0 if len(cells) == 1 else index(result, MEAN)]

    rows = [[of, *(difference(cell(pair(*one), of)) for one in pairs)] for of in [*result["means"], *result["sets"]]]
    heads = [f"{score} - {'' if model == IPA else 'IPA-R '}{other}" for score, model, other in pairs]
    return markdown(["", *heads], rows)


def difference_table_by_share(result: Mapping[str, Any], title: str, shown: Mapping[str, tuple[Pair, str]]) -> str:
    """Return a table of differences by hidden share. shown: {title of a row: (difference, set or mean over sets)}."""
    to = index(result, MEAN)
    found = {name: result["differences"][pair(*names)][of][:to] for name, (names, of) in shown.items()}
    rows = [[name, *map(difference, cells)] for name, cells in found.items()]
    return markdown([title, *result["columns"][:to]], rows)


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
