"""Save and load the state of a run, share it between ranks, and roll back to a checkpoint after a divergence."""

import dataclasses
import math
from collections.abc import Callable
from typing import Any

from condvae.training.checkpoint import Checkpoints, Position, pack, unpack
from condvae.training.logs import RunLog
from condvae.training.schedule import Stopwatch
from condvae.training.step import Progress, TrainingStep

MAX_ROLLBACKS = 3


class Diverged(RuntimeError):  # noqa: N818 (a state, named by a participle)
    """Raised if training diverges and roll-backs do not help, or if it has learnt nothing."""


class Recovery:
    """Holds the position of a run, and saves and loads it with the tensors of the training state.

    Both are the same on all ranks. Only rank 0 reads and writes files.
    """

    def __init__(self, step: TrainingStep, checkpoints: Checkpoints, log: RunLog, stopwatch: Stopwatch) -> None:
        self.step, self.checkpoints, self.log, self.stopwatch = step, checkpoints, log, stopwatch
        self.world = step.world
        self.position = Position()
        self._saved: Position | None = None

    def move(self, **changes: Any) -> None:
        """Change some fields of the position."""
        self.position = dataclasses.replace(self.position, **changes)

    def save(self, *, required: bool = False) -> None:
        """Write a checkpoint, unless the last update was skipped, because then the state may already be broken.

        If writing fails, raise the error if `required`, else only warn.
        """
        if self._saved == self.position or self.step.streak.item():
            return
        for learner in self.step.learners.values():
            self.world.check_agreement(learner.flat.values, self.position.step)
        self.move(elapsed=self.stopwatch())
        self._saved = self.position
        if not self.world.leads:
            return

        def write() -> None:
            self.checkpoints.save(self.position, pack(self.step))

        if required:
            write()
        else:
            self.try_write(f"the checkpoint of step {self.position.step:,}", write)

    def load(self, *, before: float = math.inf) -> bool:
        """Load the newest readable checkpoint of a step before `before` on all ranks. Return False if there is none."""
        found = False
        if self.world.leads:
            checkpoint = self.checkpoints.latest(self.log.warn, before=before)
            if checkpoint is not None:
                self.position, tensors = checkpoint
                unpack(self.step, tensors, self.checkpoints.path(self.position.step))
                found = True
            elif self.checkpoints.steps():
                raise ValueError(f"no checkpoint in {self.checkpoints.folder} can be read: choose another --out folder")
        self.share()
        return bool(self.world.tell(found))

    def share(self) -> None:
        """Copy the training state and the position from rank 0 to all other ranks."""
        step = self.step
        optimisers = [learner.optimiser for learner in step.learners.values()]
        states = [tensor for one in optimisers for tensor in (*one.vectors().values(), one.updates)]
        for tensor in (*states, step.buffers.values, step.tally, step.streak):
            self.world.from_leader(tensor)
        plain: Any = self.world.tell(dataclasses.asdict(self.position))
        self.position = Position(**plain)

    def roll_back(self, progress: Progress, *, skip_above: float) -> None:
        """Go back to the last good checkpoint and halve the learning rate. Raise Diverged after three roll-backs."""
        before = self.position
        streak = (
            f"{progress.longest_streak} updates in a row were skipped "
            f"(loss or gradient not finite, or gradient norm above {skip_above:g})"
        )
        if before.rollbacks == MAX_ROLLBACKS:
            raise Diverged(
                f"training has diverged: {streak} at step {before.step:,}, after {MAX_ROLLBACKS} roll-backs; "
                f"the checkpoints in {self.checkpoints.folder} are kept: try a lower --lr or another --skip-above"
            )
        steps = self.checkpoints.steps() if self.world.leads else []
        stuck = before.updates_at_rollback == self.step.updates()
        # If no update succeeded since the last roll-back, its checkpoint was already broken: use an older one.
        if not self.load(before=steps[-1] if stuck and len(steps) > 1 else math.inf):
            raise Diverged(f"training has diverged: {streak}, and there is no checkpoint to roll back to")
        self.step.tally.zero_()
        self.move(
            rollbacks=before.rollbacks + 1,
            lr_scale=before.lr_scale / 2,
            best_loss=before.best_loss,
            best_step=before.best_step,
            closing=before.closing,
            updates_at_rollback=self.step.updates(),
        )
        # The halved learning rate is saved before later checkpoints are deleted, so that a kill here cannot lose it.
        self.save()
        if self.world.leads:
            self.checkpoints.discard_after(self.position.step)
        self.log.keep_until(self.position.step)
        self.log.record("roll-back", self.position.step, left=before.step, lr_scale=self.position.lr_scale)
        self.log.warn(
            f"{streak}: rolled back from step {before.step:,} to {self.position.step:,}; "
            f"the learning rate is now multiplied by {self.position.lr_scale:g}"
        )

    def try_write(self, what: str, write: Callable[[], None]) -> None:
        """Call `write`, and only warn if it fails, because a full disk must not end a long training."""
        try:
            write()
        except OSError as error:
            self.log.warn(f"{what} could not be written ({error}): training continues, and older files are unchanged")
            self.log.record("write failed", self.position.step, what=what)
