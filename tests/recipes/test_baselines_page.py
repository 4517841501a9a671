"""The sentences of docs/results/baselines.md state what the recipe does and what was measured."""

import re
from typing import Any

import pytest

from condvae.completers.learned_baselines import make_completer, make_loss, named_config
from condvae.completers.learned_names import LEARNED_PRESETS
from condvae.experiments.evaluation.figures import PANELS
from condvae.experiments.evaluation.plan import MIXTURE
from condvae.experiments.evaluation.summary import CURVE
from condvae.runtime.devices import without_weights
from condvae.training.presets import TRAIN_PRESETS
from recipes import baselines, baselines_results, baselines_training, evaluation_results
from recipes.baselines_results import LEVEL, NEAREST, RANDOM, shown_methods
from recipes.baselines_statements import BINS, SIGMAS, SINGLE, lead, leaders, mean
from recipes.evaluation_results import CIFAR10
from recipes.pages import short

PAGE = baselines_results.page_at()
WORDS = re.sub(r"\s+", " ", PAGE.path.read_text())
PAPER = {row.method: row for row in CIFAR10}
EVALUATION = evaluation_results.page_at().raw()
KINDS = ("ce", "anp", "pic", "rfr")
METHODS = (*KINDS, "ipa")
BASELINES = tuple(kind.upper() for kind in KINDS)
LEARNED = ("IPA", *BASELINES)
"""The methods of the page, which were trained with the same budget."""


@pytest.fixture(scope="module")
def result() -> dict[str, Any]:
    found: dict[str, Any] = PAGE.raw()[baselines_results.NUMBERS]
    return found


@pytest.fixture(scope="module")
def methods(result: dict[str, Any]) -> dict[str, Any]:
    return shown_methods(result)


def test_every_picture_is_shown() -> None:
    assert sorted(re.findall(r"\(baselines/(\w+)\.webp\)", WORDS)) == sorted(
        path.stem for path in PAGE.folder.glob("*.webp")
    )


def test_the_budget_is_that_of_the_command(result: dict[str, Any]) -> None:
    minutes = result["budget_minutes"]
    assert f"--out out/baselines --minutes {minutes:g}" in WORDS and f"for {minutes:g} minutes by the clock" in WORDS
    for name in METHODS:
        assert 0.9 * minutes < result["training"][name]["minutes"] < 1.05 * minutes, name
    vae = result["training"]["ipa"]["parts"]["VAE"]["minutes"]
    assert vae / result["training"]["ipa"]["minutes"] == pytest.approx(baselines_training.VAE_SHARE, abs=0.05)
    assert result["training"]["cifar10"]["minutes"] > minutes and "which had a larger budget" in WORDS


def test_all_methods_had_the_same_images_and_holes(result: dict[str, Any]) -> None:
    trainings = {name: result["training"][name] for name in METHODS}
    baselines_training.check_equal(trainings)
    holes = [f"freeform,low={low / 10},high={(low + 2) / 10}" for low in range(0, 10, 2)]
    for name, found in trainings.items():
        (last,) = list(found["parts"].values())[-1:]
        assert last["observe"] == holes, name
        assert last["data"].startswith(
            "cifar10: 49,000 training, 1,000 validation and 10,000 test images of 32 x 32 x 3"
        )
    assert "holes from each of the five bins equally often" in WORDS


def test_the_evaluation_is_that_of_the_page(result: dict[str, Any]) -> None:
    settings, networks = result["settings"], result["networks"]
    assert (settings["images"], settings["deep_images"], settings["k"]) == (10_000, 500, 100)
    assert networks == {"lpips": "alex", "inception": "fast"} and "LPIPS-GT (AlexNet, K = 100)" in WORDS
    assert settings["seed"] == 0 and "seed 0, t = 1" in WORDS
    methods = shown_methods(result)
    assert [name for name in LEARNED if not methods[name]["varies"]] == list(SINGLE)
    assert NEAREST in methods and len(methods) == len(METHODS) + 1 + 4


def test_the_recipe_is_described() -> None:
    options = baselines.Options(data=(), out=PAGE.path)
    assert f"it gets {100 * baselines_training.VAE_SHARE:.0f} % of the budget" in WORDS
    assert f"one completion of each of {min(baselines.SHARPNESS_IMAGES, options.images)} images" in WORDS
    assert options.model == "cifar10" and "the model `cifar10` of the package" in WORDS
    assert [panel.title.split(",")[0].split(" ↓")[0] for panel in PANELS.values()] == [
        "FID", "P-IDS", "LPIPS-GT", "LPIPS diversity",
    ]  # fmt: skip


def test_sizes_are_those_of_the_presets() -> None:
    ours, papers = ({name: LEARNED_PRESETS[name + end] for name in KINDS} for end in ("", "-paper"))
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
    assert all(TRAIN_PRESETS[name]["ema"] < 1 for name in KINDS) and "averaged weights for all" in WORDS


def test_times_of_the_paper_are_those_of_its_table() -> None:
    hours = {name: PAPER[name].hours for name in LEARNED if name != "IPA"}
    assert f"The paper's baselines took {min(hours.values())} to {max(hours.values())} GPU-hours" in WORDS
    assert f"CE took {hours['CE']} hours on a 2080 Ti, and RFR {hours['RFR']} on a V100" in WORDS


def test_optimisers_are_those_of_the_presets() -> None:
    ours, papers = ({name: TRAIN_PRESETS[name + end] for name in KINDS} for end in ("", "-paper"))
    times = {name: f"{round(ours[name]['lr'] / papers[name]['lr'], 3):g}" for name in ours}
    said = (
        f"are {times['ce']} (CE), {times['anp']} (ANP), {times['pic']} (PIC) and {times['rfr']} times (RFR) the paper's"
    )
    assert said in WORDS
    assert {(one["schedule"], one["final_lr"]) for one in ours.values()} == {("cosine", 0.02)}
    assert "fall to 2 % of their peak along a cosine" in WORDS


def test_the_time_of_steps(result: dict[str, Any]) -> None:
    def seconds(name: str) -> tuple[float, float]:
        parts = result["training"][name]["parts"].values()
        whole = 60 * sum(part["minutes"] for part in parts)
        return sum(part["images_seen"] / part["images_per_second"] for part in parts), whole

    assert "its steps fill {:.0f} of its {:.0f} seconds".format(*seconds("ipa")) in WORDS
    others = [seconds(name) for name in KINDS]
    least, most = min(steps for steps, _ in others), max(whole for _, whole in others)
    assert f"those of the other methods at least {least:.0f} of {most:.0f}" in WORDS


def test_discriminators_are_counted_as_stated() -> None:
    """Most of the other weights of the paper's PIC are those of two discriminators; the rest is a block without use."""
    with without_weights():
        losses = make_loss(make_completer(named_config("pic-paper", image_size=256, channels=3)))
    assert losses.critic is not None
    without, critic = (sum(w.numel() for w in net.parameters()) / 1e6 for net in (losses.completer, losses.critic))
    assert f"without them it has {without:.1f} million" in WORDS
    assert 8 < without + critic < int(PAPER["PIC"].weights) == 9


def test_the_page_does_not_claim_what_was_not_done() -> None:
    assert "they were not remeasured" in WORDS
    assert "There is one training of each method, with one seed." in WORDS
    assert "CoModGAN, IPA-R and VQ-VAE, which the paper also reports, are not part of this comparison" in WORDS


def test_ipa_covers_best(methods: dict[str, Any]) -> None:
    for column in (*BINS, MIXTURE):
        assert leaders(methods, LEARNED, "lpips_gt", column) == ["IPA"]
    assert all(leaders(methods, LEARNED, sigma) == ["IPA"] for sigma in SIGMAS)
    ours, second = (mean(methods, name, "lpips_gt") for name in ("IPA", "PIC"))
    assert second == min(mean(methods, name, "lpips_gt") for name in BASELINES)
    assert (
        f"Its LPIPS-GT is {short(ours, 4)}, {100 * (1 - ours / second):.0f} % below that of PIC, the best of" in WORDS
    )
    shares = {}
    for name in ("IPA", "PIC", "ANP"):
        cells = [methods[name]["coverage"][kind][MIXTURE] for kind in ("white", "smooth")]
        covered = sorted(100 * cell["coverage"][cell["levels"].index(LEVEL)] for cell in cells)
        shares[name] = "{:.0f} to {:.0f} %".format(*covered)
    assert f"Its {100 * LEVEL:.0f} % intervals contain the original in {shares['IPA']} of the cases" in WORDS
    assert f"those of PIC in {shares['PIC']}, and those of ANP in {shares['ANP']}" in WORDS


def test_ce_has_the_best_fid(result: dict[str, Any], methods: dict[str, Any]) -> None:
    assert all(lead(methods, "CE", "IPA", "fid", column) == 1 for column in BINS[1:])
    assert leaders(methods, LEARNED, "fid") == ["CE"] and lead(methods, "CE", "IPA, embedded", "fid") == 1
    ce, ipa, embedded = (f"{mean(methods, name, 'fid'):.1f}" for name in ("CE", "IPA", "IPA, embedded"))
    assert f"**Of the five, CE has the best FID**, {ce} against {ipa} for IPA" in WORDS
    assert f"ahead of the embedded IPA at t = 1 ({embedded}), which had three times the budget" in WORDS
    cooler = EVALUATION["cifar10"]["methods"]["cifar10, t 0.85"]["metrics"]["fid"][MIXTURE]["mean"]
    assert f"At t = 0.85, the embedded IPA has [{cooler:.1f}]" in WORDS
    assert round(result["training"]["cifar10"]["minutes"] / result["training"]["ipa"]["minutes"]) == 3
    assert f"our CE has about the paper's FID ({ce} and {PAPER['CE'].fid:.2f})" in WORDS
    near = (short(value, 4) for value in (mean(methods, "CE", "lpips_gt"), PAPER["CE"].lpips_gt))
    assert "and LPIPS-GT ({} and {})".format(*near) in WORDS
    assert f"({ipa} and {PAPER['IPA'].fid:.2f})" in WORDS


def test_the_number_of_completions_matters(methods: dict[str, Any]) -> None:
    rfr, ce, ipa = (short(mean(methods, name, "lpips_gt@1"), 4) for name in ("RFR", "CE", "IPA"))
    assert f"With K = 1, the LPIPS-GT of RFR is {rfr}, of CE {ce} and of IPA {ipa}" in WORDS
    assert all(lead(methods, name, "IPA", "lpips_gt@1") == 1 for name in SINGLE)
    for k in CURVE[1:]:
        lowest = min(mean(methods, name, f"lpips_gt@{k}") for name in LEARNED)
        assert mean(methods, "IPA", f"lpips_gt@{k}") == lowest, k
    assert "From K = 2 on, IPA is the best of the five" in WORDS


def test_training_images_are_hard_to_beat(methods: dict[str, Any]) -> None:
    assert [name for name in LEARNED if lead(methods, name, NEAREST, "lpips_gt") > -1] == ["IPA"]
    assert all(lead(methods, NEAREST, name, "fid") == 1 for name in LEARNED)
    large = [mean(methods, name, "lpips_gt", BINS[-1]) for name in (NEAREST, "IPA")]
    assert lead(methods, NEAREST, "IPA", "lpips_gt", BINS[-1]) == 1
    assert "lower LPIPS-GT than IPA ({} against {})".format(*(short(one, 4) for one in large)) in WORDS
    assert all(lead(methods, name, RANDOM, "lpips_gt", column) == 1 for name in LEARNED for column in BINS[:3])
    assert all(lead(methods, name, RANDOM, "lpips_gt@1") == 1 for name in LEARNED)
    worse = [name for name in LEARNED if lead(methods, name, RANDOM, "lpips_gt") == -1]
    assert worse == ["CE", "ANP", "RFR"] and "**CE, ANP and RFR are worse in the mixture**" in WORDS
    assert all(lead(methods, name, RANDOM, "lpips_gt", column) == -1 for name in worse for column in BINS[3:])
    found = [short(mean(methods, name, "lpips_gt"), 4) for name in (*worse, RANDOM)]
    assert "{}, {} and {} against {}".format(*found) in WORDS
    single = mean(methods, RANDOM, "lpips_gt@1")
    assert f"have an LPIPS-GT of {short(single, 4)}, about twice that of CE and RFR" in WORDS
    assert all(1.8 < single / mean(methods, name, "lpips_gt") < 2.2 for name in SINGLE)
    theirs = [short(PAPER[name].lpips_gt, 4) for name in SINGLE]
    assert "CE and RFR have {} and {}, which is also above {}".format(*theirs, found[-1]) in WORDS
    assert all(PAPER[name].lpips_gt > mean(methods, RANDOM, "lpips_gt") for name in SINGLE)


def test_what_agrees_with_the_paper(result: dict[str, Any], methods: dict[str, Any]) -> None:
    theirs_by_distance = sorted(LEARNED, key=lambda name: PAPER[name].lpips_gt)
    ours_by_distance = sorted(LEARNED, key=lambda name: mean(methods, name, "lpips_gt"))
    assert ours_by_distance[:2] == theirs_by_distance[:2] == ["IPA", "PIC"] and ours_by_distance != theirs_by_distance
    assert min(LEARNED, key=lambda name: PAPER[name].fid) == "IPA"
    assert set(theirs_by_distance[-2:]) == set(SINGLE)
    large = {name: mean(methods, name, "lpips_gt", BINS[-1]) for name in LEARNED}
    *listed, last = (f"{short(large[name], 4)} ({name})" for name in sorted(LEARNED, key=large.__getitem__))
    assert f"above 80 % hidden, LPIPS-GT is {', '.join(listed)} and {last}" in WORDS
    assert f"its sharpness is {short(mean(methods, 'ANP', 'sharpness'), 2)}" in WORDS
    assert max(LEARNED, key=lambda name: mean(methods, name, "lpips_gt")) == "ANP"
    assert sorted(BASELINES, key=lambda name: PAPER[name].lpips_gt)[1] == "ANP"
    seen = result["training"]["anp"]["parts"]["network"]["images_seen"] / 1e6
    steps, batch = (TRAIN_PRESETS["anp-paper"][name] for name in ("steps", "batch"))
    theirs = f"the paper's {steps:,} steps of {batch} images are {steps * batch / 1e6:.1f} million"
    assert f"It saw {seen:.1f} million images here; {theirs}" in WORDS
