"""The units of work of the experiment, and the files of their results.

DIR/runs/NAME-FINGERPRINT/ has the results of one training: training.safetensors with the time of a step and the last
bounds of held-out images, and one file for each snapshot. Its subfolder training/ is a run folder of `condvae train`.
The units of one training are computed by one process, since each needs the files of those before it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from torch import Tensor

from condvae.experiments.pretraining.measure import PretrainingContext
from condvae.experiments.pretraining.plan import REVISION
from condvae.experiments.pretraining.training_runs import Arm, TrainingRun, runs_of
from condvae.experiments.resumable_work import ResultStore, WorkUnit

PART = "condvae pretraining numbers"
_TRAINING, _INFORMATION = "training", "information"


@dataclass(frozen=True, kw_only=True, eq=False)
class PretrainingJob:
    """One training and the measurements of its snapshots."""

    run: TrainingRun
    store: ResultStore
    identity: str
    """The digest of the measurements, which is part of the names of their files."""

    @property
    def folder(self) -> Path:
        """The run folder of the training."""
        return self.store.folder / "training"

    def unit_of(self, step: int) -> str:
        return f"step-{step:09}-{self.identity}"

    def units(self, context: PretrainingContext, truth: ResultStore) -> list[WorkUnit]:
        last = self.run.steps[-1] if self.run.steps else context.settings.pace_steps
        batch = self.run.options(context.settings, context.data_path, self.folder, "cpu").batch
        training = WorkUnit(
            what=f"{self.run}: training",
            store=self.store,
            unit=_TRAINING,
            images=last * batch,
            measure=partial(context.train, self.run, self.folder),
            together=str(self.run),
        )
        measured = [
            WorkUnit(
                what=f"{self.run}: measuring",
                store=self.store,
                unit=self.unit_of(step),
                images=len(context.rows),
                measure=partial(context.snapshot, self.run, self.folder, truth, step),
                together=str(self.run),
            )
            for step in self.run.steps
        ]
        return [training, *measured]

    def of_training(self, name: str) -> float:
        """Return a number of the training: "seconds_per_step", or one of the `TARGETS`."""
        return float(self.store.get([_TRAINING])[0][name])

    def numbers(self, step: int) -> dict[str, Tensor]:
        return self.store.get([self.unit_of(step)])[0]


@dataclass(frozen=True, kw_only=True, eq=False)
class InformationJob:
    """Measures I*(x; y | z) for one condition."""

    arm: Arm
    condition: str
    store: ResultStore
    together: str
    """The name of the training whose process does this, too. So there are as many groups of units as trainings."""

    def unit(self, context: PretrainingContext) -> WorkUnit:
        return WorkUnit(
            what=f"{self.condition}: information beyond the latents",
            store=self.store,
            unit=_INFORMATION,
            images=context.settings.bound_images,
            measure=partial(context.information, self.arm, self.condition),
            together=self.together,
        )

    def numbers(self) -> dict[str, Tensor]:
        return self.store.get([_INFORMATION])[0]


@dataclass(frozen=True, kw_only=True, eq=False)
class PretrainingJobs:
    """All jobs of the experiment."""

    pace: Sequence[PretrainingJob]
    trainings: Sequence[PretrainingJob]
    information: Sequence[InformationJob]
    truth: ResultStore
    """The store of the Inception features of the test images."""

    def units(self, context: PretrainingContext, *, pace_only: bool) -> list[WorkUnit]:
        paces = [unit for job in self.pace for unit in job.units(context, self.truth)]
        if pace_only:
            return paces
        rest = [unit for job in self.trainings for unit in job.units(context, self.truth)]
        return [*paces, *rest, *(job.unit(context) for job in self.information)]

    def check_whole(self, context: PretrainingContext) -> None:
        """Raise a ValueError if the result of a unit is missing."""
        for unit in self.units(context, pace_only=False):
            unit.store.check_whole([unit.unit])


def jobs_of(context: PretrainingContext, arms: Sequence[Arm], out: Path) -> PretrainingJobs:
    settings = context.settings

    def job(run: TrainingRun) -> PretrainingJob:
        made_of = {"revision": REVISION, **run.made_of(settings, context.data_digest)}
        return PretrainingJob(
            run=run, store=ResultStore.of_job(out, str(run), made_of, kind=PART), identity=context.identity
        )

    def information(run: TrainingRun) -> InformationJob:
        made_of = {"measured": context.identity, "artifact": run.arm.identity, "condition": run.condition}
        store = ResultStore.of_job(out, f"information, {run.condition}", made_of, kind=PART)
        return InformationJob(arm=run.arm, condition=run.condition, store=store, together=str(run))

    jobs = [job(run) for run in runs_of(arms, settings)]
    others = [
        one.run
        for one in jobs
        if one.run.steps and one.run.condition != settings.condition and one.run.arm.artifact is not None
    ]
    return PretrainingJobs(
        pace=[one for one in jobs if not one.run.steps],
        trainings=[one for one in jobs if one.run.steps],
        information=[information(run) for run in others],
        truth=ResultStore(out / "runs" / "test-images", kind=PART),
    )
