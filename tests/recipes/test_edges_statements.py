"""Each statement about edges-to-photos gets the verdict that its rule demands."""

import math
from typing import Any

import numpy as np
import pytest
from helpers.pretraining_results import arm_of, edges_result_of, falling

from recipes.edges_statements import RULES, asked, similar_or_better_sooner, statements
from recipes.pretraining_statements import Curve
from recipes.statements import REFUTED, REPRODUCED, UNDECIDED

TIMES = (0.1, 0.2, 0.4, 0.8, 1.4)


def line(arm: str, start: float, slope: float = 0.1, times: tuple[float, ...] = TIMES) -> Curve:
    """A metric that is start - slope * log(time) for three trainings, which differ by .01."""
    return Curve(arm=arm, positions=np.log(times), values=np.array(falling(times, start, slope)))


@pytest.mark.parametrize(
    ("above", "verdict"),
    [(-0.5, REPRODUCED), (0.0, REPRODUCED), (0.015, REPRODUCED), (0.03, REFUTED), (0.5, REFUTED)],
)
def test_two_days_are_compared_with_a_week(above: float, verdict: str) -> None:
    theirs = line("scratch", 2.0)
    # Transfer after .4 minutes is `above` training from scratch after 1.4 minutes.
    ours = line("transfer", 2.0 - 0.1 * math.log(1.4) + 0.1 * math.log(0.4) + above)
    found, numbers = similar_or_better_sooner(ours, theirs, "bits_per_dim")
    assert found == verdict
    end = 2.0 - 0.1 * math.log(1.4)
    assert numbers == (
        f"-ELBO in bits/dim: {end + above:.4f} ±.0100 after .40 minutes (transfer) against {end:.4f} ±.0100 after 1.40 "
        "minutes (from scratch)"
    )


@pytest.mark.parametrize("times", [(0.45, 1.4), (0.1, 0.35)])
def test_a_time_without_measurements_decides_nothing(times: tuple[float, ...]) -> None:
    found, numbers = similar_or_better_sooner(line("transfer", 1.0, times=times), line("scratch", 2.0), "fid")
    assert (found, numbers) == (UNDECIDED, "transfer was not measured around .40 minutes")


@pytest.mark.parametrize(("above", "answer"), [(-0.5, "yes"), (0.5, "no"), (0.0, UNDECIDED)])
def test_own_questions_are_answered(above: float, answer: str) -> None:
    assert asked(line("ipa", 2.0 + above), line("transfer", 2.0), "fid")[0] == answer


def result(**fids: float) -> dict[str, Any]:
    """A result in which the -ELBO of an arm is a hundredth of its FID."""
    arms = {}
    for name, fid in fids.items():
        between = 3.0 if name == "scratch" else 0.1
        bits = falling(TIMES, fid / 100, 0.02, between / 100)
        arms[name] = arm_of(TIMES, bits, falling(TIMES, fid, 2.0, between), 0.0 if name == "scratch" else 7.0)
    return edges_result_of(arms)


def test_all_statements_are_decided() -> None:
    found = statements(result(scratch=80.0, transfer=50.0, ipa=40.0))
    assert {one.rule for one in found} == RULES.keys()
    verdicts = {one.text: one.verdict for one in found}
    assert len(verdicts) == len(found) == 1 + 2 + 1 + 2 + 1 + 3 + 3
    assert verdicts == {
        "transfer has an ELBO similar to or better than that from scratch after 3.5 times the time": REPRODUCED,
        "transfer has a better ELBO than training from scratch for the same time": REPRODUCED,
        "transfer has a better FID than training from scratch for the same time": REPRODUCED,
        "at equal ELBO, transfer has a significantly better FID than training from scratch": UNDECIDED,
        "the ELBO of transfer varies less between trainings than from scratch": REPRODUCED,
        "the FID of transfer varies less between trainings than from scratch": REPRODUCED,
        **{
            f"our own question: at equal times, does {ours} have a better {metric} than {theirs}?": "yes"
            for ours, theirs, metrics in (
                ("transfer", "training from scratch", ("KID",)),
                ("IPA", "training from scratch", ("ELBO", "FID", "KID")),
                ("IPA", "transfer", ("ELBO", "FID", "KID")),
            )
            for metric in metrics
        },
    }


def test_a_worse_transfer_is_refuted() -> None:
    verdicts = [one.verdict for one in statements(result(scratch=40.0, transfer=90.0, ipa=91.0))]
    assert verdicts[:3] == 3 * [REFUTED] and verdicts[6:] == 7 * ["no"]
