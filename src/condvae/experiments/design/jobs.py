"""The scans of an experiment: each policy, for each variable, over blocks of images, as files.

DIR/runs/POLICY-VARIABLE-FINGERPRINT/BLOCK.safetensors holds of b images, R tries and T scans
    chosen [b, R, T]            where was scanned
    log_p [b, R, T + 1, V, K]   what g said after 0, ..., T scans, of all variables
so that any task can be judged by scans that were chosen for any other.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from torch import Tensor

from condvae.experiments.design.measure import DesignContext
from condvae.experiments.design.plan import PolicySpec
from condvae.experiments.resumable_work import ImageRange, ResultStore, WorkUnit, image_ranges

PART = "condvae design scans"
_IMAGES_PER_UNIT = {"cuda": 128, "cpu": 8}
"""Images that are scanned together, which bounds what a kill can cost. Results do not depend on it but for rounding."""
_PIXELS_TOGETHER = 2**24
"""Of those that are scanned together where the work is in the plan for all and not in the images: one process then has
the plan, and others need not make it as well."""


@dataclass(frozen=True, kw_only=True, eq=False)
class ScanResult:
    """What came of a policy."""

    log_p: Tensor
    """[N, R, T + 1, V, K] float32; of the whole image: [N, 1, 1, V, K]."""
    chosen: Tensor | None
    """[N, R, T] int64 into the candidates."""
    seconds: float


@dataclass(frozen=True, kw_only=True, eq=False)
class DesignJob:
    """One policy, choosing for one variable."""

    name: str
    spec: PolicySpec
    variable: int | None
    """None where the policy does not ask for one."""
    units: tuple[ImageRange, ...]
    store: ResultStore

    def result(self) -> ScanResult:
        self.store.check_whole(self.units)
        numbers, seconds = self.store.get(self.units)
        chosen = numbers.get("chosen")
        return ScanResult(log_p=numbers["log_p"], chosen=None if chosen is None else chosen.long(), seconds=seconds)


def jobs_of(context: DesignContext, variables: Sequence[int], out: Path, block: int | None) -> Iterator[DesignJob]:
    """Every policy for every variable that it is asked for; once where it does not ask."""
    settings = context.settings
    size = block or _IMAGES_PER_UNIT.get(context.device.type, _IMAGES_PER_UNIT["cpu"])
    together = max(size, _PIXELS_TOGETHER // context.data.test.size**2)
    for spec in map(settings.spec, settings.policies):
        for variable in dict.fromkeys(variables) if spec.depends_on_task else (None,):
            name = spec.name if variable is None else f"{spec.name}, {context.classifier.names[variable].lower()}"
            store = ResultStore.of_job(out, name, context.made_of(spec, variable), kind=PART)
            units = image_ranges(len(context.rows), size if spec.kind == "completions" else together)
            yield DesignJob(name=name, spec=spec, variable=variable, units=tuple(units), store=store)


def work_units(jobs: Sequence[DesignJob], context: DesignContext) -> list[WorkUnit]:
    return [
        WorkUnit(
            what=job.name,
            store=job.store,
            unit=unit,
            images=unit.stop - unit.first,
            measure=partial(context.scan, job.spec, job.variable, unit),
        )
        for job in jobs
        for unit in job.units
    ]
