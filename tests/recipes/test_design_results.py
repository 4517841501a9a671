"""The text of docs/results/design.md agrees with the raw numbers; test_pages checks its tables."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from helpers.fixtures import ROOT

from condvae import weights
from condvae.design.avp_cnn.classifier_file import describe_classifier
from recipes import design_results
from recipes.design_results import PAPER_SET, decided, difference, thinned, time
from recipes.pages import short

PAGE = design_results.page_at()
TEXT = re.sub(r"\s+", " ", PAGE.path.read_text())
SCANS = range(1, 6)
MEAN_OF_2_TO_5 = -1
"""The column with the mean over two to five scans."""


@pytest.fixture
def raw() -> dict[str, Any]:
    return PAGE.raw()


def means(result: dict[str, Any], policy: str, metric: str = "auroc") -> list[float]:
    return [cell["mean"] for cell in result["policies"][policy][metric][PAPER_SET]]


def others(result: dict[str, Any]) -> list[str]:
    """All policies that choose scans, except eig-ipa."""
    return [policy for policy in result["policies"] if policy not in ("eig-ipa", "full")]


def test_averages_in_the_text_are_those_measured(raw: dict[str, Any]) -> None:
    few, many = (
        {p: short(means(raw[name], p)[MEAN_OF_2_TO_5], 3) for p in raw[name]["policies"]}
        for name in ("xray", "xray_n40")
    )
    assert few["eig-nearest"] == few["uncond-1000"]
    for words in (
        f"eig-ipa ({few['eig-ipa']}) is above random ({few['random']}) and uncond ({few['uncond']}). It is .001 below "
        f"non-greedy ({few['non-greedy']})",
        f".004 below eig-nearest and uncond-1000 ({few['uncond-1000']})",
        f"({many['eig-ipa']} against {many['random']}, {many['uncond']} and {many['non-greedy']})",
        f"it reaches an AUROC of {few['full']} on whole images",
        f"Five random windows already give {short(means(raw['xray'], 'random')[5], 3)}",
    ):
        assert words in TEXT
    ahead = {policy: difference_of(raw["xray"], policy)[MEAN_OF_2_TO_5]["mean"] for policy in others(raw["xray"])}
    assert ahead["random"] > 0 and ahead["uncond"] > 0
    assert [short(ahead[policy], 3) for policy in ("non-greedy", "eig-nearest", "uncond-1000")] == [
        "-.001",
        "-.004",
        "-.004",
    ]


def difference_of(result: dict[str, Any], policy: str, metric: str = "auroc") -> list[dict[str, float]]:
    found: list[dict[str, float]] = result["differences"][policy][metric][PAPER_SET]
    return found


def test_one_first_scan_has_the_only_auroc_difference_whose_interval_excludes_zero(raw: dict[str, Any]) -> None:
    outside = {
        (name, policy, scans)
        for name in ("xray", "xray_n40")
        for policy in others(raw[name])
        for scans, cell in enumerate(difference_of(raw[name], policy))
        if scans and decided(cell)
    }
    assert outside == {("xray", "non-greedy", 1)}
    by_task = [
        (policy, task)
        for policy in others(raw["xray"])
        for task in raw["xray"]["tasks"]
        if decided(raw["xray"]["differences"][policy]["auroc"][task][MEAN_OF_2_TO_5])
    ]
    assert by_task == [("random", "no finding")]
    assert len(others(raw["xray"])) * len(raw["xray"]["tasks"]) == 36


def test_statements_about_likelihoods_are_true(raw: dict[str, Any]) -> None:
    for name in ("xray", "xray_n40"):
        ours = means(raw[name], "eig-ipa", "nll")
        for policy in set(others(raw[name])) - {"eig-nearest"}:
            assert all(ours[t] < means(raw[name], policy, "nll")[t] for t in SCANS), (name, policy)
    for policy in raw["xray"]["differences"]:
        outside = [t for t in SCANS if decided(difference_of(raw["xray"], policy, "nll")[t])]
        assert outside == {"epe-ipa": [3, 4, 5], "uncond": [5], "full": [*SCANS]}.get(policy, []), policy
    entropy = means(raw["xray"], "epe-ipa", "nll")[1:6]
    assert entropy == sorted(entropy) and f"from {short(entropy[0], 3)} to {short(entropy[-1], 3)}" in TEXT
    for policy in {"eig-ipa", *others(raw["xray"])} - {"epe-ipa"}:
        assert means(raw["xray"], policy, "nll")[5] < means(raw["xray"], policy, "nll")[1]


def test_one_row_of_the_matrix_has_its_best_on_the_diagonal(raw: dict[str, Any]) -> None:
    found = raw["xray"]["cross_tasks"]["eig-ipa"]
    for which in ("last", "mean"):
        best = [max(range(6), key=lambda j, line=line: line[j]["mean"]) for line in found[which]]  # type: ignore[misc]
        assert sum(i == j for i, j in enumerate(best)) == 1
    assert "Here this is true for one row of six, both after five scans and averaged over scans" in TEXT


def test_sizes_minutes_and_counts_are_those_of_the_package(raw: dict[str, Any]) -> None:
    model, classifier = weights.describe("xray").record, describe_classifier("xray")
    vae = model["artifact"]
    positives = [found["positives"] for found in raw["xray"]["tasks"].values()]
    counted = next(line for line in PAGE.path.read_text().splitlines() if line.startswith("| test images (patients) |"))
    assert [int(cell.split(" ")[0]) for cell in counted.split(" | ")[1:]] == positives
    for words in (
        f"{vae['minutes']} + {model['minutes']} minutes on one H200 ({vae['images_seen'] / 1e6:.2f} and "
        f"{model['images_seen'] / 1e6:.2f} million images)",
        f"{short(vae['bits_per_dim'], 3)} bits per dimension above the noise floor for the VAE, "
        f"and {short(model['bits_per_dim'], 3)} for hidden",
        f"{classifier.record['steps']:,} steps of {classifier.record['options']['batch']} images in "
        f"{classifier.record['minutes']} minutes",
        f"{raw['xray']['images']:,} of {raw['xray']['patients']} others for tests",
    ):
        assert words in TEXT
    models = (ROOT / "docs" / "guides" / "models.md").read_text()
    package = ROOT / "src" / "condvae"
    for row, file in (
        ("`faces64`", "weights/models/faces64"),
        ("`cifar10`", "weights/models/cifar10"),
        ("`xray`", "weights/models/xray"),
        ("`xray`, the classifier", "design/avp_cnn/classifiers/xray"),
    ):
        size = (package / f"{file}.safetensors").stat().st_size / 2**20
        assert re.search(rf"\| {re.escape(row)} \| .* \| {size:.2f} \|", models), row


def test_seconds_are_those_of_the_experiments(raw: dict[str, Any]) -> None:
    took = {name: sum(found["seconds"] for found in raw[name]["policies"].values()) for name in ("xray", "xray_n40")}
    ours = raw["xray"]["policies"]["eig-ipa"]["seconds"]
    assert f"took {took['xray'] / 60:.1f} minutes on the H200, {ours:.0f} s of them for eig-ipa" in TEXT
    assert f"the second (N = 40) took {took['xray_n40'] / 60:.1f} minutes" in TEXT


def test_new_numbers_are_reduced_stored_and_shown(tmp_path: Path, raw: dict[str, Any]) -> None:
    shutil.copytree(PAGE.folder, tmp_path / "design", ignore=shutil.ignore_patterns("*.webp", "*.gif"))
    shutil.copy(PAGE.path, tmp_path)
    result = raw["xray"]
    result["policies"]["random"]["where"] = {"all tasks": [1] * 289}
    result["policies"]["random"]["auroc"][PAPER_SET][3]["mean"] = 0.98765432
    (tmp_path / "new.json").write_text(json.dumps(result))
    speed = {**raw["speed_h200"], "device": "CPU, 2 threads", "step_wanted_ms": 8000, "model": "home/me/m.safetensors"}
    del speed["block"], speed["peak_gb"]
    (tmp_path / "speed.json").write_text(json.dumps(speed))
    page = tmp_path / "design.md"
    options = design_results.Options(xray=tmp_path / "new.json", speed_cpu=tmp_path / "speed.json", page=page)
    design_results.main(options)
    assert "| random | .669 [.613, .708] | .691 [.636, .729] | .988 [" in page.read_text()
    assert "| target | under 100 ms | under 8.0 s |" in page.read_text()
    assert json.loads((tmp_path / "design" / "speed_cpu.json").read_text())["model"] == "m.safetensors"
    kept = json.loads((tmp_path / "design" / "xray.json").read_text())["policies"]["random"]
    assert kept["where"] == {} and kept["auroc"][PAPER_SET][3]["mean"] == 0.987654


def test_numbers_that_the_page_shows_are_not_removed() -> None:
    cells = [{"mean": 0.1, "low": 0.0, "high": 0.2}]
    result = {
        "sets": {PAPER_SET: []},
        "policies": {"random": {"where": {"all tasks": [1, 2]}, "auroc": {PAPER_SET: cells, "edema": cells}}},
        "differences": {"random": {metric: {PAPER_SET: cells, "edema": cells} for metric in ("auroc", "nll")}},
    }
    kept = thinned(result)
    assert kept["policies"]["random"] == {"where": {}, "auroc": {PAPER_SET: cells, "edema": cells}}
    assert kept["differences"]["random"] == {"auroc": {PAPER_SET: cells, "edema": cells}, "nll": {PAPER_SET: cells}}


def test_a_difference_is_bold_if_its_interval_excludes_zero() -> None:
    assert difference({"mean": 0.0194, "low": 0.0018, "high": 0.038}) == "**+.019 [+.002, +.038]**"
    assert difference({"mean": -0.02, "low": -0.05, "high": -0.0001}) == "**-.020 [-.050, -.000]**"
    assert difference({"mean": -0.02, "low": -0.05, "high": 0.01}) == "-.020 [-.050, +.010]"


def test_times_have_a_suitable_unit() -> None:
    assert [time(8.07), time(368.4), time(9402)] == ["8.1 ms", "368 ms", "9.4 s"]
