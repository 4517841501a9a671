"""Summarise scores by AUROCs for each set and column, means over bins and sets, and differences, all with intervals.

Every number is also computed on bootstrap resamples of the images. All methods use the same resamples, so that means
and differences have intervals too. If image i of a set is made from test image i, both are resampled together.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from condvae.data.image_set import Indices
from condvae.experiments.ood.measure import TEST
from condvae.experiments.ood.plan import MEAN, WHOLE, DetectionMethod, pairs_of
from condvae.experiments.ood.readings import BINS
from condvae.metrics.auroc import Counts, Resampled, auroc, bootstrap, resampled_auroc, resampled_each
from condvae.ood.density import DensityValues
from condvae.ood.strange_sets import PAPER_SETS, OODSet
from condvae.runtime.seeds import Seeds

Scores: TypeAlias = Mapping[str, Mapping[str, DensityValues]]
"""{column: {set: scores [N]}} of one method; the test images count as a set. Higher is more ordinary."""
Rows: TypeAlias = dict[DetectionMethod, dict[str, Resampled]]
"""{method: {set, or name of a mean over sets: AUROCs by column}}."""

COLUMNS = (*BINS, MEAN, WHOLE)
ALL, PAPERS = "all sets", "the paper's sets"


@dataclass(frozen=True, kw_only=True, eq=False)
class Resamples:
    """How often each image occurs in each of n bootstrap resamples."""

    test: Counts
    """How often each of N test images occurs in each of n resamples, [n, N]."""
    sets: Mapping[str, Counts]
    """By name of the set: how often each of its M images occurs in each of n resamples, [n, M]."""

    @classmethod
    def draw(cls, groups: NDArray[Any], sets: Mapping[str, tuple[OODSet, int]], n: int, *, seed: int) -> "Resamples":
        """Draw n bootstrap resamples of the test images and of each set.

        groups: one number per test image, [N]; images with the same number, such as those of one patient, are resampled
        together. sets: {name: (set, number of its images)}.
        """
        test = bootstrap(groups, n, seed=seed)
        return cls(
            test=test,
            sets={
                name: test if one.paired else bootstrap(np.arange(count), n, seed=_seed_of(name, seed))
                for name, (one, count) in sets.items()
            },
        )


def _seed_of(name: str, seed: int) -> int:
    """Derive a seed from a set's name, so that unrelated sets are resampled independently."""
    return Seeds(seed, f"resamples of {name}")(0) % 2**31


def means_of(sets: Sequence[str]) -> dict[str, list[str]]:
    """Return {name of a mean: its sets}: over all sets, and over the paper's sets if there are others too."""
    if len(sets) < 2:
        return {}
    papers = {PAPERS: list(PAPER_SETS)} if set(PAPER_SETS) < set(sets) else {}
    return {**papers, ALL: list(sets)}


def summarise(
    scored: Mapping[DetectionMethod, Scores],
    resamples: Resamples,
    chosen: Callable[[DetectionMethod, int], Indices],
) -> dict[str, Any]:
    """Return the AUROCs of all methods and their differences, as plain values for the report.

    chosen(method, count): returns the indices of the images that the method has scored, in a set of `count` images.
    """
    rows = _measured(scored, resamples, chosen)
    means = means_of(list(resamples.sets))
    for found in rows.values():
        found |= {title: Resampled.mean(found[name] for name in some) for title, some in means.items()}
    return {
        "columns": list(COLUMNS),
        "means": means,
        "methods": {
            str(method): {
                "model": method.model,
                "score": method.score,
                "images": len(chosen(method, resamples.test.shape[1])),
                "auroc": _cells(found),
            }
            for method, found in rows.items()
        },
        "differences": {
            f"{one} - {other}": _cells({name: mine - rows[other][name] for name, mine in rows[one].items()})
            for one, other in pairs_of(list(rows))
        },
    }


def _cells(found: Mapping[str, Resampled]) -> dict[str, Any]:
    return {name: row.cells() for name, row in found.items()}


def _measured(
    scored: Mapping[DetectionMethod, Scores], resamples: Resamples, chosen: Callable[[DetectionMethod, int], Indices]
) -> Rows:
    rows: Rows = {method: {} for method in scored}
    for name, of_set in resamples.sets.items():
        # Column-major, because later steps read the counts of one image in all resamples. Made once for all methods.
        counts = np.concatenate((resamples.test.T, of_set.T)).T

        def one(method: DetectionMethod, name: str = name, counts: Counts = counts) -> Resampled:
            tests, others = resamples.test.shape[1], counts.shape[1] - resamples.test.shape[1]
            mine = np.concatenate((chosen(method, tests), tests + chosen(method, others)))
            some = counts if len(mine) == counts.shape[1] else counts[:, mine]
            return _row(scored[method], name, some)

        for method, row in zip(scored, resampled_each(one, scored), strict=True):
            rows[method][name] = row
    return rows


def _row(scores: Scores, name: str, counts: Counts) -> Resampled:
    """Return the AUROC of test images (positives) against the set `name`, by column; NaN where there are no scores."""
    values, found = dict.fromkeys(COLUMNS, np.nan), np.full((len(counts), len(COLUMNS)), np.nan)
    for column, by_set in scores.items():
        both = np.concatenate((by_set[TEST], by_set[name]))
        ordinary = np.arange(len(both)) < len(by_set[TEST])
        values[column] = auroc(both, ordinary)
        found[:, COLUMNS.index(column)] = resampled_auroc(both, ordinary, counts)
    values[MEAN] = float(np.mean([values[column] for column in BINS]))
    found[:, COLUMNS.index(MEAN)] = found[:, : len(BINS)].mean(axis=1)
    return Resampled(values=np.array([values[column] for column in COLUMNS]), resamples=found)
