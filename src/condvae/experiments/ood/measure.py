"""Compute one unit of work: the features of some images, either whole or with holes of one bin of hidden shares."""

import functools
import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import torch
from torch import Tensor

from condvae.completers.by_place import identity_of
from condvae.completers.interface import Completer
from condvae.conditional import ConditionalVAE
from condvae.data import Dataset
from condvae.data.digests import digest_of_set
from condvae.data.image_set import Indices
from condvae.data.order import spread
from condvae.experiments.ood.plan import REVISION, WHOLE, OODSettings
from condvae.experiments.ood.readings import BINS, FeatureReading, FeatureReadings, ScoreSpec
from condvae.experiments.resumable_work import ImageRange, ResultTensors
from condvae.observe.hole_bins import HOLE_BINS, HOLES_REVISION, known_in_bin
from condvae.ood.features import measure
from condvae.ood.fitting import training_features
from condvae.ood.regret import Regret
from condvae.ood.scores import Score, score_of
from condvae.ood.strange_sets import OODSet

TEST, TRAINING = "test images", "training images"
"""The names of test images and training images, where they are listed together with the sets of strange images."""


class ColumnRange(NamedTuple):
    """A unit of work: some images of a set, in one column (a bin of hidden shares, or whole images)."""

    column: str
    block: ImageRange

    def __str__(self) -> str:
        return f"{self.column if self.column == WHOLE else f'hole-{self.column}'}-{self.block}"


OODUnit: TypeAlias = ColumnRange | ImageRange
"""A unit of work. A `ColumnRange` selects test images or images of a set, in one column. An `ImageRange` selects
training images, which are observed as in training."""


class OODContext:
    """The models, images, sets and holes that all measurements of an experiment share."""

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
        self.completer_identities = {name: identity_of(completer) for name, completer in completers.items()}
        self.sets = {one.name: one for one in sets}
        self.rows: Indices = spread(len(data.test), settings.images)
        self._known: dict[str, Tensor] = {}
        scores = [score_of(name, completers=completers) for name in (*settings.scores, *settings.baselines)]
        names = [score.name for score in scores]
        if len(set(names)) < len(names):
            raise ValueError(f"a score was given twice (the scores are {', '.join(names)}): give each score once")
        self.readings = FeatureReadings(models, self._training_digest)
        self.methods = self.readings.methods(scores)

    @functools.cached_property
    def specs(self) -> list[ScoreSpec]:
        """How scores are computed, for all methods in all columns."""
        return [spec for by_column in self.methods.values() for spec in by_column.values()]

    @functools.cached_property
    def fitted(self) -> set[FeatureReading | None]:
        """The readings that densities are fitted to. The set contains None if some score has no density."""
        return {spec.training for spec in self.specs}

    @functools.cached_property
    def levels(self) -> dict[str, Tensor]:
        """The images of each set and the test images, by name: uint8 [N, C, H, W] on the CPU."""
        test = self.data.test.take(self.rows).images
        return {TEST: test, **{name: one.images(test, seed=self.settings.seed) for name, one in self.sets.items()}}

    @functools.cached_property
    def _images(self) -> dict[str, Tensor]:
        return {name: images.to(self.device) for name, images in self.levels.items()}

    def known(self, column: str) -> Tensor | None:
        """Return which pixels are known in a column, bool [N, 1, H, W] on the device; None for whole images.

        Row i applies to image i of every set. The holes of a column are drawn only once.
        """
        if column == WHOLE:
            return None
        if column not in self._known:
            hole, size = HOLE_BINS[BINS.index(column)], self.data.test.size
            self._known[column] = known_in_bin(hole, len(self.rows), size, seed=self.settings.seed).to(self.device)
        return self._known[column]

    def positions(self, score: Score, count: int) -> Indices:
        """Return the indices of the images to measure, out of `count`: all, or fewer for the slow regret score."""
        return spread(count, self.settings.regret_images if isinstance(score, Regret) else count)

    def prepare(self, unit: OODUnit) -> None:
        """Move images to the device and draw holes, which all units share, so that no unit's time includes this."""
        if isinstance(unit, ColumnRange):
            assert self._images
            self.known(unit.column)

    def measure(self, reading: FeatureReading, name: str, unit: OODUnit) -> ResultTensors:
        """Compute the features of the images in one unit of work. name: the set, or `TRAINING`."""
        score, inference, settings = reading.score, reading.inference, self.settings
        if isinstance(unit, ColumnRange):
            images, known = self._images[name], self.known(unit.column)
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
        """Compute every kind of features for one image, so that invalid input fails now and not minutes later."""
        if empty := [name for name, images in self.levels.items() if not len(images)]:
            raise ValueError(f"the set {empty[0]} contains no images: give other data for it, or leave the set out")
        size = self.data.test.size
        half = torch.zeros(1, 1, size, size, dtype=torch.bool, device=self.device)
        half[..., : size // 2] = True
        image = self.data.test.take(self.rows[:1]).images.to(self.device)
        for reading in self.readings.all.values():
            known = half if reading.inference.kind == "partial" else None
            measure(reading.score, reading.inference, image, known, seed=0)
            if reading in self.fitted:
                training_features(reading.score, reading.inference, self.data, images=2, stop=1)

    @functools.cached_property
    def _training_digest(self) -> str:
        return digest_of_set(self.data.train)

    @functools.cached_property
    def digests(self) -> dict[str, str]:
        """A digest of the images of each set, of the test images and of the training images, by name."""
        found = {
            name: hashlib.sha256(images.numpy().tobytes()).hexdigest()[:24] for name, images in self.levels.items()
        }
        return {TRAINING: self._training_digest, **found}

    def made_of(self, reading: FeatureReading, name: str) -> dict[str, Any]:
        """Return everything that determines the features of the set `name`, except how the machine rounds."""
        settings, base = self.settings, {"revision": REVISION, "reading": reading.identity}
        base |= {"images": self.digests[name], "seed": self.settings.seed}
        if name == TRAINING:
            return base | {"count": settings.fit_images}
        return base | {
            "count": len(self.positions(reading.score, len(self.levels[name]))),
            "holes": [HOLES_REVISION, len(self.rows), *BINS] if reading.inference.kind == "partial" else None,
        }
