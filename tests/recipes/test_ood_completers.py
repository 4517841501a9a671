"""Completing first with learned completers: its section in docs/results/ood.md agrees with the raw numbers."""

import ast
import copy
import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from condvae import weights
from condvae.completers.learned_baselines import make_completer, named_config
from condvae.experiments.ood.summary import ALL, PAPERS
from condvae.runtime.devices import without_weights
from recipes import evaluation_results, ood_results
from recipes.design_results import decided
from recipes.ood_results import keep_completers
from recipes.ood_tables import PAPER_CIFAR10, completer_tables
from recipes.pages import short

PAGE = ood_results.page_at()
TEXT = PAGE.path.read_text()
HEADING = "### Completing first with other methods\n"
SECTION = re.sub(r"\s+", " ", TEXT.partition(HEADING)[2].partition("\n### ")[0])
SETS = ["noise", "constant", "flip", "rotate"]
BINS = ["0-0.2", "0.2-0.4", "0.4-0.6", "0.6-0.8", "0.8-1"]
MEAN = BINS.index("0.8-1") + 1
"""The column of the mean over hidden shares, in lists of all columns."""
NAMES = ("comodgan", "diffusion", "ipa", "nearest")


@pytest.fixture
def raw() -> dict[str, Any]:
    found: dict[str, Any] = PAGE.raw()["completers"]
    return found


def auroc(raw: dict[str, Any], score: str, of: str) -> float:
    return float(raw["methods"][f"cifar10 {score}"]["auroc"][of][MEAN]["mean"])


def cells(raw: dict[str, Any], name: str, of: str) -> list[dict[str, float]]:
    found: list[dict[str, float]] = raw["differences"][f"cifar10 gradient - cifar10 completed-{name}"][of]
    return found


def lead(raw: dict[str, Any], name: str, of: str = PAPERS) -> dict[str, float]:
    """The difference of the means over hidden shares. It may be the only column that was kept."""
    found = cells(raw, name, of)
    return found[0 if len(found) == 1 else MEAN]


def by(raw: dict[str, Any], name: str, of: str = PAPERS) -> str:
    return short(lead(raw, name, of)["mean"], 3)


def table(name: str) -> list[list[str]]:
    """The cells of a table on the page, without the line below its head."""
    lines = TEXT.partition(f"<!-- table {name} -->\n")[2].partition("<!-- end -->")[0].splitlines()
    return [[cell.strip() for cell in line[1:-1].split("|")] for line in (lines[0], *lines[2:])]


def written(cell: dict[str, float]) -> str:
    mean, low, high = (f"{cell[key]:+.3f}".replace("0.", ".", 1) for key in ("mean", "low", "high"))
    return f"**{mean} [{low}, {high}]**" if cell["low"] > 0 or cell["high"] < 0 else f"{mean} [{low}, {high}]"


def test_the_tables_show_the_measurement(raw: dict[str, Any]) -> None:
    titles = ("CoModGAN", "diffusion", "IPA", "nearest training image")
    scores = {"IPA, gradient": "gradient"}
    scores |= {
        f"completed by {title}, gradient": f"completed-{name}" for title, name in zip(titles, NAMES, strict=True)
    }
    head, *ours = table("completers")
    assert head == ["", *SETS, PAPERS]
    theirs = [["the paper: IPA", ".995", ".949", ".552", ".594", ".772"]]
    theirs.append(["the paper: completed by CoModGAN", ".993", ".909", ".543", ".536", ".745"])
    assert (
        ours == [[row, *(short(auroc(raw, score, of), 3) for of in head[1:])] for row, score in scores.items()] + theirs
    )
    head, *rows = table("completers-differences")
    assert head == ["", *(f"gradient - completed-{name}" for name in NAMES)]
    assert rows == [[of, *(written(lead(raw, name, of)) for name in NAMES)] for of in (PAPERS, *SETS)]
    head, *rows = table("completers-by-share")
    assert head == ["gradient minus ..., by hidden share", *BINS]
    shown = [*((name, PAPERS) for name in NAMES), *(("comodgan", of) for of in SETS)]
    assert rows == [[f"completed-{name}, {of}", *map(written, cells(raw, name, of)[:MEAN])] for name, of in shown]


def test_a_changed_measurement_changes_its_table(raw: dict[str, Any]) -> None:
    before = completer_tables(raw)
    raw["methods"]["cifar10 completed-diffusion"]["auroc"]["flip"][MEAN]["mean"] = 0.1234
    cells(raw, "nearest", "rotate")[0] = {"mean": -0.0216, "low": -0.0312, "high": 0.0004}
    cells(raw, "comodgan", "flip")[2] = {"mean": -0.0216, "low": -0.0312, "high": -0.0004}
    after = completer_tables(raw)
    assert "| completed by diffusion, gradient | .960 | .821 | .123 | .561 |" in after["completers"]
    assert "| -.022 [-.031, +.000] |\n" in after["completers-differences"]
    assert "| **-.022 [-.031, -.000]** |" in after["completers-by-share"]
    for name, text in after.items():
        changed = [a != b for a, b in zip(before[name].splitlines(), text.splitlines(), strict=True)]
        assert sum(changed) == 1, name


def test_differences_are_those_of_the_aurocs(raw: dict[str, Any]) -> None:
    assert raw["means"] == {PAPERS: SETS} and list(raw["sets"]) == SETS
    for name in NAMES:
        for of in (*SETS, PAPERS):
            expected = auroc(raw, "gradient", of) - auroc(raw, f"completed-{name}", of)
            assert lead(raw, name, of)["mean"] == pytest.approx(expected, abs=2e-6)
        assert lead(raw, name)["mean"] == pytest.approx(sum(lead(raw, name, of)["mean"] for of in SETS) / 4, abs=2e-6)


def test_the_section_says_what_was_measured(raw: dict[str, Any]) -> None:
    images, fit = raw["images"], raw["settings"]["fit_images"]
    assert {one["images"] for one in raw["sets"].values()} == {images} and raw["device"] == "NVIDIA H200"
    assert (
        f"{images:,} test images against {images:,} images of each set" in SECTION and f"--images {images}" in SECTION
    )
    assert f"fitted to {fit:,} training images" in SECTION
    assert list(raw["completers"]) == ["nearest", "comodgan", "diffusion"]
    large = PAGE.raw()["cifar10"]
    assert raw["models"]["cifar10"] == large["models"]["cifar10"] and large["images"] == 5000
    scores = ("gradient", "completed-ipa", "completed-nearest")
    off = max(abs(auroc(raw, score, of) - auroc(large, score, of)) for score in scores for of in (*SETS, PAPERS))
    assert off < 0.01 and f"may differ by about .01; the largest difference is {short(off, 3)}" in SECTION
    found = [one["auroc"][of][MEAN] for one in raw["methods"].values() for of in (*SETS, PAPERS)]
    reach = max(max(cell["high"] - cell["mean"], cell["mean"] - cell["low"]) for cell in found)
    assert f"intervals of these AUROCs reach up to {short(reach, 3)} to either side" in SECTION


def test_the_partial_encoder_beats_completing_with_comodgan(raw: dict[str, Any]) -> None:
    paper = [
        a - b
        for a, b in zip(
            *(PAPER_CIFAR10[f"the paper: {name}"] for name in ("IPA", "completed by CoModGAN")), strict=True
        )
    ]
    theirs = [short(value, 3) for value in paper]
    noise, constant, flip, rotate = (by(raw, "comodgan", of) for of in SETS)
    for words in (
        f"its AUROC is higher by {by(raw, 'comodgan')}; the paper's difference is {short(sum(paper) / 4, 3)}",
        f"all four intervals exclude 0: by {noise} on noise, {constant} on constant, {flip} on flip and "
        f"{rotate} on rotate",
        f"The paper's differences are {', '.join(theirs[:3])} and {theirs[3]}",
    ):
        assert words in SECTION
    assert all(lead(raw, "comodgan", of)["low"] > 0 for of in (*SETS, PAPERS)) and min(paper) > 0


def test_large_holes_account_for_most_of_it(raw: dict[str, Any]) -> None:
    found = cells(raw, "comodgan", PAPERS)[:MEAN]
    means = [cell["mean"] for cell in found]
    noise, constant = (short(cells(raw, "comodgan", of)[4]["mean"], 3) for of in ("noise", "constant"))
    ahead = sorted(-cell["mean"] for cell in cells(raw, "comodgan", "constant")[:3])
    for words in (
        f"Where more than 80 % is hidden, the average over the sets is higher by {short(means[4], 3)}",
        f"This is {100 * means[4] / sum(means):.0f} % of the sum over the five ranges",
        f"There the difference is {noise} on noise and {constant} on constant; on flip and rotate, the intervals "
        "contain 0",
        f"between 60 and 80 % is {short(means[3], 3)}, not much more than the {short(means[2], 3)} between 40 and 60 %",
        f"Up to 20 %, completing with CoModGAN is ahead by {short(-means[0], 3)} on average; between 20 and 40 %, the "
        "interval contains 0",
        f"On constant, completing with CoModGAN is ahead by {short(ahead[0], 3)} to {short(ahead[-1], 3)} up to 60 %",
    ):
        assert words in SECTION
    assert found[0]["high"] < 0 and not decided(found[1]) and all(cell["low"] > 0 for cell in found[2:])
    assert not any(decided(cells(raw, "comodgan", of)[4]) for of in ("flip", "rotate"))
    assert [cell["high"] < 0 for cell in cells(raw, "comodgan", "constant")[:MEAN]] == [True, True, True, False, False]


def test_sentences_about_diffusion(raw: dict[str, Any]) -> None:
    noise, constant, flip, rotate = (by(raw, "diffusion", of) for of in SETS)
    largest, other = (cells(raw, name, PAPERS)[4]["mean"] for name in ("diffusion", "comodgan"))
    level = {name: auroc(raw, f"completed-{name}", PAPERS) for name in NAMES}
    for words in (
        f"ahead of completing with the diffusion model by {by(raw, 'diffusion')}",
        f"exclude 0 on noise ({noise}) and constant ({constant}), but not on flip ({flip}) and rotate ({rotate})",
        f"Where more than 80 % is hidden, the difference is {short(largest, 3)}, about half of that to CoModGAN",
        f"with the diffusion model, {short(level['diffusion'], 3)}, is between those with the model's own completions "
        f"({short(level['ipa'], 3)}) and with nearest training images ({short(level['nearest'], 3)}); CoModGAN has the "
        f"lowest, {short(level['comodgan'], 3)}",
    ):
        assert words in SECTION
    assert [of for of in SETS if decided(lead(raw, "diffusion", of))] == ["noise", "constant"]
    assert lead(raw, "diffusion")["low"] > 0 and largest / other == pytest.approx(0.5, abs=0.05)
    assert sorted(level, key=level.__getitem__) == ["comodgan", "nearest", "diffusion", "ipa"]
    assert "There are no intervals for the differences between these four" in SECTION
    assert not any("completed" in name.partition(" - ")[0] for name in raw["differences"])


def test_the_summary_has_the_smallest_and_largest_margin(raw: dict[str, Any]) -> None:
    summary = re.sub(r"\s+", " ", TEXT.partition("## Summary\n")[2].partition("\n## ")[0])
    large = PAGE.raw()["cifar10"]
    margins = [lead(raw, name)["mean"] for name in NAMES] + [lead(large, name)["mean"] for name in ("ipa", "nearest")]
    assert f"{short(min(margins), 3)} to {short(max(margins), 3)} in AUROC on the paper's sets" in summary
    assert max(margins) == lead(raw, "comodgan")["mean"]
    assert (
        f"The measured margin is largest over our small CoModGAN ({by(raw, 'comodgan')}; .027 in the paper)" in summary
    )
    assert "Most of that one comes from holes that hide more than 80 %" in summary


def test_differences_from_the_paper(raw: dict[str, Any]) -> None:
    with without_weights():
        networks = [make_completer(named_config(name, image_size=32, channels=3)) for name in ("comodgan", "diffusion")]
    ours = [f"{sum(weight.numel() for weight in network.parameters()) / 1e6:.1f}" for network in networks]
    paper = {row.method: row for row in evaluation_results.CIFAR10}["CoModGAN"]
    record = weights.describe(weights.locate("cifar10")).record
    svhn = short(0.753 - 0.556, 3)  # as in the list of differences from the paper, further up on the page
    for words in (
        f"Our CoModGAN has {ours[0]} million weights, without its discriminator, and our diffusion model {ours[1]} "
        "million",
        f"has {paper.weights} million, with its discriminator, and was trained for {paper.hours} GPU-hours",
        f"had {record['minutes']:.1f} minutes, but also uses a VAE that was trained for "
        f"{record['artifact']['minutes']:.1f} minutes",
        f"SVHN, with its largest difference, {svhn}; we could not measure it",
        "Each completer was trained once and completes each image once",
        "trained on holes from each of the five ranges equally often",
        "The paper's training holes have no such ranges, and [most of them hide more than 80 %]",
        "The paper uses 5,000 test images",
    ):
        assert words in SECTION
    assert "AUROC .753 with IPA, .686 with IPA-R, .556 for its baseline" in re.sub(r"\s+", " ", TEXT)
    protocols = re.sub(r"\s+", " ", (PAGE.path.parent / "baselines.md").read_text())
    assert "about 70 % hide more than 80 % of a 32 x 32 image" in protocols


def test_the_commands_are_those_of_the_recipe() -> None:
    recipe = ast.get_docstring(ast.parse(Path(ood_results.__file__).read_text())) or ""
    train, experiment = (
        {tuple(sorted(re.sub(r"\\\n", " ", text).split())) for text in re.findall(pattern, section)}
        for pattern, section in (
            (r"python recipes/baselines\.py (?:[^\n]|(?<=\\)\n)*", recipe + TEXT),
            (r"condvae ood experiment (?:[^\n]|\\\n)*--completers(?:[^\n]|(?<=\\)\n)*", recipe + TEXT),
        )
    )
    assert len(train) == len(experiment) == 1 and "--minutes 4 " in SECTION and "4 minutes each on one H200" in SECTION


def test_results_of_other_experiments_are_refused(tmp_path: Path, raw: dict[str, Any]) -> None:
    other, renamed = full(raw), full(raw)
    other["format"] = "condvae evaluation"
    del renamed["methods"]["cifar10 completed-comodgan"]
    path, page = tmp_path / "new.json", Path(shutil.copy(PAGE.path, tmp_path / "ood.md"))
    for result, said in (
        (other, "new.json has no results of condvae ood experiment: give the JSON file that it wrote"),
        (renamed, "the experiment of --completers lacks completed-comodgan: repeat it with"),
    ):
        path.write_text(json.dumps(result))
        with pytest.raises(ValueError, match=said):
            ood_results.main(ood_results.Options(completers=path, page=page))
    assert page.read_text() == TEXT


def full(raw: dict[str, Any]) -> dict[str, Any]:
    """A result as the experiment writes it: with all columns, and under its own name of the mean over sets."""
    result: dict[str, Any] = json.loads(json.dumps(raw).replace(f'"{PAPERS}"', f'"{ALL}"'))
    for found in result["differences"].values():
        found.update({of: cells if len(cells) > 1 else cells * 7 for of, cells in found.items()})
    result["methods"]["other gradient"] = {**result["methods"]["cifar10 gradient"], "model": "other"}
    result["differences"]["other gradient - cifar10 gradient"] = {}
    return result


def test_new_numbers_are_reduced_stored_and_shown(tmp_path: Path, raw: dict[str, Any]) -> None:
    shutil.copytree(PAGE.folder, tmp_path / "ood", ignore=shutil.ignore_patterns("*.webp"))
    shutil.copy(PAGE.path, tmp_path)
    before = copy.deepcopy(raw)
    result = full(raw)
    assert keep_completers(result) == before
    result["methods"]["cifar10 completed-comodgan"]["auroc"]["noise"][MEAN]["mean"] = 0.98765432
    (tmp_path / "new.json").write_text(json.dumps(result))
    ood_results.main(ood_results.Options(completers=tmp_path / "new.json", page=tmp_path / "ood.md"))
    assert "| completed by CoModGAN, gradient | .988 |" in (tmp_path / "ood.md").read_text()
    kept = json.loads((tmp_path / "ood" / "completers.json").read_text())
    assert kept["methods"]["cifar10 completed-comodgan"]["auroc"]["noise"][MEAN]["mean"] == 0.9876543


def test_an_experiment_with_other_sets_is_refused(raw: dict[str, Any]) -> None:
    result = full(raw)
    result["means"] = {ALL: [*SETS, "crop"]}
    with pytest.raises(ValueError, match="has other sets: repeat it with --sets noise constant flip rotate"):
        keep_completers(result)
