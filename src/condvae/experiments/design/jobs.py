"""The jobs of an experiment: each policy, for each variable, scans blocks of images and stores the results as files.

For b images, R tries and T scans, DIR/runs/POLICY-VARIABLE-FINGERPRINT/BLOCK.safetensors contains
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
"""Images that are scanned together: the most work that a killed process loses. It changes results only by rounding."""
_PIXELS_TOGETHER = 2**24
"""Pixels that are scanned together by policies without completions. Most of their work is one plan for all images, so
large units avoid that several processes compute the same plan."""


@dataclass(frozen=True, kw_only=True, eq=False)
class ScanResult:
    """The results of one job: one policy, choosing for one variable, on all images."""

    log_p: Tensor
    """[N, R, T + 1, V, K] float32: log g after each scan. For the policy "full": [N, 1, 1, V, K]."""
    chosen: Tensor | None
    """[N, R, T] int64: indices of the scanned locations among the candidates."""
    seconds: float


@dataclass(frozen=True, kw_only=True, eq=False)
class DesignJob:
    """The work of one policy that chooses scans for one variable."""

    name: str
    spec: PolicySpec
    variable: int | None
    """None if the policy's choices do not depend on the variable."""
    units: tuple[ImageRange, ...]
    store: ResultStore

    def result(self) -> ScanResult:
        """Read the finished results of all units."""
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
    """All units of work of these jobs."""
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
