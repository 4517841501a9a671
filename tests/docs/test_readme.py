"""The README lists every command, and its numbers are those of the raw results."""

import json
import re
from typing import Any

import pytest
from helpers.fixtures import ROOT
from helpers.training import call

from condvae.weights import describe, embedded_names, locate
from recipes.baselines import TITLES
from recipes.baselines_speed import COMPLETIONS, SPEED_IMAGES
from recipes.evaluation_results import CIFAR10, IMAGENET64
from recipes.pages import short

README = (ROOT / "README.md").read_text()
RESULTS = ROOT / "docs" / "results"
LEARNED = ("ce", "anp", "pic", "rfr", "comodgan", "vqvae", "diffusion")
"""The methods that are compared with IPA."""


def raw(name: str) -> Any:
    return json.loads((RESULTS / f"{name}.json").read_text())


def answer(question: str) -> tuple[str, str]:
    """The numbers in a row of the table of results: ours, and what they are compared with."""
    (row,) = (line for line in README.splitlines() if line.startswith(f"| [{question}"))
    _, ours, others = (cell.strip() for cell in row.strip("|").split("|"))
    return ours, others


def test_every_command_has_a_row() -> None:
    verbs = re.search(r"\{([\w,]+)\}", call("--help"))
    assert verbs
    assert re.findall(r"^\| `(\w+)` \|", README, flags=re.MULTILINE) == verbs[1].split(",")


def test_completions_of_cifar10() -> None:
    methods = raw("evaluation/cifar10")["methods"]
    (ipa,), baselines = (
        [row for row in CIFAR10 if row.method == "IPA"],
        [row for row in CIFAR10 if "IPA" not in row.method],
    )
    for question, metric, digits in (("Does one of 100", "lpips_gt", 4), ("Do completions look real", "fid", 1)):
        ours, nearest = (
            short(methods[name]["metrics"][metric]["mixture"]["mean"], digits)
            for name in ("cifar10, t 1", "nearest training images")
        )
        best = min(getattr(row, metric) for row in baselines)
        theirs = [short(value, 4) if metric == "lpips_gt" else f"{value:.2f}" for value in (getattr(ipa, metric), best)]
        expected = f"the paper's IPA {theirs[0]}; its best baseline {theirs[1]}; nearest training images {nearest}"
        assert answer(question) == (ours, expected)


@pytest.mark.parametrize(
    ("question", "metric", "digits"), [("Do other methods match", "lpips_gt", 4), ("Do their completions", "fid", 1)]
)
def test_other_methods(question: str, metric: str, digits: int) -> None:
    result = raw("baselines/baselines")
    shown = {"ipa, t 1": "IPA", "nearest training images": "nearest training images"}
    shown |= {name: TITLES[name] for name in LEARNED}
    found = {shown[name]: result["methods"][name]["metrics"][metric]["mixture"]["mean"] for name in shown}
    ours = short(found.pop("IPA"), digits)
    others = (f"{name} {short(found[name], digits)}" for name in sorted(found, key=found.__getitem__))
    assert answer(question) == (ours, ", ".join(others))
    assert f"trained for {result['budget_minutes']:g} minutes each on one H200, VAE included" in README
    devices = {part["device"] for found in result["training"].values() for part in found["parts"].values()}
    assert devices == {"NVIDIA H200"}


def test_the_time_of_a_completion() -> None:
    speeds = raw("baselines/speed")
    found = {name: round(1000 * speeds["methods"][name]["milliseconds"]) for name in (*LEARNED, "cifar10")}
    ours = found.pop("cifar10")  # the network of IPA
    speed = {name: speeds["methods"][name]["milliseconds"] for name in found}
    others = ", ".join(f"{TITLES[name]} {found[name]}" for name in sorted(found, key=speed.__getitem__))
    assert answer("How long does a completion take?") == (f"{ours}", others)
    times = speed["diffusion"] / speeds["methods"]["cifar10"]["milliseconds"]
    assert f"but takes {times:.1f} times as long for each" in README and speeds["device"] == "NVIDIA H200"
    assert f"microseconds on one H200, {SPEED_IMAGES * COMPLETIONS:,} completions" in README


def test_calibration_of_cifar10() -> None:
    found = raw("evaluation/cifar10")["methods"]["cifar10, t 1"]["coverage"]["white"]["mixture"]
    at_80 = found["coverage"][found["levels"].index(0.8)]
    assert answer("Is the uncertainty right?") == (
        f"{100 * at_80:.0f} %",
        f"80 % if calibrated: the model is {found['verdict']}",
    )


@pytest.mark.parametrize(
    ("data", "question", "paper"),
    [
        ("faces64", "The same question for faces", ""),
        (
            "tiny64",
            "The same question for photos",
            "; on other images, ImageNet-64, the paper's IPA {}, its best baseline {}",
        ),
    ],
)
def test_other_data(data: str, question: str, paper: str) -> None:
    methods = raw(f"evaluation/{data}")["methods"]
    ours, nearest = (
        short(methods[name]["metrics"]["lpips_gt"]["mixture"]["mean"], 4)
        for name in (f"{data}, t 1", "nearest training images")
    )
    ipa = next(row.lpips_gt for row in IMAGENET64 if row.method == "IPA")
    best = min(row.lpips_gt for row in IMAGENET64 if not row.method.startswith("IPA"))
    theirs = paper.format(short(ipa, 3), short(best, 3))
    assert answer(question) == (ours, f"nearest training images {nearest}{theirs}")


def test_design() -> None:
    found = raw("design/xray_n40")
    ours, random, whole = (
        short(found["policies"][name]["auroc"]["the paper's tasks"][-1]["mean"], 3)
        for name in ("eig-ipa", "random", "full")
    )
    expected = f"random scans {random} (the difference is not significant); the whole image {whole}"
    assert answer("Do chosen scans find more?") == (ours, expected)
    difference = found["differences"]["random"]["auroc"]["the paper's tasks"][-1]
    assert difference["low"] < 0 < difference["high"]


def test_strange_inputs() -> None:
    page = (RESULTS / "ood.md").read_text()
    head, *_ = re.findall(r"^\|  \|(.*)\|$", page, flags=re.MULTILINE)
    column = [cell.strip() for cell in head.split("|")].index("the paper's sets")
    cells = {
        name: re.search(rf"^\| {re.escape(name)} \|(.*)\|$", page, flags=re.MULTILINE)[1].split("|")[column].strip()  # type: ignore[index]
        for name in ("IPA, parts-4", "the paper: IPA")
    }
    assert answer("Are strange inputs found?") == (cells["IPA, parts-4"], f"the paper's IPA {cells['the paper: IPA']}")


def test_pretraining() -> None:
    ends = {name: arm["points"][-1] for name, arm in raw("pretraining/results")["arms"].items()}
    ipa, scratch = (f"{ends[name]['fid']['mean']:.1f}" for name in ("ipa", "scratch"))
    longer = f"{scratch} after {ends['scratch']['minutes']:.1f} minutes of training all weights from scratch"
    assert answer("Does pretraining pay?") == (ipa, longer)
    assert f"FID after {ends['ipa']['minutes']:.1f} minutes of training the partial encoder" in README


def test_edges() -> None:
    arms = [raw(f"edges/{name}")["arms"] for name in ("shoes", "bags")]
    ends = {name: [one[name]["points"][-1] for one in arms] for name in ("transfer", "scratch")}
    transfer, scratch = (", ".join(f"{end['fid']['mean']:.1f}" for end in found) for found in ends.values())
    assert answer("Does a VAE of other images help?") == (transfer, f"{scratch} from scratch")
    assert {f"{end['minutes']:.1f}" for found in ends.values() for end in found} == {"1.0"}


def test_speed() -> None:
    page = (RESULTS / "performance.md").read_text()
    ours, others = answer("How fast is training?")
    assert f"**{ours} images/s**" in page and f"| {others.split()[0]} |" in page


def test_training_times_and_sizes() -> None:
    records = {name: describe(locate(name)).record for name in embedded_names()}
    minutes = {name: record["minutes"] + record["artifact"]["minutes"] for name, record in records.items()}
    low, high = re.search(r"each took (\d+) to (\d+) minutes to train", README).groups()  # type: ignore[union-attr]
    assert (round(min(minutes.values())), round(max(minutes.values()))) == (int(low), int(high))
    assert f"2.5 million weights and took {minutes['cifar10']:.1f} GPU-minutes, VAE included" in README
    assert round(raw("evaluation/cifar10")["models"]["cifar10"]["parameters"] / 1e6, 1) == 2.5
    (ipa,) = (row for row in CIFAR10 if row.method == "IPA")
    words = " ".join(README.split())
    million = 39 + int(ipa.weights)  # the paper's VAE and partial encoder
    assert f"model has {million} million weights and took {ipa.hours} GPU-hours, VAE not included" in words
