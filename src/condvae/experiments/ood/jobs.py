"""The jobs of an experiment. They compute features of every set in every bin of hidden shares, and store them in files.

DIR/runs/SCORE-SET-FINGERPRINT/COLUMN-BLOCK.safetensors holds F features of each of b images, float64 [b, F]. Features
of training images are stored in the same way. Scores are computed when all features exist, so that no job has to wait
for a density to be fitted.
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
"""Number of pixels, over all images, in one unit of work. Smaller units lose less work if a process is killed. The
number affects results only by rounding."""


@dataclass(frozen=True, kw_only=True, eq=False)
class OODJob:
    """Computes the features of one `FeatureReading` for one set of images, in several units of work."""

    reading: FeatureReading
    set: str
    units: tuple[OODUnit, ...]
    store: ResultStore

    @property
    def images(self) -> int:
        """The number of images to measure; an image counts once for each column in which it is measured."""
        return sum(map(_images, self.units))

    def result(self) -> tuple[dict[str | None, DensityValues], float]:
        """Return {column: features [N, F]}, with the key None for training images, and how many seconds they took."""
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
    """Yield one job for each pair of a `FeatureReading` and a set of images that some method needs."""
    size = block or max(1, _PIXELS_PER_UNIT[context.device.type] // context.data.test.size**2)
    of_sets = {spec.reading for spec in context.specs}  # the other readings are only needed for training images

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
    """Computes the scores of all methods from the features of finished jobs."""

    def __init__(self, jobs: Sequence[OODJob]) -> None:
        self._jobs = {(job.reading.identity, job.set): job.result() for job in jobs}

    def scores(self, spec: ScoreSpec, column: str) -> dict[str, DensityValues]:
        """Return {set: scores [N]}, also for the test images. NaN becomes -infinity, the strangest score."""
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
        """Return how many seconds the features of a reading took, for all sets and training images together."""
        return sum(seconds for (identity, _), (_, seconds) in self._jobs.items() if identity == reading.identity)
