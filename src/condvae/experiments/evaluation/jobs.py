"""The jobs of an evaluation. Each job is one kind of measurement of one method or model, and stores results as files:

DIR/parts/NAME-KIND-FINGERPRINT/UNIT.safetensors     results of some images, deleted when all numbers are final
DIR/parts/NAME-KIND-FINGERPRINT/final.safetensors    the final numbers of the job, and the values of single images
                                                     that they were computed from; it is small and is kept

The fingerprint covers everything that the numbers depend on.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from torch import Tensor

from condvae.experiments.evaluation.measure import EvaluationContext, EvaluationUnit
from condvae.experiments.evaluation.methods import Method, Subject
from condvae.experiments.evaluation.plan import DEEP, MeasurementKind, UnitSizes
from condvae.experiments.evaluation.problems import Problems
from condvae.experiments.resumable_work import ResultStore, ResultTensors, WorkUnit, image_ranges
from condvae.metrics import HOLE_BINS
from condvae.runtime.fingerprints import fingerprint, slug_of

PART = "condvae evaluation part"
FINAL = "final"
"""The name of the file that stores the final numbers of a job, as if it were the result of a unit of work."""
SHARED: tuple[MeasurementKind, ...] = ("truth", "observed")
"""Jobs whose results all methods use. They have no final numbers, and their files are kept for later calls."""
_TRUTH = "test images"

Measure = Callable[[EvaluationUnit], ResultTensors]


@dataclass(frozen=True, kw_only=True, eq=False)
class EvaluationJob:
    """A job of an evaluation: one kind of measurement of one method, of one model, or of the test images."""

    name: str
    kind: MeasurementKind
    identity: str
    """A digest that identifies the method or model; empty for the test images."""
    common: str
    """A fingerprint of everything else that the numbers depend on. Jobs with the same fingerprint are comparable."""
    about: dict[str, Any]
    units: tuple[EvaluationUnit, ...]
    store: ResultStore
    measure: Measure

    @property
    def is_final(self) -> bool:
        return _final_numbers(self.store) is not None

    @property
    def folder(self) -> str:
        return self.store.folder.name

    def of_bin(self, hole: int | None) -> tuple[dict[str, Tensor], float]:
        """Return the results of all images in one bin, or without holes if it is None, and their time in seconds."""
        return self.store.get(unit for unit in self.units if unit.hole == hole)

    def finish(self, numbers: dict[str, Any], values: ResultTensors) -> None:
        """Store the final numbers of the job in a file, with the values of each image, from which groups are averaged.

        values: [images, ...] by name; empty for metrics of whole sets.
        """
        notes = {"kind": self.kind, "identity": self.identity, "common": self.common, "about": self.about}
        self.store.put(FINAL, values, seconds=numbers["seconds"], notes={**notes, "numbers": numbers})


@dataclass(frozen=True, kw_only=True, eq=False)
class FinalNumbers:
    """The content of the file in which a finished job has stored its numbers."""

    kind: MeasurementKind
    identity: str
    common: str
    about: dict[str, Any]
    numbers: dict[str, Any]
    values: ResultTensors
    """The values of single images, [images, ...] by name; empty for metrics of whole sets."""


def jobs_of(
    context: EvaluationContext, methods: Sequence[Method], models: Sequence[Subject], out: Path, sizes: UnitSizes
) -> Iterator[EvaluationJob]:
    """Yield the jobs: first the bounds of models, then the measurements of every method."""
    problems, chosen = context.problems, context.settings.metrics

    def job(subject: Method | Subject, kind: MeasurementKind, images: int, measure: Measure) -> EvaluationJob:
        about: dict[str, Any] = {"name": subject.name, **subject.notes}
        if isinstance(subject, Method):
            about["varies"] = subject.varies
        units = units_of(kind, images, sizes)
        return _job(context, out, subject.name, kind, subject.identity, about=about, units=units, measure=measure)

    for subject in models if "bounds" in chosen else ():
        yield job(subject, "elbo", len(problems.bits), partial(context.elbo, subject))
        yield job(subject, "bounds", len(problems.deep), partial(context.bounds, subject))
    for method in methods:
        if set(chosen) & set(DEEP):
            yield job(method, "deep", len(problems.deep), partial(context.deep, method))
        if "inception" in chosen:
            yield job(method, "wide", len(problems), partial(context.wide, method))


def shared_jobs(context: EvaluationContext, out: Path, sizes: UnitSizes) -> list[EvaluationJob]:
    """Return the jobs that compute Inception features of the test images and of their observations, for all methods."""
    measures: dict[MeasurementKind, Measure] = {"truth": context.truth, "observed": context.observed}
    return [
        _job(context, out, _TRUTH, kind, "", about={}, units=units_of(kind, len(context.problems), sizes), measure=one)
        for kind, one in measures.items()
    ]


def _job(
    context: EvaluationContext, out: Path, name: str, kind: MeasurementKind, identity: str, **given: Any
) -> EvaluationJob:
    common = context.fingerprints[kind]
    own = fingerprint({"common": common, "subject": identity}) if identity else common
    store = ResultStore(out / "parts" / f"{slug_of(name)}-{kind}-{own}", kind=PART)
    return EvaluationJob(name=name, kind=kind, identity=identity, common=common, store=store, **given)


def units_of(kind: MeasurementKind, images: int, sizes: UnitSizes) -> tuple[EvaluationUnit, ...]:
    """Return all units of work for one kind of measurement of this many images, bin by bin if it uses holes."""
    holes = range(len(HOLE_BINS)) if kind in ("observed", "wide", "deep", "bounds") else (None,)
    return tuple(EvaluationUnit(hole, *block) for hole in holes for block in image_ranges(images, sizes.of(kind)))


def work_units(jobs: Sequence[EvaluationJob], problems: Problems) -> list[WorkUnit]:
    """Return all units of work of these jobs. Their descriptions for the log name the method and the bin."""
    return [_work_unit(job, unit, problems) for job in jobs for unit in job.units]


def _work_unit(job: EvaluationJob, unit: EvaluationUnit, problems: Problems) -> WorkUnit:
    what = job.name if job.kind in SHARED else f"{job.name}, {job.kind}"
    hole = unit.hole
    return WorkUnit(
        what=what if hole is None else f"{what}, hole {HOLE_BINS[hole]}",
        store=job.store,
        unit=unit,
        images=unit.stop - unit.first,
        measure=partial(job.measure, unit),
        # Holes are drawn in `prepare`, so that the time does not count as the method's.
        prepare=None if hole is None else partial(problems.holes, hole),
    )


def all_final_numbers(out: Path) -> dict[str, FinalNumbers]:
    """Return the final numbers of every job in `out`, by the name of the job's folder, newest first."""
    written = {path.parent: path.stat().st_mtime_ns for path in out.glob(f"parts/*/{FINAL}.safetensors")}
    newest_first = sorted(written, key=lambda path: written[path], reverse=True)
    found = {path.name: _final_numbers(ResultStore(path, kind=PART)) for path in newest_first}
    return {name: final for name, final in found.items() if final is not None}


def _final_numbers(store: ResultStore) -> FinalNumbers | None:
    """Return the final numbers, or None if they are missing or damaged and must be measured again."""
    try:
        if not store.has(FINAL):
            return None
        notes, values = store.with_notes(FINAL)
    except ValueError:
        return None
    return FinalNumbers(**notes, values=values)
