"""AUROCs, means and intervals, compared with plain loops."""

import functools
import math
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from condvae.data.order import spread
from condvae.experiments.ood.measure import TEST
from condvae.experiments.ood.plan import MEAN, WHOLE, DetectionMethod
from condvae.experiments.ood.readings import BINS
from condvae.experiments.ood.summary import ALL, COLUMNS, PAPERS, Resamples, means_of, summarise
from condvae.metrics.auroc import interval
from condvae.ood.strange_sets import own

N, M, R = 30, 20, 20
SETS: dict[str, Any] = {"noise": (own("noise"), M), "flip": (own("flip"), N)}
ONE, OTHER, DEAR = (
    DetectionMethod("m", "gradient"),
    DetectionMethod("m", "likelihood"),
    DetectionMethod("m", "regret-10"),
)


def chosen(method: DetectionMethod, count: int) -> np.ndarray:
    return spread(count, 10 if method == DEAR else count)


def scores(seed: int, method: DetectionMethod = ONE, *, whole: bool = True) -> dict[str, dict[str, np.ndarray]]:
    dice = np.random.default_rng(seed)
    columns = [*BINS, *([WHOLE] if whole else [])]
    counts = {TEST: N, "noise": M, "flip": N}
    return {
        column: {name: dice.normal(name == TEST, size=len(chosen(method, count))) for name, count in counts.items()}
        for column in columns
    }


RESAMPLES = Resamples.draw(np.arange(N) // 2, SETS, R, seed=4)
SCORED = {ONE: scores(0), OTHER: scores(1, whole=False), DEAR: scores(2, DEAR)}
FOUND = summarise(SCORED, RESAMPLES, chosen)


@functools.cache
def by_hand(method: DetectionMethod, name: str, column: str, resample: int | None) -> float:
    """Compute an AUROC directly, with each image repeated as often as it occurs in the resample."""
    if column == MEAN:
        return float(np.mean([by_hand(method, name, one, resample) for one in BINS]))
    found = SCORED[method][column]
    rows, others = (np.arange(len(found[one])) for one in (TEST, name))
    if resample is not None:
        times = [RESAMPLES.test[resample][chosen(method, N)]]
        times.append(RESAMPLES.sets[name][resample][chosen(method, SETS[name][1])])
        rows, others = (np.repeat(some, often) for some, often in zip((rows, others), times, strict=True))
    labels = np.arange(len(rows) + len(others)) < len(rows)
    return float(roc_auc_score(labels, np.concatenate((found[TEST][rows], found[name][others]))))


@pytest.mark.parametrize("method", [ONE, OTHER, DEAR], ids=str)
@pytest.mark.parametrize("column", [BINS[0], BINS[4], MEAN])
def test_numbers_and_intervals_are_those_of_a_plain_loop(method: DetectionMethod, column: str) -> None:
    for name in SETS:
        cell = FOUND["methods"][str(method)]["auroc"][name][COLUMNS.index(column)]
        assert cell["mean"] == pytest.approx(by_hand(method, name, column, None), abs=1e-12)
        expected = interval([by_hand(method, name, column, r) for r in range(R)])
        assert (cell["low"], cell["high"]) == pytest.approx(expected, abs=1e-12)


def test_means_over_sets_and_differences_use_the_same_resamples() -> None:
    def mean(method: DetectionMethod, resample: int | None) -> float:
        return float(np.mean([by_hand(method, name, MEAN, resample) for name in SETS]))

    at = COLUMNS.index(MEAN)
    cell = FOUND["methods"][str(ONE)]["auroc"][ALL][at]
    assert cell["mean"] == pytest.approx(mean(ONE, None))
    cell = FOUND["differences"][f"{ONE} - {OTHER}"][ALL][at]
    assert cell["mean"] == pytest.approx(mean(ONE, None) - mean(OTHER, None))
    expected = interval([mean(ONE, r) - mean(OTHER, r) for r in range(R)])
    assert (cell["low"], cell["high"]) == pytest.approx(expected)


def test_columns_that_a_method_lacks_have_no_number() -> None:
    nothing = {"mean": None, "low": None, "high": None}
    at = COLUMNS.index(WHOLE)
    assert FOUND["methods"][str(OTHER)]["auroc"]["noise"][at] == nothing
    assert FOUND["differences"][f"{ONE} - {OTHER}"]["noise"][at] == nothing
    assert FOUND["methods"][str(ONE)]["auroc"]["noise"][at]["mean"] is not None
    assert [FOUND["methods"][str(method)]["images"] for method in SCORED] == [N, N, 10]


def test_paired_sets_and_images_of_a_patient_are_resampled_together() -> None:
    assert RESAMPLES.sets["flip"] is RESAMPLES.test
    assert np.array_equal(RESAMPLES.test[:, ::2], RESAMPLES.test[:, 1::2])
    assert RESAMPLES.sets["noise"].shape == (R, M) and (RESAMPLES.sets["noise"].sum(axis=1) == M).all()
    others = Resamples.draw(np.arange(N), {"a": SETS["noise"], "b": SETS["noise"]}, R, seed=4)
    assert not np.array_equal(others.sets["a"], others.sets["b"])


def test_infinite_scores_are_the_strangest_and_ties_count_half() -> None:
    same = {column: {TEST: np.zeros(N), "noise": np.full(M, -math.inf), "flip": np.zeros(N)} for column in BINS}
    found = summarise({ONE: same}, RESAMPLES, chosen)["methods"][str(ONE)]["auroc"]
    assert found["noise"][0] == {"mean": 1.0, "low": 1.0, "high": 1.0}
    assert found["flip"][0] == {"mean": 0.5, "low": 0.5, "high": 0.5}


def test_means_are_over_the_papers_sets_and_over_all() -> None:
    papers = ["noise", "constant", "flip", "rotate"]
    assert means_of([*papers, "svhn"]) == {PAPERS: papers, ALL: [*papers, "svhn"]}
    assert means_of(papers) == {ALL: papers}
    assert means_of(["svhn", "crop"]) == {ALL: ["svhn", "crop"]}
    assert means_of(["svhn"]) == {}
