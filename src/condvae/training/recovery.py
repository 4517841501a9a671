"""Where a run stands, and how it comes back there: saving, loading, sharing between ranks, rolling back."""

import dataclasses
import math
from collections.abc import Callable
from typing import Any

from condvae.training.checkpoint import Checkpoints, Position, pack, unpack
from condvae.training.logs import RunLog
from condvae.training.schedule import Stopwatch
from condvae.training.step import Progress, TrainingStep

MOST_ROLLBACKS = 3


class Diverged(RuntimeError):  # noqa: N818 (reads as what it is)
    """Training went wrong again after every roll-back."""


class Recovery:
    """The position of a run together with the step's tensors, the same on all ranks. Only the leader touches files."""

    def __init__(self, step: TrainingStep, checkpoints: Checkpoints, log: RunLog, stopwatch: Stopwatch) -> None:
        self.step, self.checkpoints, self.log, self.stopwatch = step, checkpoints, log, stopwatch
        self.world = step.world
        self.position = Position()
        self._saved: Position | None = None

    def move(self, **changes: Any) -> None:
        """Change the position."""
        self.position = dataclasses.replace(self.position, **changes)

    def save(self, *, must: bool = False) -> None:
        """Write a checkpoint, unless updates are being left out just now: that state may be the broken one.

        must: an error is raised; otherwise training goes on with the checkpoints there are.
        """
        if self._saved == self.position or self.step.streak.item():
            return
        self.world.check_agreement(self.step.flat.values, self.position.step)
        self.move(elapsed=self.stopwatch())
        self._saved = self.position
        if not self.world.leads:
            return

        def write() -> None:
            self.checkpoints.save(self.position, pack(self.step))

        if must:
            write()
        else:
            self.survive(f"the checkpoint of step {self.position.step:,}", write)

    def load(self, *, before: float = math.inf) -> bool:
        """Take the newest whole checkpoint (of steps before `before`), on all ranks; False if there is none."""
        found = False
        if self.world.leads:
            checkpoint = self.checkpoints.latest(self.log.warn, before=before)
            if checkpoint is not None:
                self.position, tensors = checkpoint
                unpack(self.step, tensors, self.checkpoints.path(self.position.step))
                found = True
            elif self.checkpoints.steps():
                raise ValueError(f"no checkpoint in {self.checkpoints.folder} can be read: start in another folder")
        self.share()
        return bool(self.world.tell(found))

    def share(self) -> None:
        """All ranks stand where the leader stands."""
        step = self.step
        for tensor in (*step.optimiser.vectors().values(), step.optimiser.updates, step.tally, step.streak):
            self.world.from_leader(tensor)
        plain: Any = self.world.tell(dataclasses.asdict(self.position))
        self.position = Position(**plain)

    def roll_back(self, progress: Progress, *, skip_above: float) -> None:
        """Back to the last good checkpoint at half the learning rate; a fourth time is an error."""
        before = self.position
        streak = (
            f"{progress.longest_streak} updates in a row were left out "
            f"(not finite, or a gradient norm above {skip_above:g})"
        )
        if before.rollbacks == MOST_ROLLBACKS:
            raise Diverged(
                f"training has diverged: {streak} at step {before.step:,}, after {MOST_ROLLBACKS} roll-backs; "
                f"the checkpoints in {self.checkpoints.folder} are kept: try a lower --lr or another --skip-above"
            )
        steps = self.checkpoints.steps() if self.world.leads else []
        stuck = before.updates_at_rollback == self.step.optimiser.updates.item()
        # Where not one update has worked since the last roll-back, that checkpoint was already broken.
        if not self.load(before=steps[-1] if stuck and len(steps) > 1 else math.inf):
            raise Diverged(f"training has diverged: {streak}, and there is no checkpoint to go back to")
        self.step.tally.zero_()
        self.move(
            rollbacks=before.rollbacks + 1,
            lr_scale=before.lr_scale / 2,
            best_loss=before.best_loss,
            best_step=before.best_step,
            closing=before.closing,
            updates_at_rollback=self.step.optimiser.updates.item(),
        )
        self.save()  # with the halved rate, and before later ones go: a run that is killed now must not forget it
        if self.world.leads:
            self.checkpoints.discard_after(self.position.step)
        self.log.keep_until(self.position.step)
        self.log.record("roll-back", self.position.step, left=before.step, lr_scale=self.position.lr_scale)
        self.log.warn(
            f"{streak}: back from step {before.step:,} to {self.position.step:,} "
            f"at {self.position.lr_scale:g} of the learning rate"
        )

    def survive(self, what: str, write: Callable[[], None]) -> None:
        """A full disk must not end a week of training: what was written before stays."""
        try:
            write()
        except OSError as error:
            self.log.warn(f"{what} could not be written ({error}): training goes on, older files stay as they are")
            self.log.record("write failed", self.position.step, what=what)
