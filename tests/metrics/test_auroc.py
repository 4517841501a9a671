import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from condvae.metrics.auroc import auroc, bootstrap, interval, resampled_auroc, resampled_mean

CASES = st.lists(st.tuples(st.integers(0, 4), st.booleans()), min_size=1, max_size=30)


@given(CASES)
def test_all_pairs_are_counted_and_ties_count_half(cases: list[tuple[int, bool]]) -> None:
    scores, labels = [score for score, _ in cases], [label for _, label in cases]
    positives = [score for score, label in cases if label]
    negatives = [score for score, label in cases if not label]
    pairs = [(a > b) + (a == b) / 2 for a in positives for b in negatives]
    if not pairs:
        assert math.isnan(auroc(scores, labels))
    else:
        assert auroc(scores, labels) == pytest.approx(sum(pairs) / len(pairs), rel=1e-15)
        assert auroc(scores, labels) == pytest.approx(roc_auc_score(labels, scores), abs=1e-12)


@pytest.mark.parametrize("levels", [5, 10**9])
def test_resampled_auroc_equals_that_of_the_resampled_data(levels: int) -> None:
    dice = np.random.default_rng(0)
    scores, labels = dice.integers(levels, size=90) / levels, dice.random(90) < 0.2
    counts = bootstrap(np.arange(90) // 3, 50, seed=1)
    found = resampled_auroc(scores, labels, counts)
    for resample, value in zip(counts, found, strict=True):
        chosen = np.repeat(np.arange(90), resample)
        assert value == pytest.approx(roc_auc_score(labels[chosen], scores[chosen]), abs=1e-12)
        assert value == auroc(scores[chosen], labels[chosen])
    means = resampled_mean(scores, counts)
    assert means[7] == pytest.approx(scores[np.repeat(np.arange(90), counts[7])].mean(), rel=1e-12)


def test_nothing_overflows_where_there_are_many_pairs() -> None:
    counts = np.full((1, 4), 2**20, dtype=np.int32)
    assert resampled_auroc([1.0, 2.0, 3.0, 4.0], [0, 1, 0, 1], counts) == [0.75]


def test_infinite_scores_rank_too() -> None:
    assert auroc([-math.inf, -math.inf, 0.0, math.inf], [0, 1, 0, 1]) == 0.625


def test_whole_groups_are_drawn_with_the_right_probabilities() -> None:
    groups = np.array([7, 3, 7, 9, 3, 3])
    counts = bootstrap(groups, 4000, seed=2)
    assert counts.shape == (4000, 6)
    for group in (3, 7, 9):
        of_group = counts[:, groups == group]
        assert (of_group == of_group[:, :1]).all()
    per_group = counts[:, [0, 1, 3]]
    assert (per_group.sum(axis=1) == 3).all()
    # The count of one group in three draws from three groups is binomial(3, 1/3).
    expected = np.array([8, 12, 6, 1]) / 27
    assert np.allclose(np.bincount(per_group[:, 0]) / 4000, expected, atol=5 * np.sqrt(0.25 / 4000))
    assert np.array_equal(counts, bootstrap(groups, 4000, seed=2))
    assert not np.array_equal(counts, bootstrap(groups, 4000, seed=3))


def test_the_interval_has_its_nominal_coverage() -> None:
    """A score with d' = 1: AUROC = Phi(1 / sqrt 2) = 0.7602; about 95 % of the 95 % intervals must contain it."""
    dice = np.random.default_rng(5)
    covered = 0
    for number in range(200):
        labels = np.arange(120) < 40
        scores = dice.standard_normal(120) + labels
        found = interval(resampled_auroc(scores, labels, bootstrap(np.arange(120), 200, seed=number)))
        covered += found.low <= 0.7602 <= found.high
    assert 178 <= covered <= 199


def test_resamples_without_a_class_are_nan_and_ignored() -> None:
    counts = np.array([[0, 2, 1], [1, 0, 2], [0, 1, 1]], dtype=np.int32)
    found = resampled_auroc([0.5, 0.1, 0.9], [1, 0, 0], counts)
    assert [math.isnan(value) for value in found] == [True, False, True]
    assert interval(found) == (0.0, 0.0)
    assert all(map(math.isnan, interval([math.nan, math.nan])))
    assert interval(np.arange(101.0), level=0.5) == (25.0, 75.0)


def test_invalid_inputs_are_rejected() -> None:
    with pytest.raises(ValueError, match=r"scores have shape \[2\] and labels have shape \[3\]"):
        auroc([1, 2], [1, 0, 1])
    with pytest.raises(ValueError, match="labels contain values other than 0 and 1"):
        auroc([1, 2], [1, 2])
    with pytest.raises(ValueError, match="scores contain NaN"):
        auroc([1, math.nan], [1, 0])
    with pytest.raises(ValueError, match=r"counts have shape \[3, 2\]"):
        resampled_auroc([1, 2, 3], [1, 0, 1], np.ones((3, 2), dtype=np.int32))
    with pytest.raises(ValueError, match="no cases to resample"):
        bootstrap([], 10)
    with pytest.raises(ValueError, match="expected a number between 0 and 1"):
        interval([1.0], level=95)
