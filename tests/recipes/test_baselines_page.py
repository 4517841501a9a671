"""The sentences of docs/results/baselines.md state what the recipe does and what was measured."""

import re
from typing import Any

import pytest

from condvae.completers.learned_names import LEARNED_PRESETS
from condvae.experiments.evaluation.figures import PANELS
from condvae.training.presets import TRAIN_PRESETS
from recipes import baselines, baselines_results
from recipes.baselines_results import NEAREST, shown_methods
from recipes.baselines_statements import LEARNED, SINGLE
from recipes.evaluation_results import CIFAR10
from recipes.pages import compact

PAGE = baselines_results.page_at()
WORDS = re.sub(r"\s+", " ", PAGE.path.read_text())
PAPER = {row.method: row for row in CIFAR10}


@pytest.fixture(scope="module")
def result() -> dict[str, Any]:
    if not PAGE.raw():
        pytest.skip("the comparison has not been run yet: docs/results/baselines has no numbers")
    found: dict[str, Any] = PAGE.raw()[baselines_results.NUMBERS]
    return found


def test_the_tables_match_the_raw_numbers(result: dict[str, Any]) -> None:
    assert PAGE.filled() == PAGE.path.read_text()
    assert (PAGE.folder / "baselines.json").read_text() == compact(result) + "\n"
    assert all((PAGE.folder / f"{name}.webp").is_file() for name in ("metrics", "fwv", "sheet"))


def test_the_budget_is_that_of_the_command(result: dict[str, Any]) -> None:
    minutes = result["budget_minutes"]
    assert f"--out out/baselines --minutes {minutes:g}" in WORDS and f"for {minutes:g} minutes by the clock" in WORDS
    for name in baselines.METHODS:
        assert 0.9 * minutes < result["training"][name]["minutes"] < 1.05 * minutes, name
    vae = result["training"]["ipa"]["parts"]["VAE"]["minutes"]
    assert vae / result["training"]["ipa"]["minutes"] == pytest.approx(baselines.VAE_SHARE, abs=0.05)
    assert result["training"]["cifar10"]["minutes"] > minutes and "which had a larger budget" in WORDS


def test_all_methods_had_the_same_images_and_holes(result: dict[str, Any]) -> None:
    trainings = {name: result["training"][name] for name in baselines.METHODS}
    baselines.check_equal(trainings)
    holes = [f"freeform,low={low / 10},high={(low + 2) / 10}" for low in range(0, 10, 2)]
    for name, found in trainings.items():
        (last,) = list(found["parts"].values())[-1:]
        assert last["observe"] == holes, name
        assert last["data"].startswith("npz: 49,000 training, 1,000 validation and 10,000 test images of 32 x 32 x 3")
    assert "holes from each of the five bins equally often" in WORDS


def test_the_evaluation_is_that_of_the_page(result: dict[str, Any]) -> None:
    settings, networks = result["settings"], result["networks"]
    assert (settings["images"], settings["deep_images"], settings["k"]) == (10_000, 500, 100)
    assert networks == {"lpips": "alex", "inception": "fast"} and "LPIPS-GT (AlexNet, K = 100)" in WORDS
    assert settings["seed"] == 0 and "seed 0, t = 1" in WORDS
    methods = shown_methods(result)
    assert [name for name in LEARNED if not methods[name]["varies"]] == list(SINGLE)
    assert NEAREST in methods and len(methods) == len(baselines.TITLES) + 4


def test_the_recipe_is_described() -> None:
    options = baselines.Options(data=(), out=PAGE.path)
    assert f"it gets {100 * baselines.VAE_SHARE:.0f} % of the budget" in WORDS
    assert f"one completion of each of {min(baselines.SHARPNESS_IMAGES, options.images)} images" in WORDS
    assert options.model == "cifar10" and "the model `cifar10` of the package" in WORDS
    assert [panel.title.split(",")[0].split(" ↓")[0] for panel in PANELS.values()] == [
        "FID", "P-IDS", "LPIPS-GT", "LPIPS diversity",
    ]  # fmt: skip


def test_sizes_are_those_of_the_presets() -> None:
    ours, papers = ({name: LEARNED_PRESETS[name + end] for name in baselines.BASELINES} for end in ("", "-paper"))
    (pic, pic_paper), (rfr, rfr_paper) = ((ours[name], papers[name]) for name in ("pic", "rfr"))
    for words in (
        f"a bottleneck of {ours['ce']['bottleneck']} features instead of {papers['ce']['bottleneck']:,}",
        f"a width of {ours['anp']['width']} instead of {papers['anp']['width']}",
        f"RFR has {rfr['widths'][0]} to {rfr['widths'][-1]} channels instead of {rfr_paper['widths'][0]} to "
        f"{rfr_paper['widths'][-1]}",
        "kernels of {} and {} pixels instead of {}".format(*rfr["kernels"], rfr_paper["kernels"][0]),
    ):
        assert words in WORDS
    assert (rfr["strides"], rfr_paper["strides"]) == (2, 3) and "two strides instead of three" in WORDS
    halvings = [(size // one["latent_size"]).bit_length() - 1 for size, one in ((32, pic), (256, pic_paper))]
    assert halvings == [3, 5] and "halves the image three times instead of five" in WORDS
    assert (pic["width"], pic["max_width"]) == (64, 256) and "with 64, 128 and 256 channels" in WORDS
    assert (pic_paper["width"], pic_paper["max_width"]) == (32, 128) and "instead of 32 to 128" in WORDS
    assert (pic["output_scales"], pic_paper["output_scales"]) == (3, 4) and "three scales instead of four" in WORDS
    assert all(TRAIN_PRESETS[name]["ema"] < 1 for name in baselines.BASELINES) and "averaged weights for all" in WORDS


def test_times_of_the_paper_are_those_of_its_table() -> None:
    hours = {name: PAPER[name].hours for name in LEARNED if name != "IPA"}
    assert f"The paper's baselines took {min(hours.values())} to {max(hours.values())} GPU-hours" in WORDS
    assert f"RFR took {hours['RFR'] / hours['CE']:.0f} times as long as CE" in WORDS


def test_the_page_does_not_claim_what_was_not_done() -> None:
    assert "they were not remeasured" in WORDS
    assert "There is one training of each method, with one seed." in WORDS
    assert "CoModGAN, IPA-R and VQ-VAE, which the paper also reports, are not part of this comparison" in WORDS
