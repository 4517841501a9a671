"""The scans of an experiment: each policy, for each variable, over blocks of images, as files.

DIR/runs/POLICY-VARIABLE-FINGERPRINT/BLOCK.safetensors holds of b images, R tries and T scans
    chosen [b, R, T]            where was scanned
    log_p [b, R, T + 1, V, K]   what g said after 0, ..., T scans, of all variables
so that any task can be judged by scans that were chosen for any other.
"""

import functools
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from condvae.completers.asking import identity_of
from condvae.completers.interface import Completer
from condvae.data import Dataset
from condvae.data.digests import digest_of_set, pixels_of
from condvae.data.order import spread
from condvae.design.candidates import Candidates
from condvae.design.classifier import Classifier
from condvae.design.policies import FirstLooks, Greedy, NonGreedy, Policy, Random
from condvae.design.scanning import full_image, scan
from condvae.design.sources import Completions, TrainingImages
from condvae.experiments.design.plan import REVISION, DesignSettings, PolicySpec
from condvae.experiments.resumable_work import ImageRange, ResultStore, ResultTensors, WorkUnit, image_ranges
from condvae.runtime.fingerprints import Weighted, digest_of, fingerprint
from condvae.runtime.seeds import Seeds

PART = "condvae design scans"
IMAGES_PER_UNIT = {"cuda": 128, "cpu": 8}
"""Images that are scanned together, which bounds what a kill can cost. Results do not depend on it but for rounding."""
_PIXELS_TOGETHER = 2**24
"""Of those that are scanned together where the work is in the plan for all and not in the images: one process then has
the plan, and others need not make it as well."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Scanned:
    """What came of a policy."""

    log_p: Tensor
    """[N, R, T + 1, V, K] float32; of the whole image: [N, 1, 1, V, K]."""
    chosen: Tensor | None
    """[N, R, T] int64 into the candidates."""
    seconds: float


@dataclass(frozen=True, kw_only=True, eq=False)
class DesignJob:
    """One policy, choosing for one variable."""

    way: PolicySpec
    variable: int | None
    """None where the policy does not ask for one."""
    what: str
    ranges: tuple[ImageRange, ...]
    shelf: ResultStore

    def result(self) -> Scanned:
        self.shelf.check_whole(self.ranges)
        numbers, seconds = self.shelf.get(self.ranges)
        chosen = numbers.get("chosen")
        return Scanned(log_p=numbers["log_p"], chosen=None if chosen is None else chosen.long(), seconds=seconds)


class DesignContext:
    """All that scans are made with: images, classifier, candidates, completers."""

    def __init__(
        self,
        classifier: Classifier,
        data: Dataset,
        settings: DesignSettings,
        completers: Mapping[str, Completer],
        device: torch.device,
    ) -> None:
        self.classifier, self.data, self.settings, self.completers = classifier, data, settings, completers
        self.device = device
        self.rows: NDArray[np.int64] = spread(len(data.test), settings.images or len(data.test))
        self.test = data.test.subset(self.rows)
        side = max(1, round(settings.side * data.test.size))
        self.candidates = Candidates.grid(data.test.size, side=side, points=settings.points).to(device)
        self._looks = FirstLooks()
        self._policies: dict[tuple[str, int | None], Policy] = {}

    def jobs(self, variables: Sequence[int], out: Path, block: int) -> Iterator[DesignJob]:
        """Every policy for every variable that it is asked for; once where it does not ask."""
        together = max(block, _PIXELS_TOGETHER // self.data.test.size**2)
        for way in map(self.settings.way, self.settings.policies):
            for variable in dict.fromkeys(variables) if way.asks else (None,):
                name = way.name if variable is None else f"{way.name}, {self.classifier.names[variable].lower()}"
                shelf = ResultStore.of_job(out, name, self._made_of(way, variable), kind=PART)
                parts = image_ranges(len(self.rows), block if way.kind == "completions" else together)
                yield DesignJob(way=way, variable=variable, what=name, ranges=tuple(parts), shelf=shelf)

    def work_units(self, jobs: Sequence[DesignJob]) -> list[WorkUnit]:
        return [
            WorkUnit(
                what=job.what,
                shelf=job.shelf,
                unit=block,
                images=block.stop - block.first,
                measure=partial(self._scan, job, block),
            )
            for job in jobs
            for block in job.ranges
        ]

    def _scan(self, job: DesignJob, block: ImageRange) -> ResultTensors:
        places = self.rows[block.first : block.stop]
        images = self.data.test.take(places).images.to(self.device)
        if job.way.kind == "full":
            return {"log_p": full_image(images, self.classifier)[:, None, None]}
        policy, settings = self._policy(job.way, job.variable), self.settings
        tries = [
            scan(
                images,
                policy,
                self.classifier,
                self.candidates,
                steps=settings.steps,
                seed=seed,
                places=places.tolist(),
            )
            for seed in self._seeds(job.way)
        ]
        return {
            "chosen": torch.stack([one.chosen for one in tries], dim=1).to(torch.int32),
            "log_p": torch.stack([one.log_p for one in tries], dim=1),
        }

    def _policy(self, way: PolicySpec, variable: int | None) -> Policy:
        """Made once: policies remember what is the same for all images."""
        key = (way.name, variable)
        if key not in self._policies:
            self._policies[key] = self._made(way, variable)
        return self._policies[key]

    def _made(self, way: PolicySpec, variable: int | None) -> Policy:
        if way.kind == "random":
            return Random(candidates=self.candidates)
        assert variable is not None
        given: Any = {"classifier": self.classifier, "candidates": self.candidates, "variable": variable, "n": way.n}
        if way.kind == "non-greedy":
            return NonGreedy(
                **given,
                name=way.name,
                source=self._training,
                sequences=len(self.candidates),
                steps=self.settings.steps,
            )
        if way.kind == "uncond":
            return Greedy(**given, name=way.name, source=self._training, shared=True)
        assert way.completer is not None
        return Greedy(
            **given,
            name=way.name,
            source=Completions(completer=self.completers[way.completer]),
            estimator=way.estimator,
            first=self._training,
            first_n=self.settings.first_n,
            looks=self._looks,
        )

    def _seeds(self, way: PolicySpec) -> list[int]:
        """One for each try."""
        seed = self.settings.seed
        return [seed, *map(Seeds(seed, "tries"), range(1, self.settings.tries(way)))]

    @functools.cached_property
    def _training(self) -> TrainingImages:
        return TrainingImages(images=self.data.train)

    @functools.cached_property
    def _training_digest(self) -> str:
        return digest_of_set(self.data.train)

    @functools.cached_property
    def identity(self) -> dict[str, str]:
        """Digests of the classifier, and of the images that are scanned with where they stand in the test set."""
        pixels = hashlib.sha256(pixels_of(self.data.test, self.rows))
        pixels.update(self.rows.tobytes())
        return {"classifier": identity_of_classifier(self.classifier), "images": pixels.hexdigest()[:24]}

    @functools.cached_property
    def completer_identities(self) -> dict[str, str]:
        return {name: identity_of(completer) for name, completer in self.completers.items()}

    def _made_of(self, way: PolicySpec, variable: int | None) -> dict[str, Any]:
        """All that the scans of a job depend on, but for the machine's rounding."""
        settings = self.settings
        base: dict[str, Any] = {"revision": REVISION, "kind": way.kind, **self.identity}
        if way.kind == "full":
            return base
        base |= {
            "steps": settings.steps,
            "candidates": [self.candidates.size, self.candidates.side, settings.points],
            "seeds": self._seeds(way),
        }
        if way.kind == "random":
            return base
        base |= {"variable": variable, "n": way.n, "training images": self._training_digest}
        if way.kind == "completions":
            assert way.completer is not None
            base |= {
                "estimator": way.estimator,
                "completer": self.completer_identities[way.completer],
                "first_n": settings.first_n,
            }
        return base


def identity_of_classifier(classifier: Classifier) -> str:
    """A digest of all that decides what it says."""
    own = getattr(classifier, "identity", None)
    if own is not None:
        return fingerprint({"classifier": str(own), "names": list(classifier.names)})
    if not isinstance(classifier, Weighted):
        raise ValueError(
            "the classifier has neither weights nor an `identity`, by which its results are told from those of others: "
            "give it one"
        )
    config = {
        "config": repr(getattr(classifier, "config", None)),
        "names": list(classifier.names),
        "precision": getattr(classifier, "precision", None),
    }
    return digest_of(classifier, config)
