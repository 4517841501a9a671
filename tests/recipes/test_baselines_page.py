"""The sentences of docs/results/baselines.md state what the recipe does and what was measured."""

import re
from typing import Any

import pytest

from condvae.experiments.evaluation.figures import PANELS
from condvae.experiments.evaluation.plan import MIXTURE
from condvae.experiments.evaluation.summary import CURVE
from condvae.training.presets import TRAIN_PRESETS
from recipes import baselines, baselines_results, baselines_speed, baselines_training, evaluation_results
from recipes.baselines_results import LEVEL, NEAREST, RANDOM, shown_methods
from recipes.baselines_statements import BINS, SIGMAS, SINGLE, lead, leaders, mean, statements
from recipes.evaluation_results import CIFAR10
from recipes.pages import short

PAGE = baselines_results.page_at()
WORDS = re.sub(r"\s+", " ", PAGE.path.read_text())
PAPER = {row.method: row for row in CIFAR10}
EVALUATION = evaluation_results.page_at().raw()
FIRST, SECOND = ("ce", "anp", "pic", "rfr"), ("comodgan", "vqvae", "diffusion")
"""The baselines of the first and of the second call."""
KINDS = (*FIRST, *SECOND)
METHODS = (*KINDS, "ipa")
BASELINES = tuple(baselines.TITLES[kind] for kind in KINDS)
DIFFUSION, EMBEDDED = "Diffusion", "IPA, embedded"
SEVEN = ("IPA", *(name for name in BASELINES if name != DIFFUSION))
LEARNED = (*SEVEN, DIFFUSION)
"""The methods of the page, which were trained with the same budget."""
PUBLISHED = tuple(name for name in LEARNED if name in PAPER)
"""Those that have numbers in the paper."""


@pytest.fixture(scope="module")
def result() -> dict[str, Any]:
    found: dict[str, Any] = PAGE.raw()[baselines_results.NUMBERS]
    return found


@pytest.fixture(scope="module")
def speed() -> dict[str, Any]:
    found: dict[str, Any] = PAGE.raw()[baselines_results.SPEED]
    return found


@pytest.fixture(scope="module")
def methods(result: dict[str, Any]) -> dict[str, Any]:
    return shown_methods(result)


def test_every_picture_is_shown() -> None:
    assert sorted(re.findall(r"\(baselines/(\w+)\.webp\)", WORDS)) == sorted(
        path.stem for path in PAGE.folder.glob("*.webp")
    )


def covered(methods: dict[str, Any], name: str, column: str = MIXTURE) -> str:
    """Return how often intervals contain the original, as a range over the two kinds of projections."""
    cells = [methods[name]["coverage"][kind][column] for kind in ("white", "smooth")]
    shares = sorted({f"{100 * cell['coverage'][cell['levels'].index(LEVEL)]:.0f}" for cell in cells})
    return f"{' to '.join(shares)} %"


def test_the_budget_is_that_of_the_command(result: dict[str, Any]) -> None:
    minutes = result["budget_minutes"]
    for folder, names in (("first", ("ipa", *FIRST)), ("second", SECOND)):
        assert f"--out out/{folder} --minutes {minutes:g} --methods {' '.join(names)}" in WORDS
    assert f"for {minutes:g} minutes by the clock" in WORDS and "--no-long" in WORDS
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


def test_the_time_of_steps(result: dict[str, Any]) -> None:
    def seconds(name: str) -> tuple[float, float]:
        parts = result["training"][name]["parts"].values()
        whole = 60 * sum(part["minutes"] for part in parts)
        return sum(part["images_seen"] / part["images_per_second"] for part in parts), whole

    assert "its steps fill {:.0f} of its {:.0f} seconds".format(*seconds("ipa")) in WORDS
    others = [seconds(name) for name in KINDS]
    (least, most), (shortest, longest) = ((min(one), max(one)) for one in zip(*others, strict=True))
    assert least == seconds("vqvae")[0]
    said = f"those of the other methods {least:.0f} (VQ-VAE) to {most:.0f} of their {shortest:.0f} to {longest:.0f}"
    assert f"{said} seconds" in WORDS


def test_the_page_does_not_claim_what_was_not_done() -> None:
    assert "they were not remeasured" in WORDS
    assert "There is one training of each method, with one seed." in WORDS
    assert "IPA-R, which the paper also reports, is not part of this comparison" in WORDS
    assert "for twice the budget; this was not done" in WORDS


def test_metrics_that_only_some_have(methods: dict[str, Any]) -> None:
    for metric in ("cfid", "crps_pixels", "crps_lpips"):
        having = [name for name in methods if metric in methods[name]["metrics"]]
        assert having == ["CoModGAN", "VQ-VAE", DIFFUSION, EMBEDDED]
        assert lead(methods, DIFFUSION, EMBEDDED, metric) == 1 and "and a worse CFID and CRPS too" in WORDS
    assert "CFID and CRPS did not exist at the time of the first call, so its methods lack them" in WORDS


def test_the_diffusion_model_wins_in_quality(result: dict[str, Any], methods: dict[str, Any]) -> None:
    for metric in ("fid", "p_ids", "lpips_gt"):
        assert all(leaders(methods, LEARNED, metric, column) == [DIFFUSION] for column in (*BINS, MIXTURE))
        assert lead(methods, DIFFUSION, EMBEDDED, metric) == 1

    def numbers(name: str) -> tuple[str, str, str]:
        fid, p_ids, distance = (mean(methods, name, metric) for metric in ("fid", "p_ids", "lpips_gt"))
        return f"{fid:.1f}", f"{100 * p_ids:.1f} %", short(distance, 4)

    assert "the best FID ({}), P-IDS ({}) and LPIPS-GT ({}), in the".format(*numbers(DIFFUSION)) in WORDS
    assert "IPA has {}, {} and {}.".format(*numbers("IPA")) in WORDS
    assert "which had three times the training: that one has {}, {} and {}".format(*numbers(EMBEDDED)) in WORDS
    assert round(result["training"]["cifar10"]["minutes"] / result["training"]["ipa"]["minutes"]) == 3
    errors = {
        kind: [short(methods[name]["coverage"][kind][MIXTURE]["error"], 3) for name in (DIFFUSION, "IPA")]
        for kind in ("white", "smooth", "reference")
    }
    assert errors["white"][0] == errors["white"][1] and f"equally well calibrated (error {errors['white'][0]})" in WORDS
    said = (
        "In smooth projections ({} and {}) and by LPIPS to reference images ({} and {}), the diffusion model is better"
    )
    assert said.format(*errors["smooth"], *errors["reference"]) in WORDS
    verdicts = [methods[name]["coverage"]["white"][MIXTURE]["verdict"] for name in (DIFFUSION, "IPA")]
    assert verdicts == ["underconfident", "overconfident"]
    said = f"contain the original in {covered(methods, DIFFUSION)} of the cases. IPA is overconfident: "
    assert f"{said}{covered(methods, 'IPA')}" in WORDS


def test_the_diffusion_model_loses_in_time(speed: dict[str, Any]) -> None:
    found, equal = speed["methods"], speed["equal_time"]["methods"]
    times = found["diffusion"]["milliseconds"] / found["cifar10"]["milliseconds"]
    evaluations = found["diffusion"]["network_evaluations"]
    said = f"It needs {evaluations:.0f} evaluations of its network for a completion, and {times:.1f} times the time"
    assert f"{said} of IPA" in WORDS and speed["device"] == "NVIDIA H200" and "on one NVIDIA H200" in WORDS
    k = equal["diffusion"]["k"]
    theirs, ours = (short(equal[name]["lpips_gt"]["mean"], 4) for name in ("diffusion", "cifar10"))
    assert f"it draws {k}. Then the embedded IPA has the lower LPIPS-GT, {ours} against {theirs}" in WORDS
    assert equal["cifar10"]["k"] == baselines_speed.COMPLETIONS == 100
    for name in ("comodgan", "vqvae", "diffusion"):
        cells = [equal[one]["lpips_gt"] for one in ("cifar10", name)]
        error = 2 * sum(cell["standard_error"] ** 2 for cell in cells) ** 0.5
        assert cells[1]["mean"] - cells[0]["mean"] > error
    inside = {name: [equal[name][kind]["mean"] for kind in ("white", "smooth")] for name in equal}
    assert [round(100 * share) for share in inside["diffusion"]] == [79, 79] and "(79 % instead of 78 %)" in WORDS
    assert round(100 * equal["diffusion"]["calibrated"]) == 78
    assert all(max(inside[name]) < equal[name]["calibrated"] - 0.1 for name in ("comodgan", "vqvae"))
    untrained = [name for name in FIRST if not found[name]["trained"]]
    assert untrained == list(FIRST) and "CE, ANP, PIC and RFR were measured with random ones" in WORDS
    images = baselines_speed.SPEED_IMAGES
    assert f"100 completions of each of {images} images" in WORDS and f"for {100 * images:,} images" in WORDS
    assert f"at equal time, on {speed['equal_time']['images']} test images" in WORDS


def test_ipa_covers_best_of_the_others(methods: dict[str, Any], speed: dict[str, Any]) -> None:
    for column in (*BINS, MIXTURE):
        assert leaders(methods, SEVEN, "lpips_gt", column) == ["IPA"]
    assert all(leaders(methods, SEVEN, sigma) == ["IPA"] for sigma in SIGMAS)
    first, second, *_ = sorted(SEVEN, key=lambda name: mean(methods, name, "lpips_gt"))
    ours, other = (mean(methods, name, "lpips_gt") for name in (first, second))
    assert (first, second) == ("IPA", "CoModGAN")
    said = f"Its LPIPS-GT is {short(ours, 4)}, {100 * (1 - ours / other):.0f} % below that of CoModGAN, the second of"
    assert said in WORDS
    shares = {name: covered(methods, name) for name in ("CoModGAN", "VQ-VAE", "PIC", "ANP")}
    assert (
        f"The {100 * LEVEL:.0f} % intervals of CoModGAN contain the original in {shares['CoModGAN']} of the cases, "
        f"those of VQ-VAE in {shares['VQ-VAE']}, those of PIC in {shares['PIC']}, and those of ANP in {shares['ANP']}"
    ) in WORDS
    equal = speed["equal_time"]["methods"]
    assert all(ours < equal[name]["lpips_gt"]["mean"] for name in SECOND)
    assert f"its LPIPS-GT of {short(ours, 4)} on 500 images is known, which is below that of all three" in WORDS


def test_two_baselines_have_a_better_fid(methods: dict[str, Any]) -> None:
    assert leaders(methods, SEVEN, "fid") == ["CoModGAN"]
    for name in ("IPA", EMBEDDED):
        assert all(lead(methods, other, name, "fid") == 1 for other in ("CoModGAN", "CE"))
    gan, ce, ipa = (f"{mean(methods, name, 'fid'):.1f}" for name in ("CoModGAN", "CE", "IPA"))
    assert f"**CoModGAN has a better FID than IPA**, {gan} and {ipa}" in WORDS and f"ahead of CE ({ce})" in WORDS
    shares = [f"{100 * mean(methods, name, 'p_ids'):.1f} %" for name in ("CoModGAN", "IPA")]
    assert lead(methods, "IPA", "CoModGAN", "p_ids") == 0 and "does not differ ({} and {})".format(*shares) in WORDS
    assert PAPER["IPA"].p_ids > PAPER["CoModGAN"].p_ids and PAPER["IPA"].fid > PAPER["CoModGAN"].fid
    ahead = [[lead(methods, "IPA", "CoModGAN", metric, column) == 1 for column in BINS] for metric in ("fid", "p_ids")]
    assert ahead == [[True, False, False, False, False]] * 2 and "ours only where at most 20 % is hidden" in WORDS
    cooler = EVALUATION["cifar10"]["methods"]["cifar10, t 0.85"]["metrics"]["fid"][MIXTURE]["mean"]
    assert f"At t = 0.85, the embedded IPA has [{cooler:.1f}]" in WORDS
    said = f"The paper's difference is small ({PAPER['CoModGAN'].fid} and {PAPER['IPA'].fid:.2f}), ours is large"
    assert f"{said} ({gan} and {ipa})" in WORDS
    assert f"our CE has about the paper's FID ({ce} and {PAPER['CE'].fid:.2f})" in WORDS
    near = (short(value, 4) for value in (mean(methods, "CE", "lpips_gt"), PAPER["CE"].lpips_gt))
    assert "and LPIPS-GT ({} and {})".format(*near) in WORDS
    assert f"({ipa} and {PAPER['IPA'].fid:.2f})" in WORDS and PAPER["CE"].fid > PAPER["IPA"].fid


def test_the_number_of_completions_matters(methods: dict[str, Any]) -> None:
    names = ("RFR", "CE", DIFFUSION, "IPA", "CoModGAN")
    *numbers, last = (f"{short(mean(methods, name, 'lpips_gt@1'), 4)} ({name})" for name in names)
    assert f"With K = 1, LPIPS-GT is {', '.join(numbers)} and {last}" in WORDS
    assert all(lead(methods, name, DIFFUSION, "lpips_gt@1") == 0 for name in ("RFR", "CE", "IPA"))
    assert "does not differ from the first two or from IPA by more than two standard errors" in WORDS
    assert all(lead(methods, single, name, "lpips_gt@1") == 1 for single in SINGLE for name in ("IPA", "CoModGAN"))
    for k in CURVE[1:]:
        assert sorted(LEARNED, key=lambda name: mean(methods, name, f"lpips_gt@{k}"))[:2] == [DIFFUSION, "IPA"], k
    assert "From K = 2 on, the diffusion model is the best of the eight, and IPA the second" in WORDS


def test_the_sheet_of_mode_collapse(methods: dict[str, Any]) -> None:
    found = PAGE.raw()["mode_collapse"]
    assert "--positions {} {}".format(*found["positions"]) in WORDS and found["n"] == 20
    assert "{:.0f} % and {:.1f} % are hidden".format(*(100 * share for share in found["hidden_shares"])) in WORDS
    spread = {name: [f"{one:.1f}" for one in stds] for name, stds in found["pixel_std"].items()}
    gan, others = spread["CoModGAN"], (spread["Diffusion"][0], spread["IPA"][0])
    assert f"the lowest of the three, {gan[0]}, against {others[0]} (diffusion) and {others[1]} (IPA)" in WORDS
    assert float(gan[0]) == min(float(one[0]) for one in spread.values())
    assert f"it is the highest, {gan[1]}" in WORDS and float(gan[1]) == max(float(one[1]) for one in spread.values())
    shares = [covered(methods, name, BINS[1]) for name in ("CoModGAN", DIFFUSION, "IPA")]
    said = "contain the original in {} of the cases, those of the diffusion model in {}, and those of IPA in {}"
    assert f"with 20 to 40 % hidden, its 80 % intervals {said.format(*shares)}" in WORDS
    diversity = [short(mean(methods, name, "lpips_diversity"), 4) for name in ("CoModGAN", "IPA")]
    assert "it is {} in the mixture of bins, against {} for IPA".format(*diversity) in WORDS


def test_training_images_are_hard_to_beat(methods: dict[str, Any]) -> None:
    better = [name for name in LEARNED if lead(methods, name, NEAREST, "lpips_gt") > -1]
    assert better == ["IPA", "CoModGAN", DIFFUSION]
    assert "a lower LPIPS-GT than all methods of this budget except the diffusion model, IPA and CoModGAN" in WORDS
    assert all(lead(methods, NEAREST, name, "fid") == 1 for name in SEVEN)
    assert lead(methods, NEAREST, DIFFUSION, "fid") == 0
    assert "all of them except the diffusion model, which does not differ" in WORDS
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
    worst = mean(methods, "training mean", "lpips_gt")
    assert f"better than the training mean, whose LPIPS-GT is {short(worst, 4)}" in WORDS
    assert all(lead(methods, name, "training mean", "lpips_gt") == 1 for name in LEARNED)
    single = mean(methods, RANDOM, "lpips_gt@1")
    assert f"have an LPIPS-GT of {short(single, 4)}, about twice that of CE and RFR" in WORDS
    assert all(1.8 < single / mean(methods, name, "lpips_gt") < 2.2 for name in SINGLE)
    theirs = [short(PAPER[name].lpips_gt, 4) for name in SINGLE]
    assert "CE and RFR have {} and {}, which is also above {}".format(*theirs, found[-1]) in WORDS
    assert all(PAPER[name].lpips_gt > mean(methods, RANDOM, "lpips_gt") for name in SINGLE)


def test_what_agrees_with_the_paper(result: dict[str, Any], methods: dict[str, Any]) -> None:
    theirs_by_distance = sorted(PUBLISHED, key=lambda name: PAPER[name].lpips_gt)
    ours_by_distance = sorted(PUBLISHED, key=lambda name: mean(methods, name, "lpips_gt"))
    assert ours_by_distance[:3] == theirs_by_distance[:3] == ["IPA", "CoModGAN", "PIC"]
    assert ours_by_distance != theirs_by_distance and set(theirs_by_distance[-2:]) == set(SINGLE)
    assert lead(methods, "VQ-VAE", "PIC", "lpips_gt") == 0 and "VQ-VAE" not in PAPER
    six, eight = (one for one in statements(methods) if "with more LPIPS diversity" in one.text)
    (found, p), (other, _) = (re.findall(r"rank correlation (\S+), p . (\S+);", one.numbers)[0] for one in (six, eight))
    said = (
        f"the rank correlation is {found} over the six methods with numbers in the paper (p = {p}, {six.verdict}), and"
    )
    assert f"{said} {other} over all eight" in WORDS
    large = {name: mean(methods, name, "lpips_gt", BINS[-1]) for name in LEARNED}
    *listed, last = (f"{short(large[name], 4)} ({name})" for name in sorted(LEARNED, key=large.__getitem__))
    assert f"above 80 % hidden, LPIPS-GT is {', '.join(listed)} and {last}" in WORDS
    assert f"its sharpness is {short(mean(methods, 'ANP', 'sharpness'), 2)}" in WORDS
    assert max(LEARNED, key=lambda name: mean(methods, name, "lpips_gt")) == "ANP"
    assert theirs_by_distance.index("ANP") == 3 and "the third of five in the paper" in WORDS  # after IPA
    seen = result["training"]["anp"]["parts"]["network"]["images_seen"] / 1e6
    steps, batch = (TRAIN_PRESETS["anp-paper"][name] for name in ("steps", "batch"))
    theirs = f"the paper's {steps:,} steps of {batch} images are {steps * batch / 1e6:.1f} million"
    assert f"It saw {seen:.1f} million images here; {theirs}" in WORDS
