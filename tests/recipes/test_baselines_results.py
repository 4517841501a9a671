"""The recipe fills a page from the numbers of a comparison, and decides its statements from them alone."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from helpers.baseline_reports import report
from helpers.recipe_calls import run
from PIL import Image
from scipy import stats

from condvae.experiments import reporting
from condvae.experiments.evaluation import figures
from recipes import baselines_results
from recipes.baselines import TITLES
from recipes.baselines_results import (
    PAGE,
    Options,
    best_of_table,
    main,
    page_at,
    random_table,
    shown_methods,
    winners,
)
from recipes.baselines_statements import RULES, leaders, statements
from recipes.pages import short

MIXTURE = "mixture"


@pytest.fixture
def result() -> dict[str, Any]:
    return report()


@pytest.fixture
def page(tmp_path: Path) -> Path:
    """The published page without its numbers."""
    return Path(shutil.copy(PAGE, tmp_path / "page.md"))


def written(folder: Path, result: dict[str, Any]) -> Path:
    path = folder / "run" / "baselines.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(result))
    return path


def verdicts(result: dict[str, Any]) -> dict[str, str]:
    return {one.text: one.verdict for one in statements(shown_methods(result))}


def shift(result: dict[str, Any], method: str, metric: str, other: str, factor: float) -> None:
    """Give a method the numbers of another one, times a factor."""
    ours, theirs = (result["methods"][name]["metrics"][metric] for name in (method, other))
    for column, cell in theirs.items():
        ours[column] = {**cell, "mean": factor * cell["mean"]}


def test_the_tables_show_the_numbers(tmp_path: Path, page: Path, result: dict[str, Any]) -> None:
    main(Options(baselines=written(tmp_path, result), page=page))
    lines = page.read_text().splitlines()
    fid = result["methods"]["pic"]["metrics"]["fid"]
    (row,) = [line for line in lines if line.startswith(f"| PIC | {fid[MIXTURE]['mean']:.1f} ± ") and "75 %" in line]
    assert row.endswith("| .030, .040 | 75 %, 74 % | 3.95 | 5.50 |")
    cells = [f"{cell['mean']:.1f}" for cell in fid.values()]
    assert f"| PIC | {' | '.join(cells)} |" in lines
    assert "| IPA: VAE | 2.78 | 16,000 | 2.05 | 12,346 | 166 | 128 | 0.001 | 3.10 | NVIDIA H200 |" in lines
    unlogged = "| IPA, embedded: VAE | 8.96 | 53,943 | 6.90 | not logged | not logged | 128 |"
    assert any(line.startswith(unlogged) for line in lines)
    (quoted,) = [line for line in lines if line.startswith("| RFR | ") and "*44.35*" in line]
    for words in ("*2.76*", "*.0883*", "| 3.95 GPU-minutes | *450 GPU-hours* | 5.50 | *31* |"):
        assert words in quoted
    assert not any("CoModGAN*" in line for line in lines)
    assert all(f"| {rule} | {words} |" in lines for rule, words in RULES.items())
    (row,) = [line for line in lines if line.startswith("| nearest training images | ") and "71 %" in line]
    assert row.endswith("| none | none |")


def test_refilling_changes_nothing(tmp_path: Path, page: Path, result: dict[str, Any]) -> None:
    main(Options(baselines=written(tmp_path, result), page=page))
    text, numbers = page.read_text(), (tmp_path / "page" / "baselines.json").read_text()
    main(Options(page=page))
    assert page.read_text() == text == page_at(page).filled()
    assert (tmp_path / "page" / "baselines.json").read_text() == numbers


def test_verdicts_follow_the_numbers(result: dict[str, Any]) -> None:
    best = "IPA has a better FID than CE, ANP, PIC and RFR, in the mixture of bins"
    by_bin = best.replace("the mixture of bins", "each bin").replace("in the each", "in each")
    order = "by LPIPS-GT, the order of the baselines is PIC, ANP, CE, RFR, the best first"
    by_fid = "by FID, the order of the baselines is PIC, CE, ANP, RFR, the best first"
    found = verdicts(result)
    assert (found[best], found[by_bin], found[order], found[by_fid]) == (*["reproduced"] * 3, "refuted")
    shift(result, "pic", "fid", "ipa, t 1", 1.0)
    assert verdicts(result)[best] == verdicts(result)[by_bin] == "undecided"
    shift(result, "pic", "fid", "ipa, t 1", 0.9)
    assert verdicts(result)[best] == verdicts(result)[by_bin] == "refuted"
    shift(result, "anp", "lpips_gt", "pic", 0.9)
    assert verdicts(result)[order] == "refuted"


def test_one_bin_refutes_what_must_hold_in_each(result: dict[str, Any]) -> None:
    text = "IPA has a better LPIPS-GT than CE, ANP, PIC and RFR, in "
    metrics = {name: result["methods"][name]["metrics"]["lpips_gt"] for name in ("anp", "ipa, t 1")}
    metrics["anp"]["0.8-1"]["mean"] = 0.5 * metrics["ipa, t 1"]["0.8-1"]["mean"]
    found = verdicts(result)
    assert (found[text + "the mixture of bins"], found[text + "each bin"]) == ("reproduced", "refuted")
    (one,) = [one for one in statements(shown_methods(result)) if one.text == text + "each bin"]
    assert "0.8-1: ANP better" in one.numbers and "0.6-0.8: IPA best" in one.numbers


def test_own_questions_are_answered(result: dict[str, Any]) -> None:
    varying = "our own question: does ANP, which varies, have a better LPIPS-GT than CE, which does not"
    blurred = "our own question: are completions of ANP less sharp than those of PIC?"
    calibrated = "our own question: in white projections, does IPA have a smaller calibration error than ANP and PIC?"

    def answer(text: str) -> str:
        (found,) = [verdict for one, verdict in verdicts(result).items() if one.startswith(text)]
        return found

    assert [answer(text) for text in (varying, blurred, calibrated)] == ["yes", "yes", "undecided"]
    shift(result, "anp", "lpips_gt", "ce", 1.2)
    shift(result, "anp", "sharpness", "pic", 1.0)
    for name, error in (("anp", 0.2), ("pic", 0.1)):
        result["methods"][name]["coverage"]["white"][MIXTURE]["error"] = error
    assert [answer(text) for text in (varying, blurred, calibrated)] == ["no", "undecided", "yes"]
    result["methods"]["pic"]["coverage"]["white"][MIXTURE]["error"] = 0.01
    assert answer(calibrated) == "no"


def test_correlation_is_of_ranks(result: dict[str, Any]) -> None:
    text = "LPIPS-GT is lower for methods with more LPIPS diversity"
    assert verdicts(result)[text] == "reproduced"
    for scale, name in enumerate(("ipa, t 1", "ce", "anp", "pic", "rfr"), start=1):
        for metric, power in (("lpips_gt", 1), ("lpips_diversity", 3)):
            result["methods"][name]["metrics"][metric][MIXTURE]["mean"] = scale**power / 1000
    assert verdicts(result)[text] == "refuted"
    (one,) = [one for one in statements(shown_methods(result)) if one.text == text]
    assert one.numbers.startswith("rank correlation 1.00, p = 1.00;")
    diversities = {"ipa, t 1": 4, "ce": 0, "anp": 2, "pic": 3, "rfr": 0}  # LPIPS-GT rises in this order
    for name, diversity in diversities.items():
        result["methods"][name]["metrics"]["lpips_diversity"][MIXTURE]["mean"] = diversity
    (one,) = [one for one in statements(shown_methods(result)) if one.text == text]
    found = stats.permutation_test(
        (list(diversities.values()),),
        lambda y: stats.spearmanr(range(5), y).statistic,
        permutation_type="pairings",
        alternative="less",
    )
    numbers = f"rank correlation {short(found.statistic, 2)}, p = {short(found.pvalue, 2)}; "
    assert one.verdict == "undecided" and one.numbers.startswith(numbers)


def test_winners_are_those_that_do_not_differ(result: dict[str, Any]) -> None:
    methods = shown_methods(result)
    cells = {name: methods[name]["metrics"]["p_ids"][MIXTURE] for name in ("IPA", "CE", "ANP", "PIC", "RFR")}
    for name, mean in (("IPA", 0.10), ("CE", 0.11), ("ANP", 0.109), ("PIC", 0.0), ("RFR", 0.107)):
        cells[name] |= {"mean": mean, "standard_error": 0.001}
    # Twice the standard error of a difference is .0028.
    assert leaders(methods, tuple(cells), "p_ids") == ["CE", "ANP"]
    assert winners(methods, "p_ids", MIXTURE) == "**CE** (not different: ANP)"
    assert leaders(methods, tuple(cells), "fid") == ["IPA"]
    for cell in cells.values():
        cell["mean"] = 0.0
    assert winners(methods, "p_ids", MIXTURE) == "all equal"


def test_random_training_images_are_a_yardstick(result: dict[str, Any]) -> None:
    methods = shown_methods(result)
    random = methods["random training image"]["metrics"]
    for name, factor in (("CE", 1.5), ("ANP", 1.0), ("PIC", 0.5)):
        for metric in ("lpips_gt", "lpips_gt@1"):
            for column, cell in random[metric].items():
                methods[name]["metrics"][metric][column] = {**cell, "mean": factor * cell["mean"]}
    methods["CE"]["metrics"]["lpips_gt@1"][MIXTURE]["mean"] = 0.0
    rows = {row.split(" | ")[0].removeprefix("| "): row for row in random_table(methods).splitlines()}
    assert rows["CE"] == f"| CE | {' | '.join(['worse'] * 6)} | better |"
    assert rows["ANP"] == f"| ANP | {' | '.join(['not different'] * 7)} |"
    assert rows["PIC"] == f"| PIC | {' | '.join(['better'] * 7)} |"


def test_the_best_of_each_number_of_completions_is_bold(result: dict[str, Any]) -> None:
    methods = shown_methods(result)
    methods["RFR"]["metrics"]["lpips_gt@1"][MIXTURE]["mean"] = 0.00123
    head, _, *rows = best_of_table(methods).splitlines()
    assert head == "| K | 1 | 2 | 5 | 10 | 20 | 50 | 100 |"
    cells = {row.split(" | ")[0].removeprefix("| "): row.strip("| ").split(" | ")[1:] for row in rows}
    assert cells["RFR"][0] == "**.0012**" and list(cells) == list(methods)
    assert [sum(row[k].startswith("**") for row in cells.values()) for k in (0, 3)] == [1, 2]  # IPA is a copy of ours
    assert cells["PIC"][3] == f"{methods['PIC']['metrics']['lpips_gt@10'][MIXTURE]['mean']:.4f}"[1:]


def test_a_method_has_the_same_colour_in_all_figures(result: dict[str, Any]) -> None:
    pytest.importorskip("matplotlib")
    drawn = baselines_results.drawn_methods(result)
    assert list(drawn) == ["IPA", "CE", "ANP", "PIC", "RFR", "IPA, embedded", "nearest training images"]
    metrics = figures.metrics_figure({"methods": drawn})
    assert metrics is not None
    columns = baselines_results.PANELS
    fwv = reporting.panel_for_each(columns, lambda axis, column: baselines_results._fwv_panel(drawn, axis, column))

    def styles(figure: Any) -> list[dict[str, Any]]:
        found = []
        for axis in figure.axes:
            handles, names = axis.get_legend_handles_labels()
            lines = [handle.lines[0] if hasattr(handle, "lines") else handle for handle in handles]
            found.append({n: (one.get_color(), one.get_marker()) for n, one in zip(names, lines, strict=True)})
        return found

    first, *others = [*styles(metrics), *styles(fwv)]
    assert len(set(first.values())) == len(first) == 7
    assert all(style.items() <= first.items() for style in others)
    varying = [name for name in drawn if name not in ("CE", "RFR")]
    assert [list(style) for style in others[3:]] == [varying] * len(columns)


def test_figures_are_drawn_and_the_sheet_is_copied(
    tmp_path: Path, page: Path, result: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("matplotlib")
    monkeypatch.setattr(reporting, "DPI", 20)  # lossless WebP takes its time per pixel, and a layout per panel
    monkeypatch.setattr(figures, "PANELS", {"fid": figures.PANELS["fid"]})
    monkeypatch.setattr(baselines_results, "PANELS", (MIXTURE,))
    path = written(tmp_path, result)
    for name in ("sheet.png", "large_holes.png"):
        Image.new("RGB", (9, 5), "red").save(path.with_name(name))
    main(Options(baselines=path, page=page, figures=True))
    pictures = sorted(path.name for path in (tmp_path / "page").glob("*.webp"))
    assert pictures == ["fwv.webp", "large_holes.webp", "metrics.webp", "sheet.webp"]
    for name in pictures:
        with Image.open(tmp_path / "page" / name) as picture:
            assert picture.size == (9, 5) if name in ("sheet.webp", "large_holes.webp") else picture.width > 50
    text = page.read_text()
    assert all(f"baselines/{name}" in text for name in pictures)


def test_all_methods_have_their_rows() -> None:
    tables = baselines_results.all_tables({"baselines": report(later=True)})
    titles = [title for title in TITLES.values() if not title.startswith(("CE", "RFR"))]
    for name in ("main", "speed", "best-of", "bins-cfid", "bins-crps_pixels"):
        rows = [row.split(" | ")[0].removeprefix("| ") for row in tables[name].splitlines()[2:]]
        assert rows[: len(TITLES)] == list(TITLES.values()), name
    timed = {row.split(" | ")[0].removeprefix("| "): row for row in tables["equal-time"].splitlines()[2:]}
    assert list(timed) == titles
    distance = report(later=True)["methods"]["diffusion"]["metrics"]["lpips_gt"][MIXTURE]
    assert timed["Diffusion"].startswith(f"| Diffusion | 10 | {short(distance['mean'], 4)} ± ")
    assert timed["CoModGAN"].startswith("| CoModGAN | 400 (the limit) | ")
    assert timed["IPA"].endswith("| 70.0 %, 70.0 % | 90.0 % |")
    assert "| Diffusion | 500 | 2.000 | 20.00 | 20 |" in tables["speed"]
    assert "| 2.000 | 3.95 | 5.50 |" in tables["main"] and "| not measured | none | none |" in tables["main"]
    assert "CRPS of pixels" in tables["winners"] and "long" not in tables["winners"]  # they had another budget
    assert "| CoModGAN | " in tables["paper"] and "*268 GPU-hours*" in tables["paper"] and "VQ" not in tables["paper"]


def test_statements_about_all_methods() -> None:
    result = report(later=True)
    found = verdicts(result)
    gan = "CoModGAN has a better FID than IPA, in the mixture of bins"
    all_five = "IPA has a better LPIPS-GT than CE, ANP, PIC, RFR and CoModGAN, in the mixture of bins"
    order = "by LPIPS-GT, the order of the baselines is CoModGAN, PIC, ANP, CE, RFR, the best first"
    better = "our own question: does the diffusion model have a better {} than IPA?"
    assert (found[gan], found[all_five], found[order]) == ("refuted", "reproduced", "reproduced")
    assert [found[better.format(name)] for name in ("FID", "LPIPS-GT", "CFID")] == ["yes"] * 3
    assert "IPA has a better FID than CE, ANP, PIC and RFR, in each bin" in found
    shift(result, "comodgan", "fid", "ipa, t 1", 0.8)
    shift(result, "diffusion", "lpips_gt", "ipa, t 1", 1.3)
    assert verdicts(result)[gan] == "reproduced" and verdicts(result)[better.format("LPIPS-GT")] == "no"


def test_bad_input_is_one_line_and_changes_nothing(tmp_path: Path, page: Path, result: dict[str, Any]) -> None:
    before = page.read_text()
    done = run("baselines_results.py", "--page", page)
    assert (done.returncode, done.stderr) == (
        2, "baselines_results: there are no numbers: give the JSON file of recipes/baselines.py with --baselines\n",
    )  # fmt: skip
    training = {"other" if name == "cifar10" else name: found for name, found in result["training"].items()}
    for change, said in (
        ({"format": "condvae evaluation"}, "baselines.json has no results of recipes/baselines.py: give the JSON file"),
        ({"training": training}, "the page shows the model cifar10: run recipes/baselines.py without --model"),
    ):
        path = written(tmp_path, {**result, **change})
        done = run("baselines_results.py", "--page", page, "--baselines", path)
        assert done.returncode == 2 and done.stderr.count("\n") == 1
        assert said in done.stderr
    assert page.read_text() == before and not page.with_suffix("").exists()
