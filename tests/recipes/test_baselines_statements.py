"""Statements about the methods of a comparison are decided from its numbers alone, by stated rules."""

from typing import Any

import pytest
from helpers.baseline_reports import later_report, report
from scipy import stats

from recipes.baselines_joining import joined
from recipes.baselines_results import shown_methods
from recipes.baselines_statements import statements
from recipes.pages import short

MIXTURE = "mixture"


@pytest.fixture
def result() -> dict[str, Any]:
    return report()


def verdicts(result: dict[str, Any]) -> dict[str, str]:
    return {one.text: one.verdict for one in statements(shown_methods(result))}


def shift(result: dict[str, Any], method: str, metric: str, other: str, factor: float) -> None:
    """Give a method the numbers of another one, times a factor."""
    ours, theirs = (result["methods"][name]["metrics"][metric] for name in (method, other))
    for column, cell in theirs.items():
        ours[column] = {**cell, "mean": factor * cell["mean"]}


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
    text = "over IPA, CE, ANP, PIC and RFR, LPIPS-GT is lower for methods with more LPIPS diversity"
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


def test_statements_about_all_methods() -> None:
    result = report(later=True)
    found = verdicts(result)
    gan = "CoModGAN has a better FID than IPA, in the mixture of bins"
    most = "IPA has a better FID than CE, ANP, PIC, RFR and CoModGAN, in each bin up to 60 % hidden"
    assert found[most] == "reproduced"
    correlations = [text for text in found if "with more LPIPS diversity" in text]
    assert len(correlations) == 2 and correlations[0].startswith("over IPA, CE, ANP, PIC, RFR and CoModGAN, LPIPS-GT")
    (one,) = [one for one in statements(shown_methods(result)) if one.text == correlations[1]]
    assert "p < .01; " in one.numbers and "Diffusion" in one.numbers  # 8! orders of all methods
    all_five = "IPA has a better LPIPS-GT than CE, ANP, PIC, RFR and CoModGAN, in the mixture of bins"
    order = "by LPIPS-GT, the order of the baselines is CoModGAN, PIC, ANP, CE, RFR, the best first"
    better = "our own question: does the diffusion model have a better {} than IPA?"
    assert (found[gan], found[all_five], found[order]) == ("refuted", "reproduced", "reproduced")
    assert [found[better.format(name)] for name in ("FID", "LPIPS-GT", "CFID")] == ["yes"] * 3
    assert "IPA has a better FID than CE, ANP, PIC and RFR, in each bin" in found
    shift(result, "comodgan", "fid", "ipa, t 1", 0.8)
    shift(result, "diffusion", "lpips_gt", "ipa, t 1", 1.3)
    assert verdicts(result)[gan] == "reproduced" and verdicts(result)[better.format("LPIPS-GT")] == "no"


def test_the_diffusion_model_is_compared_by_the_metrics_that_both_have() -> None:
    def asked(result: dict[str, Any], other: str) -> dict[str, str]:
        """The answers about the diffusion model and another one, by metric."""
        begin, end = "our own question: does the diffusion model have a better ", f" than {other}?"
        found = verdicts(result).items()
        return {
            text.removeprefix(begin).removesuffix(end): verdict
            for text, verdict in found
            if text.startswith(begin) and text.endswith(end)
        }

    old = ["FID", "P-IDS", "LPIPS-GT", "LPIPS-GT, K = 1"]
    new = ["CRPS of pixels", "CRPS of LPIPS features", "CFID"]
    embedded = "the embedded IPA, which had about three times the training"
    assert list(asked(report(later=True), "IPA")) == [*old, *new]
    result = joined([report(), later_report()])
    assert list(asked(result, "IPA")) == old
    assert asked(result, embedded) == dict.fromkeys(["FID", *old[2:], *new], "yes")
    for metric in ("fid", "cfid"):
        shift(result, "diffusion", metric, "cifar10, t 1", 1.5)
    assert [name for name, said in asked(result, embedded).items() if said == "no"] == ["FID", "CFID"]
    assert asked(report(), "IPA") == asked(report(), embedded) == {}
