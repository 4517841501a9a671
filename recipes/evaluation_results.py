r"""Fill the tables of docs/results/evaluation.md from the raw numbers in docs/results/evaluation/*.json.

The text of the page is written by hand. The raw numbers come from these calls:

    condvae fetch metrics && condvae fetch cifar10
    condvae evaluate --model cifar10 --data cifar10 --temperature 1 0.85 --images 10000 --precision fast \
        --out out/cifar10
    condvae evaluate --model faces64 --data faces64-a.zip faces64-b.zip faces64-c.zip --temperature 1 0.85 \
        --images 2759 --deep-images 400 --precision fast --out out/faces64
    condvae evaluate --model tiny64 --data tiny64-a.zip tiny64-b.zip --temperature 1 0.85 --deep-images 200 \
        --precision fast --out out/tiny64            (tiny64 is the run folder of `condvae train`)
    condvae evaluate --model cifar10 --data cifar10 --temperature 1 0.85 --pixels mean sample --images 10000 \
        --metrics inception lpips coverage --baselines --precision fast --out out/pixels
    python recipes/training_curve.py --run cifar10/partial --data cifar10 --out out/curve --images 100
    python benchmarks/measuring.py --data cifar10 --out out/measuring.json
    python recipes/evaluation_results.py --cifar10 out/cifar10/results.json --faces64 out/faces64/results.json \
        --groups out/faces64-groups/results.json --tiny64 out/tiny64/results.json --pixels out/pixels/results.json \
        --curve out/curve/curve.json --measuring out/measuring.json --figures

The calls that made out/faces64-groups are in `recipes/faces_groups.py`.

To measure only the bounds again, on the same images and holes, and keep all other numbers:

    condvae evaluate --model cifar10 --data cifar10 --images 10000 --metrics bounds --out out/cifar10-bounds
    condvae evaluate --model faces64 --data faces64-a.zip faces64-b.zip faces64-c.zip --images 2759 --deep-images 400 \
        --metrics bounds --out out/faces64-bounds
    python recipes/evaluation_results.py --cifar10 out/cifar10-bounds/results.json \
        --faces64 out/faces64-bounds/results.json

Without options, the tables are filled from the JSON files that are already in the folder.
"""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from condvae.experiments.evaluation import redraw
from condvae.runtime.scripts import run_script

sys.path.insert(0, str(Path(__file__).parents[1]))
from recipes.group_results import by_group
from recipes.pages import DIGITS, Page, draw, markdown, read, rounded, short

PAGE = Path(__file__).parents[1] / "docs" / "results" / "evaluation.md"
BINS = ("0-0.2", "0.2-0.4", "0.4-0.6", "0.6-0.8", "0.8-1")
MIXTURE = "mixture"


class Published(NamedTuple):
    """A row of the paper's table tab:results-completion, with its GPU-hours from the table tab:exp-details."""

    method: str
    fid: float
    p_ids: float
    lpips_gt: float
    hours: int
    weights: str
    """Number of trained weights, in millions."""


CIFAR10 = (
    Published("ANP", 30.03, 5.86, 0.0447, 33, "11.5"),
    Published("CE", 21.92, 4.77, 0.0628, 14, "34"),
    Published("RFR", 44.35, 2.76, 0.0883, 450, "31"),
    Published("PIC", 14.73, 5.95, 0.0332, 430, "9"),
    Published("CoModGAN", 9.65, 11.59, 0.0326, 268, "82"),
    Published("IPA-R", 19.21, 8.56, 0.0330, 83, "18"),
    Published("IPA", 10.50, 13.24, 0.0262, 115, "18"),
    Published("IPA, t = 0.85", 8.61, 14.19, 0.0263, 115, "18"),
)
IMAGENET64 = (
    Published("PIC", 40.0, 0.24, 0.170, 430, "9"),
    Published("CoModGAN", 20.2, 7.09, 0.160, 552, "99"),
    Published("IPA-R", 28.8, 6.46, 0.166, 121, "58"),
    Published("IPA", 18.9, 9.20, 0.138, 120, "58"),
    Published("IPA, t = 0.85", 15.1, 11.26, 0.133, 120, "58"),
)
PAPER = {"cifar10": CIFAR10, "tiny64": IMAGENET64}
"""What the paper published, for our data sets that can be put beside its own."""
DATA = ("cifar10", "faces64", "tiny64")
"""The data sets that models are measured on, by the names of their files of raw numbers."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """Store new numbers, if some are given, and fill the tables of the page."""

    cifar10: Path | None = None
    """results.json of `condvae evaluate` for the model cifar10."""
    faces64: Path | None = None
    """results.json of `condvae evaluate` for the model faces64."""
    tiny64: Path | None = None
    """results.json of `condvae evaluate` for a model of Tiny-ImageNet."""
    groups: Path | None = None
    """results.json of `condvae evaluate --image-groups` for the model faces64."""
    pixels: Path | None = None
    """results.json of `condvae evaluate --pixels mean sample` for the model cifar10."""
    curve: Path | None = None
    """curve.json of recipes/training_curve.py."""
    measuring: Path | None = None
    """JSON file of benchmarks/measuring.py."""
    page: Path = PAGE
    """The page whose tables are filled."""
    figures: bool = False
    """Also draw the figures again, which needs matplotlib."""


def main(options: Options) -> None:
    page = page_at(options.page)
    new = read({name: getattr(options, name) for name in (*DATA, "groups", "pixels", "curve", "measuring")})
    for name in DATA:
        if name in new and new[name]["settings"]["metrics"] == ["bounds"]:
            new[name] = with_bounds(page.raw()[name], new[name])
    if "groups" in new:
        new["groups"] = in_the_mixture(new["groups"])
    page.update(new)
    if options.figures:
        for name in DATA:
            draw(page.folder / f"{name}.json", redraw, page.folder, prefix=f"{name}_")


def page_at(path: Path = PAGE) -> Page:
    return Page(path=path, tables=all_tables)


def with_bounds(published: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """Replace the bounds in the published numbers by new ones. Raise a ValueError if models or images differ."""
    for key in ("images", "deep_images", "bits_images", "seed"):
        if (found := new["settings"][key]) != (expected := published["settings"][key]):
            raise ValueError(
                f"the new bounds were measured with {key} {found}, the published ones with {expected}: use {expected}"
            )
    for name, model in published["models"].items():
        if new["models"].get(name, {}).get("record") != model["record"]:
            raise ValueError(
                f"the new bounds are not of the published model {name}: measure that model, or all metrics"
            )
    models = {
        name: {
            **model,
            **{key: new["models"][name][key] for key in ("metrics", "seconds")},
            "bounds_measured": {key: new[key] for key in ("versions", "device")},
        }
        for name, model in published["models"].items()
    }
    return {**published, "models": models}


def in_the_mixture(result: Mapping[str, Any]) -> Any:
    """Keep of each group only the numbers in the mixture of bins, rounded, so that the file is small."""

    def mixture(by_column: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
        return {name: {MIXTURE: columns[MIXTURE]} for name, columns in by_column.items()}

    methods = {
        name: {
            **found,
            "groups": {group: {kind: mixture(part[kind]) for kind in part} for group, part in found["groups"].items()},
        }
        for name, found in result["methods"].items()
    }
    return rounded({**result, "methods": methods}, DIGITS)


def all_tables(raw: Mapping[str, Any]) -> dict[str, str]:
    tables = {f"{data}-paper": compared_with_paper(raw[data], rows) for data, rows in PAPER.items()}
    tables["tiny64-gain"] = of_gain(raw["tiny64"]["methods"])
    tables["curve"] = of_curve(raw["curve"])
    tables["pixels"] = of_pixel_choice(raw["pixels"]["methods"])
    tables["speed"] = of_speed(raw["measuring"])
    tables["faces64-groups"] = by_group(raw["groups"])
    for data in DATA:
        methods, (model,) = raw[data]["methods"], raw[data]["models"].values()
        for metric, digits in (("fid", 1), ("p_ids", 1), ("lpips_gt", 4), ("lpips_diversity", 4)):
            tables[f"{data}-{metric}"] = by_bin(methods, metric, digits, best=max if metric == "p_ids" else min)
        tables[f"{data}-coverage"] = of_coverage(methods)
        tables[f"{data}-pixels"] = of_mixture(methods)
        tables[f"{data}-bounds"] = of_bounds(model)
    return tables


def compared_with_paper(result: Mapping[str, Any], paper: Sequence[Published]) -> str:
    """Return a table of our numbers, in the mixture of bins, and of the paper's."""
    rows = []
    minutes = sum(next(iter(result["models"].values()))["training_minutes"].values())
    for name, found in result["methods"].items():
        cells = [found["metrics"][metric][MIXTURE] for metric in ("fid", "p_ids", "lpips_gt")]
        spent = f"{minutes:.1f} GPU-minutes, with the VAE" if "temperature" in found else "none"
        rows.append([name, estimate(cells[0], 1), percent(cells[1]), estimate(cells[2], 4), spent])
    for row in paper:
        spent = f"{row.hours} GPU-hours" + (", without the VAE" if row.method.startswith("IPA") else "")
        rows.append([f"*paper: {row.method}*", f"{row.fid:.2f}", f"{row.p_ids:.2f}", short(row.lpips_gt, 4), spent])
    return markdown(["", "FID", "P-IDS, %", "LPIPS-GT", "training"], rows)


def by_bin(methods: Mapping[str, Any], metric: str, digits: int, *, best: Any) -> str:
    """Return a table of one metric by bin. A unique best value of a column is bold, but diversity has no best value."""
    columns = (*BINS, MIXTURE)
    scale = 100 if metric == "p_ids" else 1
    rows = []
    for name, found in methods.items():
        cells = [name]
        for column in columns:
            shown = [short(scale * other["metrics"][metric][column]["mean"], digits) for other in methods.values()]
            text = short(scale * found["metrics"][metric][column]["mean"], digits)
            alone = shown.count(text) == 1 and metric != "lpips_diversity"
            cells.append(f"**{text}**" if alone and float(text) == best(map(float, shown)) else text)
        rows.append(cells)
    errors = [
        max(found["metrics"][metric][column]["standard_error"] for found in methods.values()) for column in columns
    ]
    rows.append(["*largest standard error*", *(short(scale * error, digits + (scale == 1)) for error in errors)])
    return markdown(["hidden share", *columns], rows)


def of_gain(methods: Mapping[str, Any]) -> str:
    """Return a table of how far LPIPS-GT of the model is below that of the best baseline, in each bin."""
    columns = (*BINS, MIXTURE)

    def distance(name: str, column: str) -> float:
        return float(methods[name]["metrics"]["lpips_gt"][column]["mean"])

    models = [name for name, found in methods.items() if "temperature" in found]
    best = {column: min((distance(name, column), name) for name in methods.keys() - models) for column in columns}
    rows = [["best baseline", *(f"{name}, {short(value, 4)}" for value, name in best.values())]]
    for name in models:
        gains = [100 * (1 - distance(name, column) / best[column][0]) for column in columns]
        rows.append([f"{name}: below it by", *(f"{gain:.1f} %" for gain in gains)])
    return markdown(["hidden share", *columns], rows)


def of_coverage(methods: Mapping[str, Any]) -> str:
    """Return a table of the calibration errors, and of the leaning with its verdict, in the mixture of bins."""
    rows = []
    for name, found in methods.items():
        cells = [name]
        for kind in ("white", "smooth", "reference"):
            cells.append(short(found["coverage"][kind][MIXTURE]["error"], 3))
        for kind in ("white", "smooth"):
            cell = found["coverage"][kind][MIXTURE]
            cells.append(f"{estimate(cell['leaning'], 2)}, {cell['verdict']}")
        rows.append(cells)
    head = ["", "error, white projections", "error, smooth projections", "error, LPIPS to reference images"]
    return markdown([*head, "leaning and verdict, white", "leaning and verdict, smooth"], rows)


def of_pixel_choice(methods: Mapping[str, Any]) -> str:
    """Return a table that compares completions with mean pixels and completions with sampled pixels."""
    rows = []
    for name, found in methods.items():
        metrics = {metric: columns[MIXTURE] for metric, columns in found["metrics"].items()}
        leaning = [estimate(found["coverage"][kind][MIXTURE]["leaning"], 2) for kind in ("white", "smooth")]
        kid = short(1000 * metrics["kid"]["mean"], 1)
        rows.append(
            [
                name,
                estimate(metrics["fid"], 1),
                kid,
                percent(metrics["p_ids"]),
                estimate(metrics["lpips_gt"], 4),
                *leaning,
            ]
        )
    head = ["", "FID", "KID x 1000", "P-IDS, %", "LPIPS-GT", "leaning, white", "leaning, smooth"]
    return markdown(head, rows)


def of_mixture(methods: Mapping[str, Any]) -> str:
    """Return a table of the remaining metrics, in the mixture of bins."""
    shown = (
        ("KID x 1000", "kid", 1, 1000),
        ("U-IDS, %", "u_ids", 1, 100),
        ("FWV, sigma .1", "fwv@0.1", 3, 1),
        ("FWV, sigma .2", "fwv@0.2", 2, 1),
        ("FWV, sigma .5", "fwv@0.5", 2, 1),
        ("best MSE x 1000", "best_mse", 1, 1000),
        ("PSNR of the mean, dB", "psnr_of_mean", 1, 1),
        ("SSIM of the mean", "ssim_of_mean", 3, 1),
        ("LPIPS-GT, K = 10", "lpips_gt@10", 4, 1),
        ("LPIPS-GT, K = 1", "lpips_gt@1", 4, 1),
    )
    rows = []
    for name, found in methods.items():
        cells = [short(scale * found["metrics"][metric][MIXTURE]["mean"], digits) for _, metric, digits, scale in shown]
        rows.append([name, *cells])
    return markdown(["", *(title for title, *_ in shown)], rows)


def of_bounds(model: Mapping[str, Any]) -> str:
    found = model["metrics"]
    shown = {
        "forward_kl_nats_per_dim": ("forward KL, nats per dimension", 4),
        "hidden_bits_per_dim": ("bits per hidden dimension of 8-bit images, -ELBO", 3),
        "hidden_bits_per_dim@16": ("bits per hidden dimension of 8-bit images, 16 importance samples", 3),
        "hidden_nats@16": ("nats per image of the hidden pixels, 16 importance samples", 0),
        "whole_bits_per_dim@16": ("bits per dimension of the whole image given y, 16 importance samples", 3),
    }
    rows = [
        [title, *(short(found[name][column]["mean"], digits) for column in (*BINS, MIXTURE))]
        for name, (title, digits) in shown.items()
        if name in found
    ]
    return markdown(["hidden share", *BINS, MIXTURE], rows)


def of_curve(curve: Mapping[str, Any]) -> str:
    points = curve["points"]
    minutes = [
        "training minutes of the partial encoder",
        *(f"{point['minutes']:.2f}" for point in points[:-1]),
        "finished",
    ]
    distances = ["LPIPS-GT", *(short(point["lpips_gt"], 4) for point in points)]
    return markdown(minutes, [distances])


def of_speed(measured: Mapping[str, Any]) -> str:
    gt, inception = measured["lpips_gt"], measured["inception"]
    first = f"{gt['one_bin_s']:.2f} s (first call {gt['first_call_s']:.1f} s)"
    plain = "; ".join(
        f"{times:,.0f} (reference, {name.replace('_', ' ')}: {gt['reference_one_bin_s'][name]:,.0f} s)"
        for name, times in gt["times_the_reference"].items()
    )
    fast, exact = (f"{inception[f'{precision}_per_s']:,} images/s" for precision in ("fast", "exact"))
    rows = [
        [f"LPIPS-GT of {gt['images']} images, K = {gt['k']}, with drawing, one bin", first, "under 60 s", plain],
        ["the same, all five bins", f"{gt['five_bins_s']:.1f} s", "", ""],
        ["Inception features, precision fast", fast, "1,500 images/s", f"{inception['times_the_exact']:.1f}"],
        ["Inception features, precision exact", exact, "", "1"],
    ]
    return markdown([measured["device"], "measured", "target", "speed-up over the reference"], rows)


def estimate(cell: Mapping[str, float], digits: int) -> str:
    return f"{short(cell['mean'], digits)} ± {short(cell['standard_error'], digits)}"


def percent(cell: Mapping[str, float]) -> str:
    return f"{100 * cell['mean']:.1f} ± {100 * cell['standard_error']:.1f}"


if __name__ == "__main__":
    run_script(main, Options, __doc__)
