"""Each statement about pretraining gets the verdict that its rule demands, and its numbers match closed forms."""

import math
from typing import Any

import numpy as np
import pytest
from helpers.pretraining_results import Values, arm_of, falling, result_of
from scipy import stats

from recipes.pretraining_statements import (
    F_95,
    RULES,
    Curve,
    after_whole_budgets,
    against_bound,
    against_time,
    ahead_until,
    at_equal_bound,
    at_equal_times,
    deviation,
    early_on,
    statements,
    varies_less,
    with_pretraining,
)
from recipes.statements import REFUTED, REPRODUCED, UNDECIDED

SHORT, LONG = (0.2, 0.4, 0.8, 1.5), (0.25, 0.5, 1.0, 2.0, 3.0)
VERDICTS = [(-0.5, REPRODUCED), (0.5, REFUTED), (0.015, UNDECIDED)]
"""How far our arm is above the other one, where trainings differ by .01, and the verdict on being better."""


def curve(arm: str, minutes: tuple[float, ...], values: Values) -> Curve:
    return Curve(arm=arm, positions=np.log(minutes), values=np.array(values))


def line(arm: str, minutes: tuple[float, ...], start: float, slope: float, between: float = 0.01) -> Curve:
    return curve(arm, minutes, falling(minutes, start, slope, between))


def shifted(values: Values, at: int, by: float) -> Values:
    return [[value + by * (i == at) for value in row] for i, row in enumerate(values)]


def test_interpolation_is_linear_in_log_time() -> None:
    found = line("scratch", LONG, 2.0, 0.3).at(math.log(0.7))
    assert found == pytest.approx([2 - 0.3 * math.log(0.7) + k for k in (-0.01, 0, 0.01)])


def test_common_times_are_snapshots_in_the_ranges_of_both() -> None:
    ours, theirs = line("ipa", SHORT, 1.0, 0.1), line("scratch", LONG, 1.0, 0.1)
    assert np.exp(ours.common(theirs)) == pytest.approx([0.25, 0.4, 0.5, 0.8, 1.0, 1.5])
    assert ours.common(theirs) == theirs.common(ours)


@pytest.mark.parametrize(("above", "verdict"), VERDICTS)
def test_better_at_all_common_times(above: float, verdict: str) -> None:
    ours, theirs = line("ipa", SHORT, 1.0 + above, 0.1), line("scratch", LONG, 1.0, 0.1)
    assert at_equal_times(ours, theirs, "bits_per_dim")[0] == verdict


def test_one_time_is_enough_to_refute_and_is_shown() -> None:
    theirs = line("scratch", LONG, 1.0, 0.1)
    ours = curve("ipa", SHORT, shifted(falling(SHORT, 0.5, 0.1), at=2, by=0.6))
    verdict, numbers = at_equal_times(ours, theirs, "bits_per_dim")
    mean = 1 - 0.1 * math.log(0.8)
    assert verdict == REFUTED
    assert f"{mean + 0.1:.4f} ±.0100 (IPA) against {mean:.4f} ±.0100 (from scratch) after .80 minutes" in numbers
    assert numbers.endswith("worse at 1 of 6 common times; its mean is ahead until .71 minutes, and again at the end")


def test_without_a_common_time_nothing_is_decided() -> None:
    ours, theirs = line("ipa", (0.1, 0.2), 0.1, 0.1), line("scratch", LONG, 1.0, 0.1)
    for decide in (at_equal_times, early_on, varies_less, with_pretraining):
        verdict, numbers = decide(ours, theirs, "fid")
        assert verdict == UNDECIDED
        assert numbers == "no common time: IPA .10 to .20 minutes, from scratch .25 to 3.00 minutes"


@pytest.mark.parametrize(("above", "verdict"), VERDICTS)
def test_last_snapshots(above: float, verdict: str) -> None:
    level = 40 - 5 * math.log(3)
    start = level + above + 5 * math.log(1.5)  # so that our last mean is `above` over theirs
    ours, theirs = line("ipa", SHORT, start, 5.0), line("scratch", LONG, 40.0, 5.0)
    found, numbers = after_whole_budgets(ours, theirs, "fid")
    assert found == verdict
    low = "is never that low" if above > 0 else f"is that low after {1.5 * math.exp(above / 5):.2f} minutes"
    assert numbers == (
        f"FID: {level + above:.2f} ±.01 after 1.50 minutes (IPA) against {level:.2f} ±.01 after 3.00 minutes (from "
        f"scratch); the mean of IPA {low}"
    )


def by_bound(arm: str, bounds: tuple[float, ...], factor: float, between: float) -> Curve:
    """Return log FID against the bound, where FID = factor * exp(5 * bits)."""
    bits = [[bound - 0.01, bound, bound + 0.01] for bound in bounds]
    fid = [[factor * math.exp(5 * bound + k * between) for k in (-1, 0, 1)] for bound in bounds]
    return against_bound({"arms": {arm: arm_of(SHORT, bits, fid)}}, arm)


@pytest.mark.parametrize(
    ("factor", "between", "verdict"), [(0.5, 0.1, REPRODUCED), (2.0, 0.1, REFUTED), (0.5, 0.5, UNDECIDED)]
)
def test_fid_at_equal_bounds(factor: float, between: float, verdict: str) -> None:
    ours = by_bound("transfer", (0.95, 0.8, 0.82, 0.7), factor, between)  # not always falling
    theirs = by_bound("scratch", (1.3, 1.1, 0.9, 0.75), 1.0, between)
    found, numbers = at_equal_bound(ours, theirs)
    ratio = f"{1 / factor:.2f}".removeprefix("0")
    assert found == verdict
    assert numbers.startswith(
        f"from -ELBO .7500 to .9500 bits/dim, FID from scratch is {ratio} to {ratio} times that of transfer"
    )
    assert numbers.endswith("of 5 common values")


def test_bounds_that_do_not_overlap_say_how_far_they_are_apart() -> None:
    ours, theirs = (
        by_bound("ipa", (0.7, 0.65, 0.62, 0.6), 0.1, 0.0),
        by_bound("scratch", (0.9, 0.8, 0.77, 0.725), 1, 0),
    )
    for one, other in ((ours, theirs), (theirs, ours)):
        verdict, numbers = at_equal_bound(one, other)
        assert verdict == UNDECIDED and numbers.startswith("the ranges of -ELBO are .0250 bits/dim apart: ")
    assert "IPA .6000 to .7000" in numbers and "from scratch .7250 to .9000" in numbers


@pytest.mark.parametrize(("above", "verdict"), VERDICTS)
def test_early_on_only_the_first_common_time_counts(above: float, verdict: str) -> None:
    theirs = line("scratch", LONG, 1.0, 0.1)
    ours = falling(LONG, 1.0 + above, 0.1)
    for at in range(1, len(LONG)):
        ours = shifted(ours, at, -2 * above)
    found, numbers = early_on(curve("transfer", LONG, ours), theirs, "bits_per_dim")
    assert found == verdict and "after .25 minutes; " in numbers


def test_the_crossing_of_two_lines_is_exact() -> None:
    ours, theirs = line("transfer", SHORT, 1.0, 0.1), line("scratch", LONG, 1.1, 0.9)
    assert ahead_until(ours, theirs) == f"its mean is ahead until {math.exp(0.1 / 0.8):.2f} minutes"


@pytest.mark.parametrize(
    ("ours", "theirs", "text"),
    [
        ((SHORT, 9.0, 0.5), (LONG, 5.0, 0.5), "its mean is not ahead"),
        ((SHORT, 1.0, 0.9), (LONG, 1.1, 0.1), "its mean is ahead only later"),
        ((LONG, 1.0, 0.5), (SHORT, 5.0, 0.5), "its mean is ahead to the end of the run from scratch, 1.50 minutes"),
        (
            (SHORT, 1.0, 0.5),
            (LONG, 5.0, 0.5),
            "its mean is ahead to the end of its own budget, 1.50 minutes; training from scratch does not reach its "
            "last mean within 3.00 minutes",
        ),
        (
            (SHORT, 5.0, 0.5),
            (LONG, 5.2, 0.5),
            "its mean is ahead to the end of its own budget, 1.50 minutes; training from scratch reaches its last mean "
            f"after {1.5 * math.exp(0.2 / 0.5):.2f} minutes",
        ),
    ],
)
def test_the_end_of_a_lead_without_a_crossing(ours: Any, theirs: Any, text: str) -> None:
    assert ahead_until(line("transfer", *ours), line("scratch", *theirs)) == text


@pytest.mark.parametrize(
    ("ours", "theirs", "verdict", "ratio"),
    [(0.1, 0.5, REPRODUCED, "25"), (0.1, 0.4, UNDECIDED, "16"), (0.5, 0.1, REFUTED, "0.04")],
)
def test_variances_over_trainings(ours: float, theirs: float, verdict: str, ratio: str) -> None:
    found, numbers = varies_less(line("ipa", SHORT, 9, 1, ours), line("scratch", LONG, 9, 1, theirs), "fid")
    assert found == verdict
    assert f"standard deviation .{ours * 100:.0f} against .{theirs * 100:.0f} " in numbers
    assert numbers.endswith(f"ratio of the variances {ratio}, the limit is 19")


def test_variances_are_averaged_over_times() -> None:
    ours, theirs = falling(SHORT, 9, 1, 0.1), falling(SHORT, 9, 1, 0.1)
    theirs[0] = [9.0, 10.0, 11.0]  # variance 1, and .01 at the three other times
    numbers = varies_less(curve("ipa", SHORT, ours), curve("scratch", SHORT, theirs), "fid")[1]
    assert f"ratio of the variances {(1 + 3 * 0.01) / 4 / 0.01:.3g}," in numbers


def test_one_training_has_no_variance() -> None:
    one = curve("ipa", SHORT, [[1.0]] * len(SHORT))
    assert varies_less(one, one, "fid") == (UNDECIDED, "there is no F quantile for 1 trainings")


@pytest.mark.parametrize(
    ("std", "text"), [(0.04, ".04"), (0.004, ".004"), (0.00042, ".0004"), (0.00004, ".00"), (1.25, "1.25")]
)
def test_small_standard_deviations_get_more_digits(std: float, text: str) -> None:
    assert deviation(std, 2) == text


def test_quantiles_of_f() -> None:
    for trainings, quantile in F_95.items():
        assert stats.f.ppf(0.95, trainings - 1, trainings - 1) == pytest.approx(quantile, rel=1e-3)


def everything(above: float) -> dict[str, Any]:
    """Return a result in which each arm is `above` over the one that the paper expects to be worse than it."""

    def arm(minutes: tuple[float, ...], start: float, between: float, pretraining: float = 0.0) -> dict[str, Any]:
        bits, fid = falling(minutes, start, 0.4, between), falling(minutes, 10 * start, 4, 10 * between)
        return arm_of(minutes, bits, fid, pretraining)

    apart = abs(above) < 0.1
    return result_of(
        {
            "scratch": arm(LONG, 3.0, 0.01 if apart or above > 0 else 0.1),
            "ipa": arm(SHORT, 3.0 + 2 * above, 0.01 if apart or above < 0 else 0.1, 9.0),
            "transfer": arm(SHORT, 3.0 + above, 0.01, 4.0),
            "ipa-short": arm(SHORT, 3.0 + 3 * above, 0.01, 1.5),
        }
    )


@pytest.mark.parametrize(("above", "verdict"), [(-0.6, REPRODUCED), (0.6, REFUTED), (0.005, UNDECIDED)])
def test_all_statements_of_one_result(above: float, verdict: str) -> None:
    found = statements(everything(above))
    assert [one.rule for one in found] == list("AABBCCDDAAEEFF") and set("AABBCCDDAAEEFF") == RULES.keys()
    # B and F compare different times of training, so they are not undecided if the curves are equal.
    agree = [one for one in found if one.rule in "ADE" or (one.rule == "B" and verdict != UNDECIDED)]
    assert {one.verdict for one in agree} == {verdict}, agree


@pytest.mark.parametrize(("above", "verdict"), VERDICTS)
def test_the_answer_to_our_own_question(above: float, verdict: str) -> None:
    ours, theirs = line("ipa-short", SHORT, 1.0 + above, 0.1), line("scratch", LONG, 1.0, 0.1)
    answer = {REPRODUCED: "yes", REFUTED: "no", UNDECIDED: UNDECIDED}[verdict]
    assert with_pretraining(ours, theirs, "bits_per_dim")[0] == answer


def test_the_own_question_is_about_the_time_with_pretraining() -> None:
    result = everything(-0.6)
    ours, theirs = (against_time(result, arm, "fid", "total_minutes") for arm in ("ipa-short", "scratch"))
    answer, numbers = with_pretraining(ours, theirs, "fid")
    assert (
        answer == "yes" and "after 3.00 minutes; IPA-short is better at 5 and worse at 0 of 5 common times" in numbers
    )
    assert f"{12 - 4 * math.log(1.5):.2f} ±.10 (IPA-short) against {30 - 4 * math.log(3):.2f} " in numbers


def test_statements_about_missing_arms_are_left_out() -> None:
    result = everything(-0.6)
    del result["arms"]["transfer"], result["arms"]["ipa-short"]
    assert [one.rule for one in statements(result)] == ["A", "A", "B", "B", "C", "E", "E"]
