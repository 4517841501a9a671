"""The jobs of an experiment. In a job, one policy scans blocks of images for one variable and stores results as files.

A file DIR/runs/POLICY-VARIABLE-FINGERPRINT/BLOCK.safetensors has the results of b images, T scans of each, and R tries
(repetitions with new random draws). It contains
    chosen [b, R, T]            the scanned locations
    log_p [b, R, T + 1, V, K]   predictions log g of all variables after 0, ..., T scans
Since all variables are stored, every task can be evaluated with scans that were chosen for any other task.
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
"""Number of images in a unit of work. A killed process loses at most one unit. Results change only by rounding."""
_PIXELS_TOGETHER = 2**24
"""Number of pixels of the images in a unit of work, for policies without completions. Most of their work is one plan
for all images, so units are large: otherwise several processes would compute the same plan."""


@dataclass(frozen=True, kw_only=True, eq=False)
class ScanResult:
    """The results of one job, in which one policy chose scans of all images for one variable."""

    log_p: Tensor
    """[N, R, T + 1, V, K] float32: predictions log g for N images and R tries after 0, ..., T scans. For the policy
    "full", which sees whole images: [N, 1, 1, V, K]."""
    chosen: Tensor | None
    """[N, R, T] int64: indices of the scanned locations among the candidates, for N images, R tries and T scans. None
    for the policy "full"."""
    seconds: float


@dataclass(frozen=True, kw_only=True, eq=False)
class DesignJob:
    """The work of one policy that chooses scans of all images for one variable."""

    name: str
    spec: PolicySpec
    variable: int | None
    """Index of the variable. None if the policy's choices do not depend on it."""
    units: tuple[ImageRange, ...]
    store: ResultStore

    def result(self) -> ScanResult:
        """Read the results of all units, which must be finished."""
        self.store.check_whole(self.units)
        numbers, seconds = self.store.get(self.units)
        chosen = numbers.get("chosen")
        return ScanResult(log_p=numbers["log_p"], chosen=None if chosen is None else chosen.long(), seconds=seconds)


def jobs_of(context: DesignContext, variables: Sequence[int], out: Path, block: int | None) -> Iterator[DesignJob]:
    """Yield one job per policy and variable, or one per policy if its choices do not depend on the variable."""
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
    """Return the units of work of all these jobs."""
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
