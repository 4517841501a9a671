"""The section about CIFAR-10 of docs/results/design.md agrees with the raw numbers; test_pages checks its tables."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from condvae import weights
from condvae.completers.learned_baselines import make_completer, named_config
from condvae.runtime.devices import without_weights
from recipes import baselines, design_results
from recipes.design_cifar10 import FORMAT
from recipes.design_cifar10_tables import cifar10_tables, clear, without_folder, without_times
from recipes.pages import short

PAGE = design_results.page_at()
SECTION = re.search(r"^## Another sensor: CIFAR-10\n(.*?)^## ", PAGE.path.read_text(), re.DOTALL | re.MULTILINE)
assert SECTION
TEXT = re.sub(r"\s+", " ", SECTION[1])
MEASURES = ("accuracy", "log_score")
IMAGES = ("eig-comodgan", "eig-diffusion", "eig-training")
"""The policies that differ from eig-ipa only in the images that they use."""
BUDGET = baselines.Options.minutes
"""The training time of CoModGAN and of the diffusion model."""
SCANS = range(1, 6)
LATER = range(2, 6)
"""Numbers of scans after which policies with EIG can differ."""


@pytest.fixture(scope="module")
def result() -> dict[str, Any]:
    found: dict[str, Any] = PAGE.raw()["cifar10"]
    return found


def lead(result: dict[str, Any], policy: str, measure: str, scans: int) -> tuple[float, float]:
    """How far eig-ipa is ahead of another policy, and the standard error."""
    found = result["differences"][f"eig-ipa - {policy}"][measure]
    return found["mean"][scans], found["standard_error"][scans]


def test_the_settings_are_those_of_the_measurement(result: dict[str, Any]) -> None:
    options, record = result["options"], weights.describe("cifar10").record
    assert list(result["policies"]) == ["eig-ipa", *IMAGES, "random"] and options["model"] == "cifar10"
    minutes = record["minutes"] + record["artifact"]["minutes"]
    assert record["device"] == result["device"] == "NVIDIA H200"
    side, grid, steps = 32 // 4, options["points"], f"{options['steps']:,} steps of {options['batch']}"
    for words in (
        f"from five scans of {side} x {side} pixels",
        f"trained for {minutes:.1f} minutes on one H200, VAE included",
        f"trained for {BUDGET:g} minutes each",
        f"averaged over {result['policies']['random']['sequences']} sequences of scans",
        f"the same {result['images']:,} test pictures and the same {grid} x {grid} locations",
        f"use N = {options['n']} completions",
        f"as far as {result['images']:,} pictures can show",
        f"chosen with {options['first_n']} training pictures",
        f"on a CPU, for {steps} pictures",
    ):
        assert words in TEXT
    assert (options["scans"], options["seed"], result["scans"]) == (5, 0, [0, *SCANS])


def test_the_lead_over_random_scans_is_as_stated(result: dict[str, Any]) -> None:
    nats = [lead(result, "random", "log_score", t) for t in SCANS]
    points = [lead(result, "random", "accuracy", t) for t in LATER]
    first = lead(result, "random", "accuracy", 1)
    assert all(mean > 0 and clear(mean, error) for mean, error in [*nats, *points]) and not clear(*first)
    ratios = [mean / error for mean, error in nats]
    lowest, highest = (f(mean for mean, _ in nats) for f in (min, max))
    for words in (
        f"by {short(lowest, 3)} to {short(highest, 3)} nats, which is clear after each scan ({min(ratios):.1f} to "
        f"{max(ratios):.1f} standard errors)",
        f"higher by {min(points)[0]:.1f} to {max(points)[0]:.1f} percentage points after two to five scans, with "
        f"standard errors of {min(error for _, error in points):.1f} to {max(error for _, error in points):.1f} points",
        f"After one scan, the difference in accuracy ({first[0]:+.1f} ± {first[1]:.1f} points) is not clear",
        f"after it, eig-ipa leads over random scans by {short(nats[0][0], 3)} nats. After five scans, it leads by "
        f"{short(nats[-1][0], 3)} nats",
    ):
        assert words in TEXT


def test_differences_between_completions_are_as_stated(result: dict[str, Any]) -> None:
    found = {m: {(p, t): lead(result, p, m, t) for p in IMAGES for t in LATER} for m in MEASURES}
    assert all(lead(result, p, m, t) == (0, 0) for p in IMAGES for m in MEASURES for t in (0, 1))
    every = [cell for cells in found.values() for cell in cells.values()]
    largest = max(abs(mean / error) for mean, error in every)
    assert f"there are {len(every)} differences" in TEXT and f"For these {len(every)} differences" in TEXT
    assert f"The largest is {largest:.1f} standard errors" in TEXT and largest < 2
    points, nats = (max(cells.items(), key=lambda item: abs(item[1][0])) for cells in found.values())
    assert (points[0], nats[0]) == (("eig-comodgan", 3), ("eig-training", 3)) and points[1][0] < 0 < nats[1][0]
    ours, after = result["policies"], len(SCANS)
    last = [[ours[p][m]["mean"][after] for p in ("eig-ipa", *IMAGES)] for m in MEASURES]
    accuracies, scores = (max(values) - min(values) for values in last)
    for words in (
        f"the largest difference is {points[1][0]:+.1f} ± {points[1][1]:.1f} points: after three scans, eig-comodgan "
        "is better",
        f"it is {short(nats[1][0], 3, '+')} ± {short(nats[1][1], 3)} nats: after three scans, eig-training is worse",
        f"the four policies are within {accuracies:.1f} points and {short(scores, 3)} nats of each other",
    ):
        assert words in TEXT


def test_what_could_have_been_seen_is_as_stated(result: dict[str, Any]) -> None:
    seen = {m: [2 * lead(result, p, m, t)[1] for p in IMAGES for t in LATER] for m in MEASURES}
    ahead = {m: [lead(result, "random", m, t)[0] for t in LATER] for m in MEASURES}
    points, nats = seen["accuracy"], seen["log_score"]
    assert (
        f"two standard errors are {min(points):.1f} to {max(points):.1f} points and {short(min(nats), 3)} to "
        f"{short(max(nats), 3)} nats" in TEXT
    )
    shares = [(min(ahead[m]) / max(seen[m]), max(ahead[m]) / min(seen[m])) for m in MEASURES]
    assert (
        shares[0] == pytest.approx((1, 1), abs=0.4) and "In accuracy, the whole lead over random scans is about" in TEXT
    )
    assert [round(share) for share in shares[1]] == [2, 3] and "about two to three times as large" in TEXT


def test_the_protocol_is_that_of_the_measurement(result: dict[str, Any]) -> None:
    with without_weights():
        gan = make_completer(named_config("comodgan", image_size=32, channels=3))
    record, ipa = weights.describe("cifar10").record, weights.describe("cifar10")
    gan_weights, options = sum(w.numel() for w in gan.parameters()), result["options"]
    minutes, grid = record["minutes"] + record["artifact"]["minutes"], options["points"]
    right, error = (result["whole"]["accuracy"][key][0] for key in ("mean", "standard_error"))
    assert all(holes.startswith("freeform") for holes in record["options"]["observe"])
    for paper, here in (
        ("Chest X-ray 14, 256 x 256", "CIFAR-10, 32 x 32"),
        ("64 x 64 pixels, 17 x 17 locations, 5 scans", f"8 x 8 pixels, {grid} x {grid} locations, 5 scans"),
        ("5,000", f"{result['images']:,}"),
        ("N = 10", f"N = {options['n']}"),
        (
            "chosen with 10 completions, as all others",
            f"chosen with {options['first_n']} training pictures, the same for all policies",
        ),
        (
            "108 million trainable weights, of which 29 million are the discriminator, 648 GPU-hours",
            f"{gan_weights / 1e6:.1f} million weights without the discriminator, {BUDGET:g} minutes on one H200",
        ),
        (
            "VAE: about 5 days on four V100; partial encoder: 65 million trainable weights, 240 GPU-hours",
            f"{ipa.parameters / 1e6:.1f} million weights, {minutes:.1f} minutes on one H200, VAE included",
        ),
        ("patches, .35 times as wide as the image", "all except freeform holes"),
        (
            "32,000 steps of 32 images",
            f"from scratch, {options['steps']:,} steps of {options['batch']} pictures; right for {right:.1f} % of",
        ),
        ("not stated", "one training of each network, one seed of the scans"),
    ):
        assert f"{paper} | {here}" in TEXT
    random = result["policies"]["random"]["accuracy"]["mean"][5]
    assert f"only {right:.1f} ± {error:.1f} % of the cases, and five random scans already give {random:.1f} %" in TEXT


def test_conclusions_that_were_not_tested_are_called_hypotheses() -> None:
    assert "*A hypothesis, which we did not test:* most of the gain comes from locations that are good for all" in TEXT
    assert "This does not refute the paper, because the protocols differ" in TEXT


def small_result() -> dict[str, Any]:
    cells = {"mean": [0.0, 1.0, -0.0625], "standard_error": [0.0, 0.5, 0.03]}
    same = {"mean": [0.0, 0.0, 0.25], "standard_error": [0.0, 0.0, 0.12]}
    policy = {"accuracy": cells, "log_score": cells, "seconds": 3.5, "drawing_seconds": 1.5, "drawn": 7}
    options = {
        "data": "home/cifar10",
        "model": "home/me/m.safetensors",
        "classifier": None,
        "out": "home/out",
        "against": ["gan=home/gan/model.safetensors", "home/other"],
    }
    one = {"mean": [50.0], "standard_error": [1.25]}
    return {
        "format": FORMAT,
        "options": options,
        "scans": [0, 1, 2],
        "policies": {"eig-ipa": policy, "eig-gan": policy},
        "differences": {"eig-ipa - eig-gan": {"accuracy": cells, "log_score": same}},
        "whole": {"accuracy": one, "log_score": one},
    }


def test_differences_of_more_than_two_standard_errors_are_bold() -> None:
    tables = {name: table.splitlines() for name, table in cifar10_tables(small_result()).items()}
    assert tables["cifar10-accuracy"][0] == "| accuracy, %, by number of scans | 0 | 1 | 2 | whole picture |"
    assert tables["cifar10-accuracy"][2] == "| eig-ipa | 0.0 ± 0.0 | 1.0 ± 0.5 | -0.1 ± 0.0 | 50.0 ± 1.2 |"
    assert tables["cifar10-log-g"][3] == "| eig-gan | .000 ± .000 | 1.000 ± .500 | -.062 ± .030 | 50.000 ± 1.250 |"
    assert tables["cifar10-accuracy-differences"][2:] == ["| eig-gan | +1.0 ± 0.5 | **-0.1 ± 0.0** |"]
    assert tables["cifar10-log-g-differences"][2:] == ["| eig-gan | 0 | **+.250 ± .120** |"]
    assert [clear(2.0, 1.0), clear(-2.1, 1.0), clear(0.0, 0.0)] == [False, True, False]


def test_times_and_folders_are_not_kept() -> None:
    kept = without_times(small_result())
    assert set(kept["policies"]["eig-gan"]) == {"accuracy", "log_score", "drawn"}
    assert kept["options"] == {
        "data": "cifar10",
        "model": "m.safetensors",
        "classifier": None,
        "against": ["gan=model.safetensors", "other"],
    }
    assert without_folder("gan=runs/seed=1") == "gan=seed=1"


def test_new_numbers_are_stored_and_shown(tmp_path: Path, result: dict[str, Any]) -> None:
    shutil.copytree(PAGE.folder, tmp_path / "design", ignore=shutil.ignore_patterns("*.webp", "*.gif"))
    page = Path(shutil.copy(PAGE.path, tmp_path))
    new = json.loads(json.dumps(result))
    new["options"]["out"] = "home/out"
    new["policies"]["random"]["accuracy"]["mean"][5] = 98.7654321
    (tmp_path / "new.json").write_text(json.dumps(new))
    design_results.main(design_results.Options(cifar10=tmp_path / "new.json", page=page))
    assert "| 98.8 ± 1.2 | 49.7 ± 1.6 |" in page.read_text()
    kept = json.loads((tmp_path / "design" / "cifar10.json").read_text())
    assert kept["policies"]["random"]["accuracy"]["mean"][5] == 98.7654 and "out" not in kept["options"]
    (tmp_path / "new.json").write_text('{"format": "other"}')
    with pytest.raises(ValueError, match=r"new.json has no results of recipes/design_cifar10.py"):
        design_results.main(design_results.Options(cifar10=tmp_path / "new.json", page=page))
