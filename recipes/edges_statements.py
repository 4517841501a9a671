"""Decide what the paper says about edges-to-photos, for each data set, from the numbers of the experiment alone."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from condvae.experiments.pretraining.plan import SCRATCH
from recipes.pretraining_statements import (
    COMPARED,
    IPA,
    NAMES,
    TRANSFER,
    Curve,
    against_bound,
    against_time,
    at_equal_bound,
    at_equal_times,
    compared,
    lead,
    minutes_text,
    varies_less,
)
from recipes.statements import REFUTED, REPRODUCED, UNDECIDED, Statement

SHARE = 2 / 7
"""The time of transfer divided by the time from scratch in the paper's sentence: 2 days and 1 week."""

# Rules that docs/results/pretraining.md has, too, have the same letters there.
RULES = {
    "A": "Reproduced, or yes, if the first arm of the sentence is better than the second at all common times; refuted, "
    "or no, if it is worse at some common time.",
    "C": "FID is a function of -ELBO: each training's log FID at a snapshot belongs to the arm's mean -ELBO there, and "
    "is interpolated linearly between neighbouring values of -ELBO. Common values are those of all snapshots of both "
    "arms that are in the ranges of both. Reproduced if transfer has the better FID at all common values; refuted if "
    "it has the worse FID at some. Undecided if the ranges do not overlap.",
    "E": "The variances over trainings are averaged over the common times. Reproduced if the average from scratch, "
    "divided by that of transfer, exceeds the 95 % quantile of F; refuted if the inverse ratio does. F has as many "
    "degrees of freedom on each side as one time has (1 for 2 trainings), since the times of one training are not "
    "independent.",
    "G": "Transfer after 2/7 of the time from scratch, as 2 days are 2/7 of a week, is compared with the last snapshot "
    "from scratch. Reproduced if transfer is better, or if neither is better (similar); refuted if it is worse. "
    "Undecided if transfer was not measured around that time.",
}


def similar_or_better_sooner(ours: Curve, theirs: Curve, metric: str) -> tuple[str, str]:
    """Rule G."""
    end = float(theirs.positions[-1])
    early = end + float(np.log(SHARE))
    if not ours.positions[0] <= early <= ours.positions[-1]:
        return UNDECIDED, f"{NAMES[ours.arm]} was not measured around {minutes_text(early)} minutes"
    verdict = REFUTED if lead(ours.at(early), theirs.at(end)) < 0 else REPRODUCED
    return verdict, compared(ours, theirs, metric, early, end)


Decide = Callable[[Curve, Curve, str], tuple[str, str]]


def asked(ours: Curve, theirs: Curve, metric: str) -> tuple[str, str]:
    """Rule A for a question of our own, whose answer is yes, no or undecided."""
    verdict, numbers = at_equal_times(ours, theirs, metric)
    return {REPRODUCED: "yes", REFUTED: "no"}.get(verdict, verdict), numbers


def statements(result: Mapping[str, Any]) -> list[Statement]:
    """Decide all statements for one data set."""
    found: list[Statement] = []

    def compare(
        rule: str, decide: Decide, ours: str, theirs: str, text: str, metrics: Mapping[str, str] = COMPARED
    ) -> None:
        for metric, name in metrics.items():
            first, second = (against_time(result, arm, metric) for arm in (ours, theirs))
            found.append(Statement(text.format(name), rule, *decide(first, second, metric)))

    elbo, kid = {"bits_per_dim": "ELBO"}, {"kid": "KID"}
    sooner = "transfer has an {} similar to or better than that from scratch after 3.5 times the time"
    compare("G", similar_or_better_sooner, TRANSFER, SCRATCH, sooner, elbo)
    same = "transfer has a better {} than training from scratch for the same time"
    compare("A", at_equal_times, TRANSFER, SCRATCH, same)
    equal = "at equal ELBO, transfer has a significantly better FID than training from scratch"
    found.append(
        Statement(equal, "C", *at_equal_bound(against_bound(result, TRANSFER), against_bound(result, SCRATCH)))
    )
    compare("E", varies_less, TRANSFER, SCRATCH, "the {} of transfer varies less between trainings than from scratch")
    own = "our own question: at equal times, does {} have a better {{}} than {}?"
    compare("A", asked, TRANSFER, SCRATCH, own.format("transfer", "training from scratch"), kid)
    compare("A", asked, IPA, SCRATCH, own.format("IPA", "training from scratch"), {**COMPARED, **kid})
    compare("A", asked, IPA, TRANSFER, own.format("IPA", "transfer"), {**COMPARED, **kid})
    return found
