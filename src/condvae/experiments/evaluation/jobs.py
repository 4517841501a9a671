"""The work of an evaluation: who is measured in which way, and what that depends on."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from condvae.experiments.evaluation.measure import EvaluationContext, MeasuredNumbers
from condvae.experiments.evaluation.methods import Method, Subject
from condvae.experiments.evaluation.parts import final_of, shelf
from condvae.experiments.evaluation.plan import (
    DEEP,
    DIRECTIONS,
    IMPORTANCE_SAMPLES,
    PROJECTIONS,
    REVISION,
    Blocks,
    EvaluationUnit,
    MeasurementKind,
    mark_of,
    units,
)
from condvae.experiments.evaluation.problems import Problems
from condvae.experiments.resumable_work import ResultStore, WorkUnit
from condvae.metrics import HOLE_BINS
from condvae.runtime.fingerprints import digest_of, fingerprint, slug_of

_TRUTH = "test images"


@dataclass(frozen=True, kw_only=True, eq=False)
class EvaluationJob:
    """One subject, measured in one way."""

    name: str
    kind: MeasurementKind
    identity: str
    """Of the subject."""
    common: str
    """Fingerprint of all that its numbers depend on but for the subject: methods that share it can be compared."""
    about: dict[str, Any]
    units: tuple[EvaluationUnit, ...]
    shelf: ResultStore
    measure: Callable[[EvaluationUnit], MeasuredNumbers]

    @property
    def is_final(self) -> bool:
        return final_of(self.shelf) is not None

    @property
    def notes(self) -> dict[str, Any]:
        """What is stored with its final numbers."""
        return {"kind": self.kind, "identity": self.identity, "common": self.common, "about": self.about}


class Work:
    """All jobs of an evaluation into one folder."""

    def __init__(self, measurement: EvaluationContext, out: Path, blocks: Blocks) -> None:
        self.measurement, self.out, self.blocks = measurement, out, blocks
        self.commons = commons(measurement)

    def jobs(self, methods: Sequence[Method], models: Sequence[Subject]) -> Iterator[EvaluationJob]:
        """The bounds of models first, then every method."""
        to, problems, chosen = self.measurement, self.measurement.problems, self.measurement.settings.metrics
        for subject in models if "bounds" in chosen else ():
            yield self._job(subject, "elbo", len(problems.bits), partial(to.elbo, subject))
            yield self._job(subject, "bounds", len(problems.deep), partial(to.bounds, subject))
        for method in methods:
            if set(chosen) & set(DEEP):
                yield self._job(method, "deep", len(problems.deep), partial(to.deep, method))
            if "inception" in chosen:
                yield self._job(method, "wide", len(problems), partial(to.wide, method))

    def truth(self) -> EvaluationJob:
        """Features of the test images themselves."""
        return EvaluationJob(
            name=_TRUTH,
            kind="truth",
            identity="",
            common=self.commons["truth"],
            about={},
            units=tuple(units("truth", len(self.measurement.problems), self.blocks)),
            shelf=shelf(self.out, slug=slug_of(_TRUTH), kind="truth", fingerprint=self.commons["truth"]),
            measure=self.measurement.truth,
        )

    def _job(
        self,
        subject: Method | Subject,
        kind: MeasurementKind,
        images: int,
        measure: Callable[[EvaluationUnit], MeasuredNumbers],
    ) -> EvaluationJob:
        mark = mark_of(self.commons[kind], subject.identity)
        about: dict[str, Any] = {"name": subject.name, **subject.notes}
        if isinstance(subject, Method):
            about["varies"] = subject.varies
        return EvaluationJob(
            name=subject.name,
            kind=kind,
            identity=subject.identity,
            common=self.commons[kind],
            about=about,
            units=tuple(units(kind, images, self.blocks)),
            shelf=shelf(self.out, slug=slug_of(subject.name), kind=kind, fingerprint=mark),
            measure=measure,
        )


def commons(measurement: EvaluationContext) -> dict[MeasurementKind, str]:
    """Fingerprints of all that a kind of measurement depends on, but for its subject and the machine's rounding."""
    problems, settings, networks = measurement.problems, measurement.settings, measurement.networks
    base = {"revision": REVISION, "seed": settings.seed}
    holes = {**base, "images": problems.identity}
    wide = {
        **holes,
        "inception": None if networks.inception is None else digest_of(networks.inception),
        "precision": getattr(networks.inception, "precision", None),
    }
    deep = {
        **holes,
        "deep": problems.deep_identity,
        "k": settings.k,
        "metrics": sorted(set(settings.metrics) & set(DEEP)),
        "lpips": None if networks.lpips is None or not settings.needs_lpips else digest_of(networks.lpips),
        "projections": [PROJECTIONS, *DIRECTIONS],
    }
    values: dict[MeasurementKind, dict[str, Any]] = {
        "truth": wide,
        "wide": wide,
        "deep": deep,
        "elbo": {**base, "bits": problems.bits_identity},
        "bounds": {**holes, "deep": problems.deep_identity, "samples": IMPORTANCE_SAMPLES},
    }
    return {kind: fingerprint({"kind": kind, **found}) for kind, found in values.items()}


def chores(jobs: Sequence[EvaluationJob], problems: Problems) -> list[WorkUnit]:
    """All units of these jobs, each told of with its method and bin."""
    return [_chore(job, unit, problems) for job in jobs for unit in job.units]


def _chore(job: EvaluationJob, unit: EvaluationUnit, problems: Problems) -> WorkUnit:
    what = job.name if job.kind == "truth" else f"{job.name}, {job.kind}"
    hole = unit.hole
    return WorkUnit(
        what=what if hole is None else f"{what}, hole {HOLE_BINS[hole]}",
        shelf=job.shelf,
        unit=unit,
        images=unit.stop - unit.first,
        measure=partial(job.measure, unit),
        # Here, so that it is not counted as the method's time.
        prepare=None if hole is None else partial(problems.holes, hole),
    )
