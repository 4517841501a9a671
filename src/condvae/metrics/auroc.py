"""AUROC with bootstrap confidence intervals.

The AUROC is the probability that a random positive scores higher than a random negative; ties count half. It is exact,
computed from all pairs. Intervals come from resampling whole groups, such as all images of one patient together.
"""

import math
import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from condvae.runtime.checks import check_seed, check_whole

Counts = NDArray[np.int32]
RankedValues = NDArray[np.float64]
Cell: TypeAlias = dict[str, float | None]
"""A number of a report with its confidence interval, under the keys mean, low and high; None replaces NaN."""

T = TypeVar("T")
R = TypeVar("R")
_THREADS = 4
"""The largest number of threads. Each needs memory for its resamples, and more threads would gain little."""
_SIDES: tuple[Literal["left", "right"], ...] = ("left", "right")


class Interval(NamedTuple):
    """A bootstrap confidence interval."""

    low: float
    high: float


def auroc(scores: ArrayLike, labels: ArrayLike) -> float:
    """Return the AUROC of scores [N], or NaN if there are no positive or no negative cases.

    labels: [N], True for positive and False for negative cases.
    """
    scores, labels = _checked(scores, labels)
    return float(_auroc(scores, labels, np.ones((len(scores), 1), dtype=np.int32))[0])


def resampled_auroc(scores: ArrayLike, labels: ArrayLike, counts: Counts) -> RankedValues:
    """Return the AUROC of each of n resamples, [n]; NaN for a resample without positives or without negatives.

    counts: [n, N], how often each of the N cases occurs in each resample.
    """
    scores, labels = _checked(scores, labels)
    _check_counts(counts, len(scores))
    return _auroc(scores, labels, counts.T.astype(np.int32, copy=False))


def resampled_mean(values: ArrayLike, counts: Counts) -> RankedValues:
    """Return the mean of values [N] in each of n resamples, [n].

    counts: [n, N], how often each of the N cases occurs in each resample.
    """
    values = np.asarray(values, dtype=np.float64)
    _check_counts(counts, len(values))
    return np.asarray(counts @ values / counts.sum(axis=1), dtype=np.float64)


def bootstrap(groups: ArrayLike, n: int, *, seed: int = 0) -> Counts:
    """Draw n bootstrap resamples of N cases; return how often each case occurs in each resample, [n, N].

    groups: [N], the group of each case, such as the patient of an image. If there are G groups, each resample draws G
    whole groups with replacement.
    """
    check_whole(n, "the number of resamples", least=1)
    check_seed(seed, "the seed of resamples")
    _, member = np.unique(np.asarray(groups), return_inverse=True)
    if not len(member):
        raise ValueError("there are no cases to resample: give at least one")
    among = int(member.max()) + 1
    drawn = np.random.Generator(np.random.Philox(seed)).integers(among, size=(n, among))
    per_group = np.bincount((drawn + among * np.arange(n)[:, None]).ravel(), minlength=n * among).reshape(n, among)
    # Transposed in memory, so that the resamples of one case are contiguous: this is how they are read.
    return per_group.T.astype(np.int32)[member].T


def interval(resamples: ArrayLike, *, level: float = 0.95) -> Interval:
    """Return the central interval that contains this share of the resampled values, without NaN; NaN if all are NaN."""
    if not 0 < level < 1:
        raise ValueError(f"the level of an interval is {level}, expected a number between 0 and 1, such as 0.95")
    values = np.asarray(resamples, dtype=np.float64)
    values = values[~np.isnan(values)]
    if not len(values):
        return Interval(float("nan"), float("nan"))
    low, high = np.quantile(values, ((1 - level) / 2, (1 + level) / 2))
    return Interval(float(low), float(high))


@dataclass(frozen=True, kw_only=True, eq=False)
class Resampled:
    """One number for each column of a table, and its value in each bootstrap resample."""

    values: RankedValues
    """The number of each column, [columns]."""
    resamples: RankedValues
    """The same numbers, computed from each of n bootstrap resamples, [n, columns]."""

    def __sub__(self, other: "Resampled") -> "Resampled":
        return Resampled(values=self.values - other.values, resamples=self.resamples - other.resamples)

    @classmethod
    def mean(cls, some: Iterable["Resampled"]) -> "Resampled":
        several = list(some)
        values, resamples = ([getattr(one, name) for one in several] for name in ("values", "resamples"))
        return cls(values=np.mean(values, axis=0), resamples=np.mean(resamples, axis=0))

    def cells(self) -> list[Cell]:
        """Return each number with its confidence interval, for JSON: NaN and infinity become None."""
        return [_cell(float(value), column) for value, column in zip(self.values, self.resamples.T, strict=True)]

    def over(self, columns: slice) -> Cell:
        """Return the mean of the numbers of some columns, with its confidence interval."""
        return _cell(float(self.values[columns].mean()), self.resamples[:, columns].mean(axis=1))


def resampled_each(resample: Callable[[T], R], each: Iterable[T]) -> list[R]:
    """Apply `resample` to each item in parallel threads; return the results in the order of the items.

    Threads help, since NumPy releases Python's global lock while it sorts and sums.
    """
    with ThreadPoolExecutor(min(_THREADS, os.cpu_count() or 1)) as pool:
        return list(pool.map(resample, each))


def _auroc(scores: RankedValues, labels: NDArray[np.bool_], counts: Counts) -> RankedValues:
    """Return the AUROC of each of n resamples, [n].

    counts: [N, n], how often each of the N cases occurs in each resample. For each positive case, a negative case with
    a lower score counts 1, and one with an equal score counts one half.
    """
    positives, negatives = np.flatnonzero(labels), np.flatnonzero(~labels)
    negatives = negatives[np.argsort(scores[negatives])]
    rising = np.zeros((len(negatives) + 1, counts.shape[1]), dtype=np.int32)  # integers, so that sums are exact
    np.cumsum(counts[negatives], axis=0, out=rising[1:])
    of_positives = counts[positives]
    pairs = of_positives.sum(axis=0, dtype=np.int64) * rising[-1]
    if pairs.max() >= 2**31:
        of_positives = of_positives.astype(np.int64)
    twice_won = np.zeros_like(pairs)
    for side in _SIDES:
        below = np.searchsorted(scores[negatives], scores[positives], side=side)
        twice_won += np.einsum("pn,pn->n", of_positives, rising[below])
    found = np.full(len(pairs), np.nan)
    np.divide(twice_won, 2 * pairs, out=found, where=pairs > 0)
    return found


def _cell(value: float, resamples: RankedValues) -> Cell:
    low, high = interval(resamples)
    return {"mean": _plain(value), "low": _plain(low), "high": _plain(high)}


def _plain(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _checked(scores: ArrayLike, labels: ArrayLike) -> tuple[RankedValues, NDArray[np.bool_]]:
    scores, labels = np.asarray(scores, dtype=np.float64), np.asarray(labels)
    if scores.ndim != 1 or labels.shape != scores.shape:
        raise ValueError(
            f"scores have shape {list(scores.shape)} and labels have shape {list(labels.shape)}: give two vectors of "
            "the same length"
        )
    if not np.isin(labels, (0, 1)).all():
        raise ValueError("labels contain values other than 0 and 1: give 1 for positives and 0 for negatives")
    if np.isnan(scores).any():
        raise ValueError("scores contain NaN, which cannot be ranked: give numbers")
    return scores, labels.astype(bool)


def _check_counts(counts: Counts, number: int) -> None:
    if counts.ndim != 2 or counts.shape[1] != number:
        raise ValueError(
            f"counts have shape {list(counts.shape)}, expected [n, {number}]: give the result of `bootstrap`"
        )
