"""The measurements of an experiment: features of every set behind every kind of hole, as files.

DIR/runs/SCORE-SET-FINGERPRINT/COLUMN-BLOCK.safetensors holds of b images
    features [b, F]    float64
and so for training images. Scores are made of them when all are there: no measurement waits for a fit.
"""

import functools
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from condvae.completers.interface import Completer
from condvae.conditional import ConditionalVAE
from condvae.data import Dataset
from condvae.data.digests import digest_of_set
from condvae.data.order import spread
from condvae.experiments.ood.plan import REVISION, WHOLE, OODSettings
from condvae.experiments.ood.readings import BINS, FeatureReading, FeatureReadings, ScoreSpec
from condvae.experiments.resumable_work import ImageRange, ResultStore, ResultTensors, WorkUnit, image_ranges
from condvae.observe.hole_bins import HOLE_BINS, HOLES_REVISION, known_in_bin
from condvae.ood.density import DensityValues
from condvae.ood.fitting import training_features
from condvae.ood.measuring import measure
from condvae.ood.regret import Regret
from condvae.ood.scores import Score, score_of
from condvae.ood.sets import OODSet
from condvae.runtime.messages import Say

Positions = NDArray[np.int64]

PART = "condvae ood features"
TEST, TRAINING = "test images", "training images"
"""What is measured beside the sets."""
_PIXELS_IN_BLOCK = {"cuda": 2**23, "cpu": 2**18}
"""Of the images that are measured together, which bounds what a kill can cost. Results do not depend on it but for
rounding."""


class Seen(NamedTuple):
    """Some images in one column; the result is one file."""

    column: str
    block: ImageRange

    def __str__(self) -> str:
        return f"{self.column if self.column == WHOLE else f'hole-{self.column}'}-{self.block}"


OODUnit: TypeAlias = Seen | ImageRange
"""Of test images and sets in a column, or of training images, observed as in training."""


@dataclass(frozen=True, kw_only=True, eq=False)
class OODJob:
    """One reading of one set of images."""

    reading: FeatureReading
    set: str
    units: tuple[OODUnit, ...]
    shelf: ResultStore

    @property
    def images(self) -> int:
        """How many it measures, again in every column."""
        parts = [unit.block if isinstance(unit, Seen) else unit for unit in self.units]
        return sum(part.stop - part.first for part in parts)

    def result(self) -> tuple[dict[str | None, DensityValues], float]:
        """What was measured, by column (None: of training images), and the seconds that it took."""
        self.shelf.check_whole(self.units)
        found, spent = {}, 0.0
        for column in dict.fromkeys(map(_column, self.units)):
            numbers, seconds = self.shelf.get(unit for unit in self.units if _column(unit) == column)
            found[column] = numbers["features"].numpy()
            spent += seconds
        return found, spent


def _column(unit: OODUnit) -> str | None:
    return unit.column if isinstance(unit, Seen) else None


class OODContext:
    """All that is measured with: models, images, sets, holes."""

    def __init__(
        self,
        models: Mapping[str, ConditionalVAE],
        data: Dataset,
        settings: OODSettings,
        sets: Sequence[OODSet],
        completers: Mapping[str, Completer],
        device: torch.device,
    ) -> None:
        self.data, self.settings, self.device = data, settings, device
        self.sets = {one.name: one for one in sets}
        self.rows: Positions = spread(len(data.test), settings.images)
        self._known: dict[str, Tensor] = {}
        scores = [score_of(name, completers=completers) for name in (*settings.scores, *settings.baselines)]
        names = [score.name for score in scores]
        if len(set(names)) < len(names):
            raise ValueError(f"a score was given twice: give each of {', '.join(names)} once")
        self.readings = FeatureReadings(models, self._training_digest)
        self.methods = self.readings.methods(scores)

    @property
    def _ways(self) -> list[ScoreSpec]:
        return [way for by_column in self.methods.values() for way in by_column.values()]

    @functools.cached_property
    def _fitted(self) -> set[FeatureReading | None]:
        """Those that are read of training images."""
        return {way.training for way in self._ways}

    @functools.cached_property
    def levels(self) -> dict[str, Tensor]:
        """uint8 [N, C, H, W] on the CPU: the test images, and those of each set."""
        test = self.data.test.take(self.rows).images
        return {TEST: test, **{name: one.images(test, seed=self.settings.seed) for name, one in self.sets.items()}}

    @functools.cached_property
    def _images(self) -> dict[str, Tensor]:
        return {name: images.to(self.device) for name, images in self.levels.items()}

    def known(self, column: str) -> Tensor | None:
        """[N, 1, H, W] bool on the device: what is seen of image i of any set; None: everything. Drawn once."""
        if column == WHOLE:
            return None
        if column not in self._known:
            hole, size = HOLE_BINS[BINS.index(column)], self.data.test.size
            self._known[column] = known_in_bin(hole, len(self.rows), size, seed=self.settings.seed).to(self.device)
        return self._known[column]

    def positions(self, score: Score, count: int) -> Positions:
        """Which of so many images are measured."""
        return spread(count, self.settings.regret_images if isinstance(score, Regret) else count)

    def jobs(self, out: Path, block: int | None) -> Iterator[OODJob]:
        """Every reading of all that somebody needs of it."""
        size = block or max(1, _PIXELS_IN_BLOCK[self.device.type] // self.data.test.size**2)
        asked = {way.reading for way in self._ways}
        for reading in self.readings.all.values():
            if reading in self._fitted:
                count = min(self.settings.fit_images, len(self.data.train))
                yield self._job(reading, TRAINING, tuple(image_ranges(count, size)), out)
            for name, images in self.levels.items() if reading in asked else ():
                parts = tuple(image_ranges(len(self.positions(reading.score, len(images))), size))
                yield self._job(reading, name, tuple(Seen(c, part) for c in reading.columns for part in parts), out)

    def _job(self, reading: FeatureReading, name: str, units: tuple[OODUnit, ...], out: Path) -> OODJob:
        shelf = ResultStore.of_job(out, f"{reading.score.name}, {name}", self._made_of(reading, name), kind=PART)
        return OODJob(reading=reading, set=name, units=units, shelf=shelf)

    def work_units(self, jobs: Sequence[OODJob]) -> list[WorkUnit]:
        return [self._work_unit(job, unit) for job in jobs for unit in job.units]

    def _work_unit(self, job: OODJob, unit: OODUnit) -> WorkUnit:
        block = unit.block if isinstance(unit, Seen) else unit
        return WorkUnit(
            what=job.reading.name,
            shelf=job.shelf,
            unit=unit,
            images=block.stop - block.first,
            measure=partial(self._measure, job, unit),
            prepare=partial(self._prepare, unit),
        )

    def _prepare(self, unit: OODUnit, say: Say) -> None:
        """What is made once is not counted as the time of whoever comes first."""
        if isinstance(unit, Seen):
            assert self._images
            self.known(unit.column)

    def _measure(self, job: OODJob, unit: OODUnit) -> ResultTensors:
        score, inference, settings = job.reading.score, job.reading.inference, self.settings
        if isinstance(unit, Seen):
            images, known = self._images[job.set], self.known(unit.column)
            places = self.positions(score, len(images))[unit.block.first : unit.block.stop]
            rows = torch.from_numpy(places).to(self.device)
            seen = None if known is None else known[rows]
            found = measure(score, inference, images[rows], seen, seed=settings.seed, places=places.tolist())
        else:
            first, stop = unit
            found = training_features(
                score, inference, self.data, images=settings.fit_images, seed=settings.seed, first=first, stop=stop
            )
        return {"features": torch.from_numpy(found)}

    def check(self) -> None:
        """Every reading of one image: what cannot be measured is refused here and not minutes later."""
        if empty := [name for name, images in self.levels.items() if not len(images)]:
            raise ValueError(f"{empty[0]} has no images to compare with: give other data, or leave it out")
        size = self.data.test.size
        half = torch.zeros(1, 1, size, size, dtype=torch.bool, device=self.device)
        half[..., : size // 2] = True
        image = self.data.test.take(self.rows[:1]).images.to(self.device)
        for reading in self.readings.all.values():
            known = half if reading.inference.kind == "partial" else None
            measure(reading.score, reading.inference, image, known, seed=0)
            if reading in self._fitted:
                training_features(reading.score, reading.inference, self.data, images=2, stop=1)

    @functools.cached_property
    def _training_digest(self) -> str:
        return digest_of_set(self.data.train)

    @functools.cached_property
    def digests(self) -> dict[str, str]:
        """Of all images that are measured."""
        found = {
            name: hashlib.sha256(images.numpy().tobytes()).hexdigest()[:24] for name, images in self.levels.items()
        }
        return {TRAINING: self._training_digest, **found}

    def _made_of(self, reading: FeatureReading, name: str) -> dict[str, Any]:
        """All that the features of a job depend on, but for the machine's rounding."""
        settings, base = self.settings, {"revision": REVISION, "reading": reading.identity}
        base |= {"images": self.digests[name], "seed": self.settings.seed}
        if name == TRAINING:
            return base | {"count": settings.fit_images}
        return base | {
            "count": len(self.positions(reading.score, len(self.levels[name]))),
            "holes": [HOLES_REVISION, len(self.rows), *BINS] if reading.inference.kind == "partial" else None,
        }


class MethodScores:
    """What came of finished jobs: scores of methods."""

    def __init__(self, jobs: Sequence[OODJob]) -> None:
        self._jobs = {(job.reading.identity, job.set): job.result() for job in jobs}

    def scores(self, way: ScoreSpec, column: str) -> dict[str, DensityValues]:
        """[N] of the test images and of each set, higher is more ordinary; what is no number is the strangest."""
        density = None
        if way.training is not None:
            density = way.density(self._jobs[way.training.identity, TRAINING][0][None])
        found = {
            name: way.scores(values[column], density)
            for (identity, name), (values, _) in self._jobs.items()
            if identity == way.reading.identity and name != TRAINING
        }
        return {name: np.where(np.isnan(scores), -np.inf, scores) for name, scores in found.items()}

    def seconds(self, reading: FeatureReading) -> float:
        """That the reading took, of all sets and training images."""
        return sum(seconds for (identity, _), (_, seconds) in self._jobs.items() if identity == reading.identity)
