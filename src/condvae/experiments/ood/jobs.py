"""The measurements of an experiment: features of every set behind every kind of hole, as files.

DIR/runs/SCORE-SET-FINGERPRINT/COLUMN-BLOCK.safetensors holds of b images
    features [b, F]    float64
and so for training images. Scores are made of them when all are there: no measurement waits for a fit.
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
"""Of the images that are measured together, which bounds what a kill can cost. Results do not depend on it but for
rounding."""


@dataclass(frozen=True, kw_only=True, eq=False)
class OODJob:
    """One reading of one set of images."""

    reading: FeatureReading
    set: str
    units: tuple[OODUnit, ...]
    store: ResultStore

    @property
    def images(self) -> int:
        """How many it measures, again in every column."""
        return sum(map(_images, self.units))

    def result(self) -> tuple[dict[str | None, DensityValues], float]:
        """What was measured, by column (None: of training images), and the seconds that it took."""
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
    """Every reading of all that somebody needs of it."""
    size = block or max(1, _PIXELS_PER_UNIT[context.device.type] // context.data.test.size**2)
    asked = {spec.reading for spec in context.specs}

    def job(reading: FeatureReading, name: str, units: tuple[OODUnit, ...]) -> OODJob:
        made_of = context.made_of(reading, name)
        store = ResultStore.of_job(out, f"{reading.score.name}, {name}", made_of, kind=PART)
        return OODJob(reading=reading, set=name, units=units, store=store)

    for reading in context.readings.all.values():
        if reading in context.fitted:
            count = min(context.settings.fit_images, len(context.data.train))
            yield job(reading, TRAINING, tuple(image_ranges(count, size)))
        for name, images in context.levels.items() if reading in asked else ():
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
    """What came of finished jobs: scores of methods."""

    def __init__(self, jobs: Sequence[OODJob]) -> None:
        self._jobs = {(job.reading.identity, job.set): job.result() for job in jobs}

    def scores(self, spec: ScoreSpec, column: str) -> dict[str, DensityValues]:
        """[N] of the test images and of each set, higher is more ordinary; what is no number is the strangest."""
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
        """That the reading took, of all sets and training images."""
        return sum(seconds for (identity, _), (_, seconds) in self._jobs.items() if identity == reading.identity)
