"""The jobs of an experiment: features of every set, in every range of hidden shares, stored as files.

DIR/runs/SCORE-SET-FINGERPRINT/COLUMN-BLOCK.safetensors holds the features of b images, float64 [b, F]. Training images
have such files too. Scores are computed once all features are there, so that no measurement has to wait for a fit.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from condvae.experiments.ood.measure import TRAINING, ColumnRange, OODContext, OODUnit
from condvae.experiments.ood.readings import FeatureReading, ScoreSpec
from condvae.experiments.resumable_work import ResultStore, WorkUnit, image_ranges
from condvae.ood.density import DensityValues

PART = "condvae ood features"
_PIXELS_PER_UNIT = {"cuda": 2**23, "cpu": 2**18}
"""Pixels of the images in one unit of work, which limits the work lost if a process is killed. The size affects results
only by rounding."""


@dataclass(frozen=True, kw_only=True, eq=False)
class OODJob:
    """The features of one reading for one set of images."""

    reading: FeatureReading
    set: str
    units: tuple[OODUnit, ...]
    store: ResultStore

    @property
    def images(self) -> int:
        """The number of measured images; an image counts once per column."""
        return sum(map(_images, self.units))

    def result(self) -> tuple[dict[str | None, DensityValues], float]:
        """Return the features by column (None for training images), and the seconds it took to compute them."""
        self.store.check_whole(self.units)
        found, spent = {}, 0.0
        for column in dict.fromkeys(map(_column, self.units)):
            numbers, seconds = self.store.get(unit for unit in self.units if _column(unit) == column)
            found[column] = numbers["features"].numpy()
            spent += seconds
        return found, spent


def _images(unit: OODUnit) -> int:
    block = unit.block if isinstance(unit, ColumnRange) else unit
    return block.stop - block.first


def _column(unit: OODUnit) -> str | None:
    return unit.column if isinstance(unit, ColumnRange) else None


def jobs_of(context: OODContext, out: Path, block: int | None) -> Iterator[OODJob]:
    """Yield a job for every reading and every set of images that a method needs."""
    size = block or max(1, _PIXELS_PER_UNIT[context.device.type] // context.data.test.size**2)
    of_sets = {spec.reading for spec in context.specs}  # others are only needed for training images

    def job(reading: FeatureReading, name: str, units: tuple[OODUnit, ...]) -> OODJob:
        made_of = context.made_of(reading, name)
        store = ResultStore.of_job(out, f"{reading.score.name}, {name}", made_of, kind=PART)
        return OODJob(reading=reading, set=name, units=units, store=store)

    for reading in context.readings.all.values():
        if reading in context.fitted:
            count = min(context.settings.fit_images, len(context.data.train))
            yield job(reading, TRAINING, tuple(image_ranges(count, size)))
        for name, images in context.levels.items() if reading in of_sets else ():
            blocks = tuple(image_ranges(len(context.positions(reading.score, len(images))), size))
            yield job(reading, name, tuple(ColumnRange(column, one) for column in reading.columns for one in blocks))


def work_units(jobs: Sequence[OODJob], context: OODContext) -> list[WorkUnit]:
    return [
        WorkUnit(
            what=job.reading.name,
            store=job.store,
            unit=unit,
            images=_images(unit),
            measure=partial(context.measure, job.reading, job.set, unit),
            prepare=partial(context.prepare, unit),
        )
        for job in jobs
        for unit in job.units
    ]


class MethodScores:
    """The scores of all methods, from the features of finished jobs."""

    def __init__(self, jobs: Sequence[OODJob]) -> None:
        self._jobs = {(job.reading.identity, job.set): job.result() for job in jobs}

    def scores(self, spec: ScoreSpec, column: str) -> dict[str, DensityValues]:
        """Return the scores of the test images and of each set, [N]; NaN counts as the strangest, -infinity."""
        density = None
        if spec.training is not None:
            density = spec.density(self._jobs[spec.training.identity, TRAINING][0][None])
        found = {
            name: spec.scores(values[column], density)
            for (identity, name), (values, _) in self._jobs.items()
            if identity == spec.reading.identity and name != TRAINING
        }
        return {name: np.where(np.isnan(scores), -np.inf, scores) for name, scores in found.items()}

    def seconds(self, reading: FeatureReading) -> float:
        """Return the seconds that a reading took for all sets and training images together."""
        return sum(seconds for (identity, _), (_, seconds) in self._jobs.items() if identity == reading.identity)
