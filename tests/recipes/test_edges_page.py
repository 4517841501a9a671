"""The sentences of docs/results/edges.md state the numbers beside them."""

import re
from typing import Any

import pytest

from condvae.experiments.pretraining.summary import settings_of as as_json
from recipes import edges_results
from recipes.edges import Options
from recipes.edges_statements import statements
from recipes.pages import short
from recipes.pretraining_work import settings_of
from recipes.statements import REPRODUCED, UNDECIDED, Statement

PAGE = edges_results.page_at()
WORDS = re.sub(r"\s+", " ", PAGE.path.read_text())


@pytest.fixture(scope="module")
def results() -> dict[str, Any]:
    return {name: PAGE.raw()[name] for name in edges_results.SETS}


def of(result: dict[str, Any], arm: str, metric: str, point: int = -1) -> float:
    return float(result["arms"][arm]["points"][point][metric]["mean"])


def decided(result: dict[str, Any], part: str) -> list[Statement]:
    found = [one for one in statements(result) if part in one.text]
    assert found
    return found


def test_the_recipe_measures_again_what_the_page_shows(results: dict[str, Any]) -> None:
    for name, result in results.items():
        settings = settings_of(Options(out=PAGE.folder)).for_test_set(result["images"]["test"])
        assert as_json(settings) == result["settings"], name
        assert [round(arm["points"][-1]["minutes"], 2) for arm in result["arms"].values()] == [1.0] * 3
        assert [round(60 * arm["points"][0]["minutes"]) for arm in result["arms"].values()] == [5] * 3


def test_transfer_against_scratch(results: dict[str, Any]) -> None:
    ends = [short(of(results[name], arm, "fid"), 1) for name in ("shoes", "bags") for arm in ("transfer", "scratch")]
    assert "After 1.00 minutes, FID is {} instead of {} for shoes, and {} instead of {} for bags".format(*ends) in WORDS
    for result in results.values():
        same = decided(result, "for the same time")
        assert [one.verdict for one in same] == [REPRODUCED] * 2  # ELBO and FID
        assert of(result, "transfer", "bits_per_dim", 0) < of(result, "scratch", "bits_per_dim")
        (equal,) = decided(result, "at equal ELBO")
        worst = max(point["bits_per_dim"]["mean"] for point in result["arms"]["transfer"]["points"])
        best = min(point["bits_per_dim"]["mean"] for point in result["arms"]["scratch"]["points"])
        assert equal.verdict == UNDECIDED and worst < best


def test_the_better_artifact(results: dict[str, Any]) -> None:
    verdicts = {
        name: [
            one.verdict
            for metric in ("ELBO", "FID")
            for one in decided(result, f"IPA have a better {metric} than transfer")
        ]
        for name, result in results.items()
    }
    assert verdicts == {"shoes": ["no", "yes"], "bags": ["no", "no"]}
    for arm, minutes in (("transfer", 12), ("ipa", 5)):
        assert {round(result["arms"][arm]["pretraining_minutes"]) for result in results.values()} == {minutes}
    steps = [results["bags"]["arms"][arm]["pretraining"]["steps"] for arm in ("transfer", "ipa")]
    words = "had {:,} steps of training on 29,000 images, and that of shoes and bags {:,} steps on 10,420"
    assert words.format(*steps) in WORDS


def test_few_images(results: dict[str, Any]) -> None:
    bags = results["bags"]
    points = bags["arms"]["transfer"]["points"]
    by_distance = sorted(points, key=lambda point: float(point["lpips_gt"]["mean"]))
    best = " to ".join(sorted(short(point["minutes"], 2) for point in by_distance[:2]))
    assert f"With {bags['images']['training']:,} bags, LPIPS-GT of transfer is best from {best} minutes" in WORDS
    middle = points[2]
    fall = 1 - of(bags, "transfer", "diversity") / middle["diversity"]["mean"]
    assert f"diversity falls by {100 * fall:.0f} % from {short(middle['minutes'], 2)} minutes to the end" in WORDS
    worse = of(bags, "transfer", "lpips_gt") / middle["lpips_gt"]["mean"] - 1
    assert f"and {100 * worse:.0f} % worse at the end" in WORDS
    assert of(bags, "transfer", "fid") < middle["fid"]["mean"]
    ipa, scratch = (bags["arms"][arm]["points"][-1]["lpips_gt"]["values"] for arm in ("ipa", "scratch"))
    assert min(ipa) > max(scratch)


def test_numbers_of_images(results: dict[str, Any]) -> None:
    shoes, bags = (f"{results[name]['images']['training']:,}" for name in edges_results.SETS)
    assert f"{shoes} shoes and {bags} bags to train on" in WORDS
