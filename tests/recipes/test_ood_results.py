"""The page on strange images says what was measured: test_pages holds its tables to the raw numbers, this its words."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from condvae import weights
from condvae.experiments.ood.plan import MEAN
from condvae.experiments.ood.summary import ALL, PAPERS
from condvae.vdvae.presets import preset
from recipes import ood_results
from recipes.design_results import decided
from recipes.ood_results import (
    LATE,
    METHODS,
    PAIRS,
    PAPER_CIFAR10,
    by_set,
    check_alike,
    of_ipa,
    of_ipa_r,
    pair,
    together,
)
from recipes.pages import short

PAGE = ood_results.page_at()
WORDS = re.sub(r"\s+", " ", PAGE.path.read_text())


@pytest.fixture
def raw() -> dict[str, Any]:
    return PAGE.raw()


@pytest.fixture
def cifar10(raw: dict[str, Any]) -> dict[str, Any]:
    return together(raw)


def at(result: dict[str, Any], method: str, of: str, column: str = MEAN) -> dict[str, float]:
    found: dict[str, float] = result["methods"][method]["auroc"][of][result["columns"].index(column)]
    return found


def mean(result: dict[str, Any], method: str, of: str, column: str = MEAN) -> float:
    return at(result, method, of, column)["mean"]


def ahead(result: dict[str, Any], names: tuple[str, str, str], of: str) -> dict[str, float]:
    cells: list[dict[str, float]] = result["differences"][pair(*names)][of]
    return cells[0 if len(cells) == 1 else result["columns"].index(MEAN)]


def test_what_was_wanted_is_told_as_measured(cifar10: dict[str, Any]) -> None:
    noise, *constant = (
        short(mean(cifar10, f"cifar10 {score}", of), 3)
        for score, of in (("gradient", "noise"), *((s, "constant") for s in ("gradient", "parts-4", "channels")))
    )
    assert mean(cifar10, "cifar10 gradient", "noise") >= 0.95 > 0.90 > mean(cifar10, "cifar10 gradient", "constant")
    short_of = short(0.9 - mean(cifar10, "cifar10 gradient", "constant"), 3)
    for words in (
        f"was to reach .95: {noise} with the paper's score",
        f"The paper's score has {constant[0]}, {short_of} short; the default `parts-4` has {constant[1]}, `channels` "
        f"(a temperature for each channel) {constant[2]}",
    ):
        assert words in WORDS


def test_differences_in_the_words_are_those_measured(cifar10: dict[str, Any]) -> None:
    def by(names: tuple[str, str, str], of: str, sign: int = 1) -> str:
        return short(sign * ahead(cifar10, names, of)["mean"], 3)

    likelihood, ipa, nearest, ipa_r, _, gradient, walks, complexity = PAIRS
    for words in (
        f"beats the likelihood** by {by(likelihood, ALL)} on all sets",
        f"better on noise (by {by(likelihood, 'noise', -1)}) and on Tiny ImageNet (by {by(likelihood, 'tiny', -1)})",
        f"by {by(ipa, ALL)} and {by(nearest, ALL)} on all sets and {by(ipa, PAPERS)} and {by(nearest, PAPERS)} on the "
        "paper's",
        f"Of the {by(gradient, 'constant')} between gradient and `parts-4`, {by(walks, 'constant')} are due to the "
        "parts",
        f"differ by {by(ipa_r, 'flip')} and {by(ipa_r, 'rotate')}, within the intervals",
        f"ahead by {by(ipa_r, 'tiny', -1)} on Tiny ImageNet and {by(ipa_r, 'faces', -1)} on faces",
        f"ahead on the means by {by(complexity, ALL)} and {by(complexity, PAPERS)}, and behind on constant, crop, "
        "translate and mnist",
    ):
        assert words in WORDS
    for names in (likelihood, ipa, nearest, ipa_r):
        assert all(ahead(cifar10, names, of)["low"] > 0 for of in (ALL, PAPERS))
    assert not any(decided(ahead(cifar10, ipa_r, of)) for of in ("flip", "rotate"))
    behind = [of for of in cifar10["sets"] if decided(found := ahead(cifar10, complexity, of)) and found["mean"] < 0]
    assert behind == ["constant", "crop", "translate", "mnist"]


def test_ipa_r_is_behind_where_it_is_said_to_be(cifar10: dict[str, Any]) -> None:
    lead = {of: ahead(cifar10, ("gradient", "ipa-r", "gradient"), of) for of in cifar10["sets"]}
    assert [of for of, cell in lead.items() if cell["high"] < 0] == ["tiny", "faces"]
    assert [of for of, cell in lead.items() if not decided(cell)] == ["flip", "rotate"]
    lost = [
        mean(cifar10, "cifar10 gradient", ALL, s) - mean(cifar10, "ipa-r gradient", ALL, s) for s in hidden(cifar10)
    ]
    assert max(lost) == lost[-1]
    for name, (ipa, ipa_r) in {"flip": (0.552, 0.635), "rotate": (0.594, 0.619)}.items():
        of = ("noise", "constant", "flip", "rotate").index(name)
        assert (PAPER_CIFAR10["the paper: IPA"][of], PAPER_CIFAR10["the paper: IPA-R"][of]) == (ipa, ipa_r)
    assert "beats IPA there by .083 and .025" in WORDS


def hidden(result: dict[str, Any]) -> list[str]:
    columns: list[str] = result["columns"]
    return columns[: columns.index(MEAN)]


def test_completing_first_is_better_only_where_little_is_hidden(cifar10: dict[str, Any]) -> None:
    for of in (ALL, PAPERS):
        cells = cifar10["differences"][pair(*LATE)][of][:5]
        assert cells[0]["high"] < 0 and all(cell["low"] > 0 for cell in cells[2:])


def test_complexity_and_strange_photos_are_as_told(cifar10: dict[str, Any]) -> None:
    ours, other = "cifar10 gradient", "cifar10 complexity"
    levels = {of: [short(mean(cifar10, method, of), 3) for method in (other, ours)] for of in (ALL, PAPERS)}
    assert (
        f"on all sets ({levels[ALL][0]} to {levels[ALL][1]}) and ahead on the paper's ({levels[PAPERS][0]} to " in WORDS
    )
    assert not decided(ahead(cifar10, ("gradient", "cifar10", "complexity"), ALL))
    better = [of for of in cifar10["sets"] if mean(cifar10, other, of) > mean(cifar10, ours, of)]
    assert "better on constant, crop, translate, mnist and fashion" in WORDS
    assert better == ["constant", "crop", "translate", "mnist", "fashion"]
    tiny, faces = (short(mean(cifar10, other, of), 3) for of in ("tiny", "faces"))
    assert f"Tiny ImageNet ({tiny}) and faces ({faces}) for more ordinary than CIFAR-10" in WORDS
    assert max(mean(cifar10, method, "faces") for method in METHODS) < 0.58
    likely = [of for of in cifar10["sets"] if mean(cifar10, "cifar10 likelihood", of) < 0.5]
    assert likely == ["constant", "crop", "translate", "mnist", "fashion"]
    near = [
        mean(cifar10, f"cifar10 {score}", of)
        for score in ("gradient", "gradient-4", "parts-4", "channels")
        for of in ("flip", "rotate", "translate", "crop")
    ]
    assert (short(min(near), 2), short(max(near), 2)) == (".51", ".58") and ".51 to .58 with all of ours" in WORDS


def test_intervals_reach_no_further_than_told(cifar10: dict[str, Any], raw: dict[str, Any]) -> None:
    def reach(result: dict[str, Any], methods: list[str]) -> float:
        cells = [at(result, method, of) for method in methods for of in [*result["sets"], *result["means"]]]
        return max(max(cell["high"] - cell["mean"], cell["mean"] - cell["low"]) for cell in cells)

    regret = "cifar10 regret-5"
    assert reach(cifar10, [method for method in METHODS if method != regret]) <= 0.010
    assert reach(cifar10, [regret]) <= 0.030 and cifar10["methods"][regret]["images"] == 500
    assert f"reach up to {short(reach(raw['faces64'], list(raw['faces64']['methods'])), 3)} to either side" in WORDS


def test_faces_are_as_told(raw: dict[str, Any]) -> None:
    result = raw["faces64"]
    flip, rotate = (short(mean(result, "faces64 gradient", of), 2) for of in ("flip", "rotate"))
    assert f"flip and rotate are at {flip} and {rotate} with the paper's score" in WORDS
    lost = [short(told - mean(result, "faces64 gradient", of), 2) for of, told in (("noise", 1), ("constant", 1))]
    crop = short(0.912 - mean(result, "faces64 gradient", "crop"), 2)
    assert f"{lost[0]} and {lost[1]} below its 1.00" in WORDS and f"crop is {crop} below" in WORDS
    (cell,) = result["differences"]["faces64 gradient - faces64 likelihood"][ALL]
    assert f"beats the likelihood by {short(cell['mean'], 3)} on all sets" in WORDS
    assert result["images"] == 250 and result["settings"]["fit_images"] == 3000


def test_completions_are_as_told(raw: dict[str, Any]) -> None:
    found = {name: one["metrics"] for name, one in raw["completions"]["methods"].items()}

    def ratio(metric: str) -> float:
        values = [found[name][metric]["mixture"]["mean"] for name in ("ipa-r", "cifar10")]
        return float(values[0] / values[1])

    assert f"less diverse (by {100 * (1 - ratio('lpips_diversity')):.0f} %)" in WORDS
    assert f"LPIPS-GT is worse, by {100 * (ratio('lpips_gt') - 1):.0f} %" in WORDS
    assert abs(ratio("lpips_gt@1") - 1) < 0.01
    record = raw["completions"]["models"]["ipa-r"]["record"]
    assert f"{record['minutes']:.1f} minutes, {record['steps']:,} updates" in WORDS
    forms = [raw["completions"]["models"][name]["record"]["form"] for name in ("ipa-r", "cifar10")]
    assert f"Its form is `{forms[0]}`, that of `cifar10` `{forms[1]}`" in WORDS


def test_sizes_and_speeds_are_those_of_the_model_and_the_record(raw: dict[str, Any]) -> None:
    model = weights.load_conditional("cifar10")
    groups = [len(config.group_stages) for config in (model.artifact.config, preset("cifar10"))]
    millions = sum(weight.numel() for weight in model.parameters()) / 1e6
    assert f"{millions:.1f} million weights, {groups[0]} groups of latents" in WORDS
    assert f"million weights and {groups[1]} groups" in WORDS
    assert not any(stage.resolution == 32 for stage in model.artifact.config.group_stages)
    took = raw["cifar10"]["readings"]["cifar10 walk-4"]
    told = (
        f"`parts-4` of {took['images']:,} images took {took['seconds']:.0f} s, {took['images'] / took['seconds']:.0f} a"
    )
    assert told in WORDS


def test_new_numbers_are_taken_in_thinned_and_shown(tmp_path: Path, raw: dict[str, Any]) -> None:
    shutil.copytree(PAGE.folder, tmp_path / "ood", ignore=shutil.ignore_patterns("*.webp"))
    shutil.copy(PAGE.path, tmp_path)
    result = raw["ipa_r"]
    result["methods"]["ipa-r gradient"]["auroc"]["noise"][5]["mean"] = 0.98765432
    result["methods"]["ipa-r channels"] = result["methods"]["ipa-r gradient"]
    cells = result["differences"][pair("gradient", "ipa-r", "gradient")]
    result["differences"] = {pair("gradient", "ipa-r", "gradient"): {of: found * 7 for of, found in cells.items()}}
    (tmp_path / "new.json").write_text(json.dumps(result))
    ood_results.main(ood_results.Options(ipa_r=tmp_path / "new.json", page=tmp_path / "ood.md"))
    assert "| IPA-R, gradient | .988 |" in (tmp_path / "ood.md").read_text()
    kept = json.loads((tmp_path / "ood" / "ipa_r.json").read_text())
    assert list(kept["methods"]) == ["ipa-r gradient"]
    assert kept["methods"]["ipa-r gradient"]["auroc"]["noise"][5]["mean"] == 0.9876543
    assert all(len(found) == 1 for found in kept["differences"][pair("gradient", "ipa-r", "gradient")].values())


def test_experiments_that_disagree_are_refused(raw: dict[str, Any]) -> None:
    one, other = raw["cifar10"], {**raw["ipa_r"], "methods": dict(raw["cifar10"]["methods"])}
    check_alike(one, other)
    other["methods"]["cifar10 gradient"] = other["methods"]["cifar10 parts-4"]
    with pytest.raises(ValueError, match="disagree about cifar10 gradient"):
        check_alike(one, other)
    with pytest.raises(ValueError, match="of different images"):
        check_alike(one, {**other, "made_of": {}})


def test_what_is_thinned_out_is_not_what_the_page_shows() -> None:
    columns = ["0-0.2", MEAN, "whole"]
    cells = [{"mean": value, "low": 0.0, "high": 1.0} for value in (0.1, 0.2, 0.3)]
    found = {"noise": cells, ALL: cells}
    methods = {f"{model} {score}": {"model": model} for model in ("cifar10", "ipa-r") for score in ("gradient", "x")}
    result = {"columns": columns, "means": {ALL: []}, "methods": methods}
    result["differences"] = {pair(*names): found for names in (*PAIRS, ("x", "cifar10", "x"))}
    kept, kept_r = of_ipa(result), of_ipa_r(result)
    assert list(kept["methods"]) == ["cifar10 gradient", "cifar10 x"] and list(kept_r["methods"]) == ["ipa-r gradient"]
    assert {*kept["differences"], *kept_r["differences"]} == {pair(*names) for names in PAIRS}
    assert kept["differences"][pair(*LATE)] == {"noise": [cells[1]], ALL: cells}
    assert kept["differences"][pair(*PAIRS[0])] == {"noise": [cells[1]], ALL: [cells[1]]}


def test_the_papers_numbers_stand_under_their_sets() -> None:
    sets: dict[str, Any] = {"crop": {}, "noise": {}, "constant": {}, "flip": {}, "rotate": {}, "mnist": {}}
    result = {"columns": [MEAN], "sets": sets, "means": {PAPERS: [], ALL: []}, "methods": {}}
    *_, row = by_set(result, {}, {"told": (0.9, 0.8, 0.7, 0.6)}).splitlines()
    assert row == "| told |  | .900 | .800 | .700 | .600 |  | .750 |  |"
