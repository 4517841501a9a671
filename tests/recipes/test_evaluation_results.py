"""The sentences of the results page agree with the raw numbers; test_pages checks its tables."""

import copy
import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from condvae import weights
from recipes import evaluation_results
from recipes.evaluation_results import BINS, CIFAR10, MIXTURE
from recipes.pages import short

PAGE = evaluation_results.page_at()
WORDS = re.sub(r"\s+", " ", PAGE.path.read_text())
WARM, COOL, NEAREST, RANDOM = "cifar10, t 1", "cifar10, t 0.85", "nearest training images", "random training image"


@pytest.fixture
def raw() -> dict[str, Any]:
    return PAGE.raw()


@pytest.fixture
def cifar10(raw: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = raw["cifar10"]
    return found


def mean(result: dict[str, Any], method: str, metric: str, column: str = MIXTURE) -> float:
    return float(result["methods"][method]["metrics"][metric][column]["mean"])


def coverage(result: dict[str, Any], method: str, kind: str, column: str = MIXTURE) -> dict[str, Any]:
    found: dict[str, Any] = result["methods"][method]["coverage"][kind][column]
    return found


def covered(result: dict[str, Any], method: str, kind: str, level: float) -> str:
    """How often the original is inside the interval of this level, in whole percent."""
    cell = coverage(result, method, kind)
    return f"{100 * cell['coverage'][cell['levels'].index(level)]:.0f} %"


def test_the_comparison_with_the_paper_is_stated_as_measured(cifar10: dict[str, Any]) -> None:
    paper = {row.method: row for row in CIFAR10}
    ours, ipa, best = mean(cifar10, WARM, "lpips_gt"), paper["IPA"], paper["CoModGAN"]
    baselines = [row for row in CIFAR10 if not row.method.startswith("IPA")]
    assert min(row.lpips_gt for row in baselines) == best.lpips_gt > ours > ipa.lpips_gt
    nearest, model = (short(mean(cifar10, name, "lpips_gt", BINS[-1]), 4) for name in (NEAREST, WARM))
    for words in (
        f"is {100 * (ours / ipa.lpips_gt - 1):.0f} % above the paper's IPA",
        f"the lowest of these is CoModGAN with {short(best.lpips_gt, 4)} after {best.hours} GPU-hours",
        f"almost as good: {nearest} against {model}",
        f"FID is {mean(cifar10, WARM, 'fid') / ipa.fid:.1f} times the paper's",
        f"P-IDS is {100 * 100 * mean(cifar10, WARM, 'p_ids') / ipa.p_ids:.0f} % of the paper's",
        "P-IDS is at most .3 %",
    ):
        assert words in WORDS
    late = [100 * mean(cifar10, name, "p_ids", column) for name in (WARM, COOL) for column in BINS[3:]]
    assert short(max(late), 1) == ".3"


def test_the_nearest_training_images_win_where_the_page_says(cifar10: dict[str, Any]) -> None:
    for metric, first, sign in (("p_ids", "40 %", 1), ("fid", "60 %", -1)):
        ahead = []
        for column in BINS:
            nearest, *ours = (sign * mean(cifar10, name, metric, column) for name in (NEAREST, WARM, COOL))
            ahead.append(nearest > max(ours))
        start = ahead.index(True)
        assert not any(ahead[:start]) and all(ahead[start:]) and f"{20 * start} %" == first
    assert "from a hidden share of 40 % on, by FID from 60 % on" in WORDS
    assert all(mean(cifar10, WARM, "lpips_gt", b) < mean(cifar10, NEAREST, "lpips_gt", b) for b in BINS)


def test_the_protocol_is_that_of_the_record(cifar10: dict[str, Any]) -> None:
    (model,) = cifar10["models"].values()
    record, settings = model["record"], cifar10["settings"]
    options, vae = record["options"], record["artifact"]
    assert all(cifar10["methods"][name]["pixels"] == "mean" for name in (WARM, COOL))
    assert "Our completions show the means of the pixel distributions" in WORDS
    bounds = [hole.split("-") for hole in BINS]
    assert options["observe"] == [f"freeform,low={float(low)},high={float(high)}" for low, high in bounds]
    assert f"We use all {settings['images']:,} test images" in WORDS and f"{settings['deep_images']} of them" in WORDS
    assert record["data"].startswith("npz: 49,000 training, 1,000 validation and 10,000 test images")
    assert "We train on 49,000 images and hold out 1,000" in WORDS
    assert (options["form"], options["start"]) == ("relative", "auto") and "in the relative form" in WORDS
    assert cifar10["networks"] == {"lpips": "alex", "inception": "fast"}
    assert model["likelihood"] == "GaussianPixels(channels=3, noise_floor=0.07)"
    minutes = sum(model["training_minutes"].values())
    seen = [f"{one['images_seen'] / 1e6:.1f}" for one in (vae, record)]
    loaded = weights.load_conditional("cifar10")
    sizes = [sum(weight.numel() for weight in part.parameters()) / 1e6 for part in (loaded.artifact, loaded.partial)]
    for words in (
        f"Our training took {minutes:.1f} minutes on one H200, including the VAE",
        f"on {seen[0]} and {seen[1]} million images",
        f"or {550_000 * 30 / 1e6:.1f} million images, where ours saw {seen[1]} million",
        f"have {sizes[0]:.2f} and {sizes[1]:.2f} million weights",
        f"has {sizes[0]:.2f} million weights in the VAE and {sizes[1]:.2f} million in the partial encoder",
        f"VAE (end: {vae['steps']:,} steps)",
        f"(end: {record['steps']:,} steps;",
        f"| {short(vae['bits_per_dim'], 4)} |",
        f"| {short(record['bits_per_dim'], 4)} |",
        f"batches of {options['batch']} images",
        f"with decay {short(options['ema'], 3)}",
    ):
        assert words in WORDS


def test_coverage_is_stated_as_measured(cifar10: dict[str, Any]) -> None:
    white, smooth = (coverage(cifar10, WARM, kind) for kind in ("white", "smooth"))
    assert {white["verdict"], smooth["verdict"], coverage(cifar10, COOL, "white")["verdict"]} == {"overconfident"}
    varying = [name for name, found in cifar10["methods"].items() if found["varies"]]
    chance = [
        coverage(cifar10, name, kind)["error_by_chance"]
        for name in varying
        for kind in ("white", "smooth", "reference")
    ]
    ends = [
        [short(coverage(cifar10, WARM, kind, column)["leaning"]["mean"], 2) for column in (BINS[0], BINS[-1])]
        for kind in ("white", "smooth")
    ]
    warm, cool = ([covered(cifar10, name, kind, 0.8) for kind in ("white", "smooth")] for name in (WARM, COOL))
    errors = {
        (name, kind): short(coverage(cifar10, name, kind)["error"], 3)
        for name in (WARM, NEAREST, RANDOM)
        for kind in ("white", "smooth", "reference")
    }
    for words in (
        f"an error of {short(min(chance), 3)} to {short(max(chance), 3)} by chance",
        f"is {errors[WARM, 'white']} in white and {errors[WARM, 'smooth']} in smooth projections",
        f"in {warm[0]} of cases in white projections and in {warm[1]} in smooth ones",
        f"Leaning falls from {ends[0][0]} in the smallest holes to {ends[0][1]} in the largest (white), and from "
        f"{ends[1][0]} to {ends[1][1]} (smooth)",
        f"in only {cool[0]} of cases (white) and {cool[1].removesuffix(' %')} % (smooth)",
        f"FID improves by {100 * (1 - mean(cifar10, COOL, 'fid') / mean(cifar10, WARM, 'fid')):.0f} %",
        f"in white projections ({errors[NEAREST, 'white']}) and in LPIPS to reference images "
        f"({errors[NEAREST, 'reference']} against {errors[WARM, 'reference']}), and a similar one in smooth "
        f"projections ({errors[NEAREST, 'smooth']} against {errors[WARM, 'smooth']})",
        f"in LPIPS to reference images ({errors[RANDOM, 'reference']})",
    ):
        assert words in WORDS
    assert abs(mean(cifar10, COOL, "lpips_gt") / mean(cifar10, WARM, "lpips_gt") - 1) < 0.01
    assert {coverage(cifar10, RANDOM, kind)["verdict"] for kind in ("white", "smooth")} == {"calibrated"}


def test_pixel_means_and_samples_are_stated_as_measured(raw: dict[str, Any], cifar10: dict[str, Any]) -> None:
    found = raw["pixels"]
    drawn = f"{WARM}, sample pixels"
    for name in (WARM, COOL):  # the same completions as in the other tables
        assert mean(found, name, "fid") == mean(cifar10, name, "fid")
    leaning = {
        (name, kind): short(coverage(found, name, kind)["leaning"]["mean"], 2)
        for name in (WARM, drawn)
        for kind in ("white", "smooth")
    }
    gt = [short(mean(found, name, "lpips_gt"), 4) for name in (WARM, drawn)]
    for words in (
        f"our FID is {mean(found, drawn, 'fid'):.1f} instead of {mean(found, WARM, 'fid'):.1f}",
        f"and LPIPS-GT is {gt[1]} instead of {gt[0]}",
        f"LPIPS-GT hardly changes** ({gt[0]} with means, {gt[1]} with samples)",
        f"white projections is {leaning[drawn, 'white']} with samples and {leaning[WARM, 'white']} with means",
        f"it is {leaning[drawn, 'smooth']} and {leaning[WARM, 'smooth']}",
        f"in white projections is {leaning[drawn, 'white']} instead of {leaning[WARM, 'white']}",
    ):
        assert words in WORDS
    assert 1.9 < mean(found, drawn, "fid") / mean(found, WARM, "fid") < 2.1 and "FID doubles" in WORDS
    assert mean(found, drawn, "p_ids") < mean(found, WARM, "p_ids") / 2


def test_bits_training_time_and_speed_are_stated_as_measured(raw: dict[str, Any]) -> None:
    cifar10, points = raw["cifar10"], raw["curve"]["points"]
    (model,) = cifar10["models"].values()
    bits, native = (model["metrics"][name]["all"]["mean"] for name in ("bits_per_dim", "bits_per_dim_native"))
    first, last = points[0], points[-1]
    methods = cifar10["methods"].values()
    seconds = sum(spent for one in (*methods, model) for spent in one["seconds"].values())
    settings = cifar10["settings"]
    models = sum("temperature" in one for one in methods)
    drawn = models * len(BINS) * (settings["images"] + settings["deep_images"] * settings["k"])
    fast = raw["measuring"]["inception"]
    for words in (
        f"The VAE alone has {bits:.2f} bits per dimension of 8-bit images",
        f"Relative to the noise floor it needs {short(native, 2)} bits per dimension",
        f"After {60 * first['minutes']:.0f} seconds",
        f"({short(first['lpips_gt'], 4)} against {short(min(row.lpips_gt for row in CIFAR10[:5]), 4)})",
        f"lower it by {100 * (1 - last['lpips_gt'] / first['lpips_gt']):.0f} %",
        f"Standard errors are at most {short(max(point['standard_error'] for point in points), 4)}",
        f"sum to {seconds:.0f} s, for {len(methods) * len(BINS) * settings['images']:,} completions through Inception",
        f"{drawn:,} completions drawn by the model",
        f"bounds of {len(BINS) * settings['deep_images']:,} observations",
        f"by {short(100 * fast['relative_error_of_fast'], 1)} % of their norm",
        f"exact features of the same {fast['images']:,} images is {short(fast['fid_of_fast_to_exact'], 3)}",
    ):
        assert words in WORDS


def test_the_page_does_not_claim_what_the_paper_does_not_say() -> None:
    assert "they were not remeasured" in WORDS and "is our inference from its values" in WORDS


def test_new_numbers_are_stored_and_shown(tmp_path: Path) -> None:
    page = page_in(tmp_path)
    raw = PAGE.raw()["cifar10"]
    raw["methods"]["harmonic fill"]["metrics"]["fid"]["0.4-0.6"]["mean"] = 12.34
    new = tmp_path / "new.json"
    new.write_text(json.dumps(raw))
    evaluation_results.main(evaluation_results.Options(cifar10=new, page=page))
    row = next(line for line in page.read_text().splitlines() if "12.3" in line)
    assert row.split(" | ")[0] == "| harmonic fill" and "**12.3**" in row  # it is now the best of its column
    assert json.loads((tmp_path / PAGE.folder.name / "cifar10.json").read_text()) == raw


def page_in(folder: Path) -> Path:
    shutil.copytree(PAGE.folder, folder / PAGE.folder.name)
    return Path(shutil.copy(PAGE.path, folder))


def test_new_bounds_replace_only_the_bounds(tmp_path: Path) -> None:
    before = PAGE.raw()["faces64"]
    new = copy.deepcopy(before)
    new["settings"]["metrics"], new["methods"], new["device"] = ["bounds"], {}, "another device"
    column = {hole: {"mean": 1.23456, "standard_error": 0.1} for hole in (*evaluation_results.BINS, "mixture")}
    new["models"]["faces64"]["metrics"] = {"hidden_bits_per_dim": column}
    page, file = page_in(tmp_path), tmp_path / "new.json"
    file.write_text(json.dumps(new))
    evaluation_results.main(evaluation_results.Options(faces64=file, page=page))
    after = json.loads((tmp_path / PAGE.folder.name / "faces64.json").read_text())
    assert after["methods"] == before["methods"] and after["device"] == before["device"]
    model = after["models"]["faces64"]
    assert model["metrics"] == new["models"]["faces64"]["metrics"] and model["record"]
    assert model["bounds_measured"]["device"] == "another device"
    assert "| bits per hidden dimension of 8-bit images, -ELBO | 1.235 | 1.235 |" in page.read_text()
    text = page.read_text()
    changes: list[dict[str, Any]] = [
        {"settings": {**new["settings"], "deep_images": 500}},
        {"models": {"other": {}}},
    ]
    for change in changes:
        file.write_text(json.dumps({**new, **change}))
        with pytest.raises(ValueError, match="the new bounds "):
            evaluation_results.main(evaluation_results.Options(faces64=file, page=page))
    assert page.read_text() == text


def test_training_minutes_are_stated_as_recorded() -> None:
    for name in ("cifar10", "faces64"):
        (model,) = PAGE.raw()[name]["models"].values()
        minutes = " + ".join(f"{model['training_minutes'][part]:.2f}" for part in ("VAE", "partial encoder"))
        assert f"{minutes} minutes" in PAGE.path.read_text()


def test_the_gain_is_over_the_best_baseline_of_each_bin(raw: dict[str, Any]) -> None:
    methods = raw["cifar10"]["methods"]
    table = evaluation_results.of_gain(methods)
    best, warm, cool = ([cell.strip() for cell in line.split("|")[2:-1]] for line in table.splitlines()[2:])
    assert best[0] == f"{NEAREST}, .0030"
    for column, gain in zip((*BINS, MIXTURE), warm, strict=True):
        found = [mean(raw["cifar10"], name, "lpips_gt", column) for name in methods if name not in (WARM, COOL)]
        assert gain == f"{100 * (1 - mean(raw['cifar10'], WARM, 'lpips_gt', column) / min(found)):.1f} %"
    assert cool != warm


def test_numbers_of_tiny_imagenet_stand_beside_those_of_imagenet64(raw: dict[str, Any]) -> None:
    table = evaluation_results.all_tables(raw)["tiny64-paper"]
    rows = [line for line in table.splitlines() if "paper: " in line]
    assert "| *paper: IPA* | 18.90 | 9.20 | .1380 | 120 GPU-hours, without the VAE |" in rows
    assert len(rows) == 5 and not any("ANP" in row for row in rows)
