"""The training loop. It feeds data to the training steps, logs, evaluates, saves checkpoints and rolls back."""

import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from PIL import Image

from condvae.data import ImageSet
from condvae.data.order import spread
from condvae.runtime.messages import counted, in_words
from condvae.runtime.progress import TrackedJob, track
from condvae.training.batches import batches_from
from condvae.training.checkpoint import Checkpoints, Position
from condvae.training.held_out_bound import CHUNK
from condvae.training.logs import RunLog, step_note
from condvae.training.memory import peak_gigabytes
from condvae.training.options import TrainingOptions
from condvae.training.recovery import Diverged, Recovery
from condvae.training.run_folder import RunFolder
from condvae.training.schedule import Budget, Stopwatch
from condvae.training.signals import Stopped, StopSignals
from condvae.training.step import MicroBatch, Progress, TakeStep, TrainingStep
from condvae.training.task import HeldOutResult


class Loop:
    """One training run, from its start or its last checkpoint to its end."""

    def __init__(
        self,
        options: TrainingOptions,
        step: TrainingStep,
        *,
        train: ImageSet,
        held_out: ImageSet,
        held_out_name: str,
        folder: RunFolder,
        log: RunLog,
        stopwatch: Stopwatch,
        take_step: TakeStep | None = None,
        draw_sheet: Callable[[], Image.Image],
        save_model: Callable[[Path, dict[str, Any]], None],
    ) -> None:
        self.options, self.step, self.world = options, step, step.world
        self.take_step = take_step or step
        self.train, self.folder, self.log, self.stopwatch = train, folder, log, stopwatch
        self.held_out_name = held_out_name
        # Chosen evenly over the set, since its images may be sorted by class.
        self.held_out = held_out.subset(spread(len(held_out), options.evaluate_on))
        self.draw_sheet, self.save_model = draw_sheet, save_model
        self.shards = options.micro_batches(self.world.size)[1] * self.world.size
        self.budget = Budget(steps=options.steps, minutes=options.minutes)
        self.schedule = options.learning_schedule
        self.lr = torch.zeros((), device=self.world.device)
        checkpoints = Checkpoints(folder.checkpoints, keep=options.keep, options=options.to_dict())
        self.recovery = Recovery(step, checkpoints, log, stopwatch)
        self.evaluation: HeldOutResult | None = None
        self._reported = (0, 0.0)
        self._snapshot_minutes = set(options.snapshot_minutes)
        self._taken = 0  # number of steps taken by this process
        self._job = TrackedJob("training")

    @property
    def position(self) -> Position:
        return self.recovery.position

    def run(self, *, resume: bool) -> None:
        """Train until the budget is used up, and write the model into the run folder."""
        with StopSignals() as signals:
            self._begin(resume=resume)
            batches = self._batches()
            steps = self.options.steps
            guide = "docs/guides/train.md" if self.world.device.type == "cpu" and steps else None
            with track("training", total=steps, unit="step", left=self._left, gpu_guide=guide) as self._job:
                while not self.budget.over(self.position.step):
                    self._one_step(next(batches))
                    if self._after_step(signals):
                        batches = self._batches()  # after a roll-back, continue with the data of an earlier step
            self._finish()

    def _left(self) -> float | None:
        return self.budget.seconds_left(self.position.step)

    def _begin(self, *, resume: bool) -> None:
        recovery = self.recovery
        if resume and recovery.load():
            # The earlier process has written the snapshots that were due at its last checkpoint.
            self.budget.record_time(self.position.step, self.position.elapsed, reserve=_reserve(self.position.closing))
            self._snapshot_time()
            self.stopwatch.add(self.position.elapsed)
            self._read_clock()
            over = self.budget.over(self.position.step)  # if True, only the end of the run is repeated
            self.log.keep_until(self.position.step, without=("evaluation", "end") if over else ())
            self.log.say(f"resuming from step {self.position.step:,}")
        else:
            recovery.share()
        if self.position.step == 0 and self.position.rollbacks == 0:
            self.log.keep_until(-1)
            self.log.record("start", 0, weights=len(self.step.flat), ranks=self.world.size)
            if self.world.device.type == "cuda":  # compile kernels now, so that this is not part of the measured time
                self._evaluated(self.held_out.subset(spread(len(self.held_out), CHUNK)))
            # Measure how long the end of the run will take: it evaluates twice, saves a checkpoint and draws a sheet.
            closing = 2 * self._timed(self._evaluate)
            if self.evaluation and not math.isfinite(self.evaluation.loss):
                raise ValueError("the loss is not finite before training starts: start from another model")
            closing += self._timed(lambda: recovery.save(required=True))  # fails now if checkpoints cannot be written
            closing += self._timed(self._sheet)
            recovery.move(closing=closing)
        self._read_clock()
        self._reported = (self.position.step, self.stopwatch())

    def _one_step(self, micro_batches: list[MicroBatch]) -> None:
        done = self.position.step
        self.step.task.prepare(done)
        factor = self.schedule.factor(done, self.budget.progress(done)) * self.position.lr_scale
        self.lr.fill_(self.options.lr * factor)
        self.take_step(micro_batches, self.lr, shards=self.shards)
        self._taken += 1
        self.recovery.move(step=done + 1)
        self._job.done = done + 1

    def _after_step(self, signals: StopSignals) -> bool:
        """Log, evaluate and save if this is due after the current step. Return True if the run has rolled back."""
        done, options = self.position.step, self.options
        if done % options.log_every == 0 or self.budget.over(done):
            progress = self.step.report()
            self._read_clock()
            self._report(progress)
            if progress.longest_streak >= options.patience:
                self.recovery.roll_back(progress, skip_above=options.skip_above)
                self._read_clock()
                self._reported = (self.position.step, self.stopwatch())
                return True
        elif self._taken <= 2 or (done < options.log_every and done & (done - 1) == 0):
            self._read_clock()  # often at first, while the pace is not known
        if self.log.enabled and self._job.note_due():  # about every ten seconds: this waits for the device
            self._note(self.step.report(start_new=False))
        if self.budget.over(done):
            return False  # `_finish` evaluates and saves
        due = [
            # The checkpoint comes last: a run resumed from it does not repeat any work of this step.
            (self._snapshot_time() or done in options.snapshot_at, self._snapshot),
            (bool(options.sheet_every) and done % options.sheet_every == 0, self._sheet),
            (done % options.evaluate_every == 0, self._evaluate),
            (done % options.checkpoint_every == 0, self.recovery.save),
        ]
        if any(now for now, _ in due):
            self._read_clock()  # before and after, so that this work does not count as time of the steps
            for now, work in due:
                if now:
                    work()
            self._read_clock()
        self._stop_if_requested(signals)
        return False

    def _snapshot_time(self) -> bool:
        """Return whether the time of a snapshot has come since the last call."""
        due = [one for one in self._snapshot_minutes if self.budget.past(60 * one, self.position.step)]
        self._snapshot_minutes -= set(due)
        return bool(due)

    def _finish(self) -> None:
        if self.step.tally[0].item():
            self._report(self.step.report())
        self._evaluate(self._evaluated(self.held_out))
        self._reject_failed_run()
        if self.position.step in self.options.snapshot_at or self._snapshot_time():
            self._snapshot()
        if self.world.leads:
            # Written before the other files, in case the disk becomes full.
            with self.step.flat.replaced_by(self.step.optimiser.average):
                self.save_model(self.folder.model, self.record())
        self.recovery.save()
        self._sheet()
        took, peak = self.stopwatch(), peak_gigabytes(self.world.device)
        self.log.record("end", self.position.step, elapsed=took, peak_memory_gb=peak)
        memory = "" if peak is None else f", peak memory {peak:.1f} GB"
        steps = counted(self.position.step, "step")
        self.log.say(f"finished after {steps} in {in_words(took)}{memory}: {self.folder.model}")

    def _reject_failed_run(self) -> None:
        """Raise Diverged if the run has learnt nothing, so that no model is written; warn if it has learnt little."""
        done, updates = self.position.step, int(self.step.updates())
        assert self.evaluation is not None
        if not updates or not math.isfinite(self.evaluation.loss):
            raise Diverged(
                f"training has failed: {done - updates:,} of {done:,} updates were skipped (loss or gradient not "
                f"finite, or gradient norm above {self.options.skip_above:g}), and no model was written: "
                "try a lower --lr or another --skip-above"
            )
        if done - updates > done // 2:
            self.log.warn(f"{done - updates:,} of {done:,} updates were skipped: the model has learnt little")
        if done < self.options.warm_up:
            self.log.warn(f"the run ended during its warm-up of {self.options.warm_up:,} steps: let it run longer")

    def _batches(self) -> Iterator[list[MicroBatch]]:
        return batches_from(
            self.train,
            self.options,
            self.world,
            step=self.position.step,
            rollbacks=self.position.rollbacks,
            critic=self.step.critic is not None,
        )

    def _report(self, progress: Progress) -> None:
        done, options = self.position.step, self.options
        now = self.stopwatch()
        before, then = self._reported
        self._reported = (done, now)
        rate = (done - before) * options.batch / max(now - then, 1e-9)
        self.log.record(
            "train",
            done,
            images=done * options.batch,
            loss=progress.loss,
            **self.step.task.log_values(progress),
            gradient_norm=progress.gradient_norm,
            skipped=progress.skipped,
            lr=self.lr.item(),
            images_per_second=rate,
            elapsed=now,
        )
        self._note(progress)

    def _note(self, progress: Progress) -> None:
        """Show the numbers of the last steps on the console."""
        if progress.steps:
            described = self.step.task.note(progress)
            self._job.note = step_note(progress, described, batch=self.options.batch, pace=self.budget.pace)

    def _evaluated(self, images: ImageSet) -> HeldOutResult:
        return self.step.task.evaluate(self.step, images, seed=self.options.seed)

    def _evaluate(self, raw: HeldOutResult | None = None) -> None:
        """Evaluate the averaged weights, and save the best. raw: the evaluation of the last weights, for comparison."""
        done, recovery = self.position.step, self.recovery
        with self.step.flat.replaced_by(self.step.optimiser.average):
            result = self.evaluation = self._evaluated(self.held_out)
            best = self.position.best_loss
            better = math.isfinite(result.loss) and (
                best is None or result.loss < best or done == self.position.best_step
            )
            if better:
                recovery.move(best_loss=result.loss, best_step=done)
            self.log.record("evaluation", done, **result.numbers(raw), best=better)
            if better and done and self.world.leads:
                recovery.try_write(
                    f"the best model of step {done:,}", lambda: self.save_model(self.folder.best, self.record())
                )
        self.log.say(
            f"step {done:,}: {result.text} on {counted(result.images, f'{self.held_out_name} image')}"
            + (", the best so far" if better and done else "")
        )
        lag = 0.0 if raw is None else result.loss - raw.loss
        if raw is not None and lag > max(2 * result.standard_error, 1e-3):
            self.log.warn(
                f"the averaged weights ({result.short}) are worse than the last weights ({raw.short}): "
                "give a smaller --ema for a run of this length"
            )
        if better and done:
            recovery.save()

    def _snapshot(self) -> None:
        """Write the averaged weights to a model file of this step, without an evaluation."""
        if self.world.leads:
            done = self.position.step
            with self.step.flat.replaced_by(self.step.optimiser.average):
                self.recovery.try_write(
                    f"the snapshot of step {done:,}",
                    lambda: self.save_model(self.folder.snapshot(done), self._record_of_run()),
                )

    def _sheet(self) -> None:
        if not self.world.leads:
            return
        done = self.position.step
        with self.step.flat.replaced_by(self.step.optimiser.average):
            picture = self.draw_sheet()
        self.log.picture(done, "sheet", picture)
        self.recovery.try_write(f"the contact sheet of step {done:,}", lambda: self.folder.write_sheet(done, picture))

    def record(self) -> dict[str, Any]:
        """Return the training record that is stored in the model file, with the result of the last evaluation."""
        assert self.evaluation is not None
        return {**self._record_of_run(), **self.evaluation.record()}

    def _record_of_run(self) -> dict[str, Any]:
        device = self.world.device
        return {
            "steps": self.position.step,
            "updates": int(self.step.updates()),
            "images_seen": self.position.step * self.options.batch,
            "minutes": round(self.stopwatch() / 60, 2),
            "ranks": self.world.size,
            "device": torch.cuda.get_device_name(device) if device.type == "cuda" else device.type,
            "options": self.options.for_record(),
        }

    def _read_clock(self) -> None:
        self._wait_for_device()
        reading = torch.tensor([self.stopwatch(), self.position.closing], dtype=torch.float64, device=self.world.device)
        elapsed, closing = self.world.from_leader(reading).tolist()
        # The first steps of a process on a GPU compile kernels and record graphs: their time does not show the pace.
        settling = self.world.device.type == "cuda" and self._taken <= 2
        self.budget.record_time(self.position.step, elapsed, reserve=_reserve(closing), settling=settling)

    def _timed(self, work: Callable[[], None]) -> float:
        begin = self.stopwatch()
        work()
        self._wait_for_device()
        return self.stopwatch() - begin

    def _wait_for_device(self) -> None:
        if self.world.device.type == "cuda":
            torch.cuda.synchronize(self.world.device)

    def _stop_if_requested(self, signals: StopSignals) -> None:
        """Save a checkpoint and raise Stopped if a signal to stop has arrived.

        All ranks must stop at the same step: about every five seconds they check whether one of them has received a
        signal.
        """
        requested = signals.requested
        if self.world.size > 1:
            every = min(self.options.log_every, int(5 / max(self.budget.pace, 1e-3)))
            if self.position.step % max(every, 1):
                return
            requested = self.world.sum(torch.tensor(float(requested), device=self.world.device)).item() > 0
        if requested:
            self.recovery.save()
            newest = max(self.recovery.checkpoints.steps(), default=0)
            raise Stopped(
                f"stopped at step {self.position.step:,}: the same command with --resume continues from step {newest:,}"
            )


def _reserve(closing: float) -> float:
    """Return the seconds that are reserved for the end of a run. closing: how long it has taken before."""
    return 1.0 + 1.25 * closing
