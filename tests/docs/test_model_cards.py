"""Every embedded model has a card in the package and a page with the same sentences; its numbers are the raw ones."""

import fnmatch
import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
from helpers.fixtures import ROOT

from condvae import weights
from condvae.weights.model_cards import ModelCard, card_at
from recipes.pages import DIGITS, rounded

NAMES = weights.embedded_names()
SECTIONS = [
    "## What it is",
    "## Data",
    "## Training",
    "## How good it is",
    "## What it cannot do",
    "## Intended use, and not for",
]


def card_of(name: str) -> ModelCard:
    card = card_at(weights.locate(name))
    assert card is not None, f"{name} has no card"
    return card


def page_of(name: str) -> str:
    """The page in one line."""
    return " ".join((ROOT / "docs" / "models" / f"{name}.md").read_text().split())


def raw(path: str) -> Any:
    return json.loads((ROOT / "docs" / "results" / path).read_text())


def short(value: float, digits: int) -> str:
    return f"{value:.{digits}f}".removeprefix("0")


@pytest.mark.parametrize("name", NAMES)
def test_the_page_has_every_sentence_of_the_card(name: str) -> None:
    card, page = card_of(name), page_of(name)
    assert card.page == f"docs/models/{name}.md"
    for text in (card.summary, card.data, card.limits, card.use):
        assert text == " ".join(text.split()) and text.endswith(".")
        assert text in page
    assert card.summary.startswith(name) and card.summary.count(". ") == 0  # one sentence
    places = [page.index(section) for section in SECTIONS]
    assert places == sorted(places)


def test_there_is_no_page_without_a_model() -> None:
    assert sorted(path.stem for path in (ROOT / "docs" / "models").iterdir()) == NAMES


def test_the_wheel_includes_the_cards() -> None:
    wheel = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert wheel == {"packages": ["src/condvae"]}  # nothing is excluded
    ignored = (ROOT / ".gitignore").read_text().split()  # which hatchling leaves out
    for name in NAMES:
        card = weights.locate(name).with_name(f"{name}.card.json").relative_to(ROOT)
        assert card.is_relative_to("src/condvae")
        assert not any(fnmatch.fnmatch(part, pattern.strip("/")) for part in card.parts for pattern in ignored)


@pytest.mark.parametrize("name", NAMES)
def test_sizes_and_minutes_are_those_of_the_model_file(name: str) -> None:
    page, file = page_of(name), weights.locate(name)
    header = weights.describe(file)
    record = header.record
    assert f"{file.stat().st_size / 2**20:.1f} MiB" in page
    partial, vae = record["minutes"], record["artifact"]["minutes"]
    assert f"The VAE was trained for {vae:.1f} minutes and the partial encoder for {partial:.1f} minutes" in page
    images = {split: count for count, split in zip(*_counts(record["data"]), strict=True)}
    card = card_of(name)
    assert f"| training | {images['training']} |" in page and f"trained on {images['training']} " in card.data
    assert f"| held out | {images['validation']} |" in page and f"{images['validation']} more" in card.data
    assert f"| test | {images['test']} |" in page and images["test"] in card.data
    size = f"{header.config.image_size} x {header.config.image_size} pixels"
    assert size in card.summary
    model = weights.load_conditional(file)
    total = header.parameters
    own = sum(parameter.numel() for parameter in model.artifact.parameters())
    assert (
        f"VD-VAE of {own / 1e6:.1f} million weights and a partial encoder of {(total - own) / 1e6:.1f} million" in page
    )
    assert f"python recipes/embedded.py {name} " in page


def _counts(data: str) -> tuple[list[str], list[str]]:
    """The numbers and the splits in "pack: 3,270 training, 300 validation and 1,005 test images of ..."."""
    words = data.partition(": ")[2].partition(" images")[0].replace(" and ", ", ").split(", ")
    return [word.split()[0] for word in words], [word.split()[1] for word in words]


@pytest.mark.parametrize("name", ["faces64", "cifar10"])
def test_metrics_are_those_of_the_evaluation(name: str) -> None:
    page, methods = page_of(name), raw(f"evaluation/{name}.json")["methods"]
    found = [methods[method] for method in (f"{name}, t 1", "nearest training images")]

    def row(metric: str, digits: int, *, times: int = 1, unit: str = "") -> str:
        values = [times * one["metrics"][metric]["mixture"]["mean"] for one in found]
        return " | ".join(short(value, digits) + unit for value in values)

    settings = raw(f"evaluation/{name}.json")["settings"]
    assert f"LPIPS-GT (AlexNet, {settings['k']} completions, lower is better) | {row('lpips_gt', 4)} |" in page
    assert f"FID ({settings['images']:,} images, lower is better) | {row('fid', 1)} |" in page
    if name == "cifar10":
        assert f"P-IDS (higher is better) | {row('p_ids', 1, times=100, unit=' %')} |" in page
    inside = []
    for one in found:
        coverage = one["coverage"]["white"]["mixture"]
        inside.append(f"{100 * coverage['coverage'][coverage['levels'].index(0.8)]:.0f} %")
    assert (
        f"| originals inside a central 80 % interval of the completions (white projections) | {' | '.join(inside)} |"
        in page
    )
    assert (
        found[0]["coverage"]["white"]["mixture"]["verdict"] == "overconfident" and "The model is overconfident" in page
    )


def test_the_numbers_of_shoes64_are_those_of_its_measurement() -> None:
    page, result = page_of("shoes64"), raw("edges/shoes64.json")
    assert result["record"] == rounded(weights.describe("shoes64").record, DIGITS)
    shoes, bags = result["sets"].values()
    assert list(result["sets"]) == ["shoes64.zip", "bags64.zip"]

    def row(metric: str, digits: int) -> str:
        return " | ".join(short(one["metrics"][metric], digits) for one in (shoes, bags))

    assert f"LPIPS-GT (AlexNet, {result['n']} answers, lower is better) | {row('lpips_gt', 4)} |" in page
    assert f"| LPIPS diversity (AlexNet) | {row('diversity', 4)} |" in page
    assert f"FID ({shoes['images']} and {bags['images']} images, lower is better) | {row('fid', 1)} |" in page
    assert f"| KID x 1,000 (lower is better) | {row('kid', 1)} |" in page


def test_the_numbers_of_xray_are_those_of_the_experiment_and_of_its_record() -> None:
    page, result = page_of("xray"), raw("design/xray.json")
    rows = {
        "expected information gain with completions of xray (eig-ipa)": "eig-ipa",
        "random locations": "random",
        "nothing: the whole image is known": "full",
    }
    assert result["columns"][-1] == "2-5"
    for label, policy in rows.items():
        value = result["policies"][policy]["auroc"]["the paper's tasks"][-1]
        interval = f"[{short(value['low'], 3)}, {short(value['high'], 3)}]"
        assert f"| {label} | {short(value['mean'], 3)} {interval} |" in page
    difference = result["differences"]["random"]["auroc"]["the paper's tasks"][-1]
    assert difference["low"] < 0 < difference["high"]
    assert f"{result['images']:,} images of {result['patients']} other patients" in page
    record = weights.describe("xray").record
    assert f"On {record['evaluated_on']} held-out images" in page
    assert f"the VAE has {short(record['artifact']['bits_per_dim'], 3)} bits" in page
    assert f"the partial encoder {short(record['bits_per_dim'], 3)} for" in page


def test_a_card_is_data_that_can_be_read(tmp_path: Path) -> None:
    assert card_at(tmp_path / "mine.safetensors") is None
    (tmp_path / "mine.card.json").write_text(json.dumps(card_of("xray")._asdict()))
    assert card_at(tmp_path / "mine.safetensors") == card_of("xray")
