"""Decide what the paper says about pretraining, from the numbers of the experiment alone. `RULES` says how.

In all metrics here, -ELBO, FID and KID, lower is better.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from condvae.experiments.pretraining.plan import METRICS, SCRATCH
from recipes.pages import short
from recipes.statements import REFUTED, REPRODUCED, UNDECIDED, Statement, verdict_of

IPA, TRANSFER, IPA_SHORT = "ipa", "transfer", "ipa-short"
NAMES = {SCRATCH: "from scratch", IPA: "IPA", TRANSFER: "transfer", IPA_SHORT: "IPA-short"}
"""The arms of the experiment, and their names on the page."""
COMPARED = {"bits_per_dim": "ELBO", "fid": "FID"}
"""The metrics of the paper's figure, and their names in its statements."""
_SHOWN = {"bits_per_dim": "-ELBO in bits/dim", "fid": "FID", "kid": "KID x 1,000"}
F_95 = {2: 161.4, 3: 19.0, 4: 9.28, 5: 6.39}
"""The 95 % quantile of the F distribution with n - 1 and n - 1 degrees of freedom, by the number of trainings n."""

RULES = {
    "A": "Reproduced if IPA is better at all common times; refuted if it is worse at some common time.",
    "B": "The last snapshots are compared, each after the arm's whole budget. Reproduced if IPA is better; refuted "
    "if it is worse.",
    "C": "FID is a function of -ELBO: each training's log FID at a snapshot belongs to the arm's mean -ELBO there, and "
    "is interpolated linearly between neighbouring values of -ELBO. Common values are those of all snapshots of both "
    "arms that are in the ranges of both. Reproduced if IPA, or transfer, has the better FID at all common values; "
    "refuted if it has the worse FID at some. Undecided if the ranges do not overlap.",
    "D": "Reproduced if transfer is better at the first common time; refuted if it is worse. The time until which it "
    "stays ahead is where the means of the two arms cross.",
    "E": "The variances over trainings are averaged over the common times. Reproduced if the average from scratch, "
    "divided by that of IPA, exceeds the 95 % quantile of F; refuted if the inverse ratio does. F has as many degrees "
    "of freedom on each side as one time has (2 for 3 trainings), since the times of one training are not independent.",
    "F": "Time counts from the start of pretraining. Compared at the last common time: yes if IPA-short is better, no "
    "if it is worse.",
}


@dataclass(frozen=True, kw_only=True, eq=False)
class Curve:
    """Numbers of one arm along an axis, such as the logarithm of time, for each of its trainings."""

    arm: str
    positions: NDArray[np.float64]
    """[T], rising."""
    values: NDArray[np.float64]
    """[T, trainings]."""

    def at(self, position: float) -> NDArray[np.float64]:
        """Return the value of each training at a position in the curve's range, interpolated linearly."""
        return np.array([np.interp(position, self.positions, training) for training in self.values.T])

    def mean(self, position: float) -> float:
        return float(self.at(position).mean())

    def common(self, other: "Curve") -> list[float]:
        """Return the positions of both curves that are in the ranges of both. There, at least one was measured."""
        first = max(self.positions[0], other.positions[0])
        last = min(self.positions[-1], other.positions[-1])
        both = np.union1d(self.positions, other.positions)
        return [float(position) for position in both if first <= position <= last]

    def reaches(self, level: float, since: float = -np.inf) -> float | None:
        """Return the first position, from `since` on, at which the mean over trainings is not above a level."""
        found = [float(position) for position in self.positions if position > since]
        if self.positions[0] <= since <= self.positions[-1]:
            found.insert(0, since)
        return _first_at_most(found, [self.mean(position) - level for position in found])


def against_time(result: Mapping[str, Any], arm: str, metric: str, time: str = "minutes") -> Curve:
    """Return a metric of an arm against the logarithm of time. time: "minutes" or "total_minutes"."""
    points = result["arms"][arm]["points"]
    minutes, values = [point[time] for point in points], [point[metric]["values"] for point in points]
    return Curve(arm=arm, positions=np.log(minutes), values=np.array(values))


def against_bound(result: Mapping[str, Any], arm: str) -> Curve:
    """Return the log FID of an arm against its mean -ELBO."""
    points = sorted(result["arms"][arm]["points"], key=lambda point: point["bits_per_dim"]["mean"])
    bounds = [point["bits_per_dim"]["mean"] for point in points]
    return Curve(arm=arm, positions=np.array(bounds), values=np.log([point["fid"]["values"] for point in points]))


def _first_at_most(positions: list[float], gaps: list[float]) -> float | None:
    """Return where a piecewise linear function first is 0 or less, or None if it is nowhere."""
    at = next((i for i, gap in enumerate(gaps) if gap <= 0), None)
    if at is None or at == 0:
        return None if at is None else positions[0]
    share = gaps[at - 1] / (gaps[at - 1] - gaps[at])
    return positions[at - 1] + share * (positions[at] - positions[at - 1])


def lead(ours: NDArray[np.float64], theirs: NDArray[np.float64]) -> int:
    """Return 1 if each of our trainings is lower than each of theirs, -1 if each is higher, and 0 otherwise."""
    return int(ours.max() < theirs.min()) - int(ours.min() > theirs.max())


def spread(values: NDArray[np.float64], metric: str) -> str:
    """Format the mean and, for several trainings, their standard deviation."""
    digits = METRICS[metric].digits
    std = f" ±{deviation(float(values.std(ddof=1)), digits)}" if len(values) > 1 else ""
    return f"{short(float(values.mean()), digits)}{std}"


def deviation(std: float, digits: int) -> str:
    """Format a standard deviation, with up to two digits more than the mean if it would be rounded to 0."""
    texts = [short(std, more) for more in range(digits, digits + 3)]
    return next((text for text in texts if float(text)), texts[0])


def minutes_text(position: float) -> str:
    return short(float(np.exp(position)), 2)


def _compared(ours: Curve, theirs: Curve, metric: str, time: float) -> str:
    values = " against ".join(f"{spread(one.at(time), metric)} ({NAMES[one.arm]})" for one in (ours, theirs))
    return f"{_SHOWN[metric]}: {values} after {minutes_text(time)} minutes"


def compared(ours: Curve, theirs: Curve, metric: str, mine: float, other: float) -> str:
    """Format the values of two arms, each at its own time."""
    values = " against ".join(
        f"{spread(one.at(time), metric)} after {minutes_text(time)} minutes ({NAMES[one.arm]})"
        for one, time in ((ours, mine), (theirs, other))
    )
    return f"{_SHOWN[metric]}: {values}"


def _range_text(curve: Curve, text: Callable[[float], str]) -> str:
    return f"{NAMES[curve.arm]} {text(float(curve.positions[0]))} to {text(float(curve.positions[-1]))}"


def _no_common_time(ours: Curve, theirs: Curve) -> str:
    return f"no common time: {_range_text(ours, minutes_text)} minutes, {_range_text(theirs, minutes_text)} minutes"


def _counts(ours: Curve, leads: list[int], where: str) -> str:
    name = NAMES[ours.arm]
    return f"{name} is better at {leads.count(1)} and worse at {leads.count(-1)} of {len(leads)} common {where}"


def at_equal_times(ours: Curve, theirs: Curve, metric: str) -> tuple[str, str]:
    """Rule A: return the verdict and the numbers at the time that decides, or at the last one if all agree."""
    times = ours.common(theirs)
    leads = [lead(ours.at(time), theirs.at(time)) for time in times]
    if not times:
        return UNDECIDED, _no_common_time(ours, theirs)
    verdict = verdict_of(leads)
    shown = times[-1] if verdict == REPRODUCED else times[leads.index(-1 if verdict == REFUTED else 0)]
    until = "" if verdict == REPRODUCED else f"; {ahead_until(ours, theirs)}"
    return verdict, f"{_compared(ours, theirs, metric, shown)}; {_counts(ours, leads, 'times')}{until}"


def after_whole_budgets(ours: Curve, theirs: Curve, metric: str) -> tuple[str, str]:
    """Rule B."""
    mine, other = ours.values[-1], theirs.values[-1]
    when = ours.reaches(float(other.mean()))
    reached = "is never that low" if when is None else f"is that low after {minutes_text(when)} minutes"
    ends = (float(curve.positions[-1]) for curve in (ours, theirs))
    numbers = f"{compared(ours, theirs, metric, *ends)}; the mean of {NAMES[ours.arm]} {reached}"
    return verdict_of([lead(mine, other)]), numbers


def at_equal_bound(ours: Curve, theirs: Curve) -> tuple[str, str]:
    """Rule C. The curves are log FID against the bound."""
    digits = METRICS["bits_per_dim"].digits
    bounds = ours.common(theirs)
    if not bounds:
        miss = max(ours.positions[0], theirs.positions[0]) - min(ours.positions[-1], theirs.positions[-1])
        ranges = ", ".join(_range_text(curve, lambda bits: short(bits, digits)) for curve in (ours, theirs))
        return UNDECIDED, f"the ranges of -ELBO are {short(float(miss), digits)} bits/dim apart: {ranges}"
    leads = [lead(ours.at(bound), theirs.at(bound)) for bound in bounds]
    ratios = [float(np.exp(theirs.mean(bound) - ours.mean(bound))) for bound in bounds]
    numbers = (
        f"from -ELBO {short(bounds[0], digits)} to {short(bounds[-1], digits)} bits/dim, FID {NAMES[theirs.arm]} is "
        f"{short(min(ratios), 2)} to {short(max(ratios), 2)} times that of {NAMES[ours.arm]}; "
        f"{_counts(ours, leads, 'values')}"
    )
    return verdict_of(leads), numbers


def early_on(ours: Curve, theirs: Curve, metric: str) -> tuple[str, str]:
    """Rule D."""
    times = ours.common(theirs)
    if not times:
        return UNDECIDED, _no_common_time(ours, theirs)
    verdict = verdict_of([lead(ours.at(times[0]), theirs.at(times[0]))])
    return verdict, f"{_compared(ours, theirs, metric, times[0])}; {ahead_until(ours, theirs)}"


def ahead_until(ours: Curve, theirs: Curve) -> str:
    """Say until when the mean of our arm is below the mean of theirs, from their first common time on.

    If it is below at their last common time, too, this is said.
    """
    times = ours.common(theirs)
    # Both means are linear between these times, so the crossing is exact.
    leads = [theirs.mean(time) - ours.mean(time) for time in times]
    crossing, at_the_end = _first_at_most(times, leads), leads[-1] > 0
    if crossing == times[0]:
        return "its mean is ahead only later" if at_the_end else "its mean is not ahead"
    if crossing is not None:
        again = ", and again at the end" if at_the_end else ""
        return f"its mean is ahead until {minutes_text(crossing)} minutes{again}"
    end, their_end = float(ours.positions[-1]), float(theirs.positions[-1])
    other = NAMES[theirs.arm]
    if their_end <= end:
        return f"its mean is ahead to the end of the run {other}, {minutes_text(their_end)} minutes"
    when = theirs.reaches(ours.mean(end), since=end)
    then = (
        f"does not reach its last mean within {minutes_text(their_end)} minutes"
        if when is None
        else f"reaches its last mean after {minutes_text(when)} minutes"
    )
    return f"its mean is ahead to the end of its own budget, {minutes_text(end)} minutes; training {other} {then}"


def varies_less(ours: Curve, theirs: Curve, metric: str) -> tuple[str, str]:
    """Rule E."""
    times, trainings = ours.common(theirs), ours.values.shape[1]
    if not times:
        return UNDECIDED, _no_common_time(ours, theirs)
    if trainings not in F_95:
        return UNDECIDED, f"there is no F quantile for {trainings} trainings"
    mine, other = (float(np.mean([c.at(time).var(ddof=1) for time in times])) for c in (ours, theirs))
    limit = F_95[trainings]
    verdict = REPRODUCED if other > limit * mine else REFUTED if mine > limit * other else UNDECIDED
    ratio = f"{float(f'{other / mine:.3g}'):,g}" if mine else "undefined"
    digits = METRICS[metric].digits
    deviations = " against ".join(deviation(variance**0.5, digits) for variance in (mine, other))
    return verdict, (
        f"{_SHOWN[metric]}: standard deviation {deviations} (root of the average variance at {len(times)} common "
        f"times); ratio of the variances {ratio}, the limit is {limit:g}"
    )


def with_pretraining(ours: Curve, theirs: Curve, metric: str) -> tuple[str, str]:
    """Rule F. The answer is yes, no or undecided, since the paper makes no such statement."""
    times = ours.common(theirs)
    if not times:
        return UNDECIDED, _no_common_time(ours, theirs)
    leads = [lead(ours.at(time), theirs.at(time)) for time in times]
    answer = {1: "yes", -1: "no", 0: UNDECIDED}[leads[-1]]
    return answer, f"{_compared(ours, theirs, metric, times[-1])}; {_counts(ours, leads, 'times')}"


Decide = Callable[[Curve, Curve, str], tuple[str, str]]


def statements(result: Mapping[str, Any]) -> list[Statement]:
    """Decide all statements about arms that are in the result."""
    found: list[Statement] = []

    def compare(rule: str, decide: Decide, ours: str, theirs: str, text: str, time: str = "minutes") -> None:
        for metric, name in COMPARED.items() if {ours, theirs} <= result["arms"].keys() else ():
            first, second = (against_time(result, arm, metric, time) for arm in (ours, theirs))
            found.append(Statement(text.format(name), rule, *decide(first, second, metric)))

    compare("A", at_equal_times, IPA, SCRATCH, "IPA has a better {} than training from scratch for the same time")
    compare("B", after_whole_budgets, IPA, SCRATCH, "IPA has a better {} than training from scratch for longer")
    for arm in (arm for arm in (IPA, TRANSFER) if arm in result["arms"]):
        text = f"at equal ELBO, {NAMES[arm]} has a significantly better FID than training from scratch"
        decided = at_equal_bound(against_bound(result, arm), against_bound(result, SCRATCH))
        found.append(Statement(text, "C", *decided))
    compare("D", early_on, TRANSFER, SCRATCH, "early on, transfer has a better {} than training from scratch")
    compare("A", at_equal_times, IPA, TRANSFER, "IPA has a better {} than transfer")
    compare("E", varies_less, IPA, SCRATCH, "the {} of IPA varies less between trainings than from scratch")
    own = "our own question: with pretraining included, does IPA-short have a better {} than training from scratch?"
    compare("F", with_pretraining, IPA_SHORT, SCRATCH, own, "total_minutes")
    return found
