"""The loop around the step: data in, reports, evaluations, checkpoints, roll-backs, and an end on time."""

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

import torch
from PIL import Image
from torch import Tensor

from condvae.data import ImageSet, Order, deliver
from condvae.data.order import spread
from condvae.runtime.seeds import Seeds
from condvae.training.checkpoint import Checkpoints, Position
from condvae.training.held_out_bound import CHUNK, Evaluation, by_resolution, evaluate_held_out
from condvae.training.logs import RunLog, duration
from condvae.training.memory import peak_gigabytes
from condvae.training.options import TrainingOptions
from condvae.training.recovery import Diverged, Recovery
from condvae.training.run_folder import RunFolder
from condvae.training.schedule import Budget, Stopwatch
from condvae.training.signals import Stopped, StopSignals
from condvae.training.step import MicroBatch, Progress, TrainingStep


class TakeStep(Protocol):
    """A training step, or what calls one."""

    def __call__(self, micro_batches: Sequence[MicroBatch], lr: Tensor, *, shards: int) -> None: ...


class Loop:
    """One run, from its first or its last checkpoint to its end."""

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
        # Evenly over the set: its images may lie ordered by class.
        self.held_out_name = held_out_name
        self.held_out = held_out.subset(spread(len(held_out), options.evaluate_on))
        self.draw_sheet, self.save_model = draw_sheet, save_model
        self.micro, self.passes = options.micro_batches(self.world.size)
        self.shards = self.passes * self.world.size
        self.budget = Budget(steps=options.steps, minutes=options.minutes)
        self.schedule = options.learning_schedule
        self.lr = torch.zeros((), device=self.world.device)
        checkpoints = Checkpoints(folder.checkpoints, keep=options.keep, options=options.to_dict())
        self.recovery = Recovery(step, checkpoints, log, stopwatch)
        self.evaluation: Evaluation | None = None
        self._reported = (0, 0.0)
        self._taken = 0  # steps, in this process

    @property
    def position(self) -> Position:
        return self.recovery.position

    def run(self, *, resume: bool) -> None:
        """Train until the budget is used up. The model is then in the run folder."""
        with StopSignals() as signals:
            self._begin(resume=resume)
            batches = self._batches()
            while not self.budget.over(self.position.step):
                self._one_step(next(batches))
                if self._after_step(signals):
                    batches = self._batches()  # rolled back: the data of an earlier step comes next
            self._finish()

    def _begin(self, *, resume: bool) -> None:
        recovery = self.recovery
        if resume and recovery.load():
            self.stopwatch.add(self.position.elapsed)
            self._look_at_clock()
            over = self.budget.over(self.position.step)  # then only the end is done again
            self.log.keep_until(self.position.step, without=("evaluation", "end") if over else ())
            self.log.say(f"going on from step {self.position.step:,}")
        else:
            recovery.share()
        if self.position.step == 0 and self.position.rollbacks == 0:
            self.log.keep_until(-1)
            self.log.record("start", 0, weights=len(self.step.flat), ranks=self.world.size)
            if self.step.fused:  # compiles kernels, which the end will find
                evaluate_held_out(
                    self.step, self.held_out.subset(spread(len(self.held_out), CHUNK)), seed=self.options.seed
                )
            # The end will do each of these again, the evaluation twice; so now is known how long that takes.
            closing = 2 * self._timed(self._evaluate)
            if self.evaluation and not math.isfinite(self.evaluation.nats_per_dim):
                raise ValueError("the model gives no finite bound before any training: its artifact is broken")
            closing += self._timed(lambda: recovery.save(must=True))  # can checkpoints be written here at all?
            closing += self._timed(self._sheet)
            recovery.move(closing=closing)
        self._look_at_clock()
        self._reported = (self.position.step, self.stopwatch())

    def _one_step(self, micro_batches: list[MicroBatch]) -> None:
        done = self.position.step
        self.step.task.prepare(done)
        factor = self.schedule.factor(done, self.budget.progress(done)) * self.position.lr_scale
        self.lr.fill_(self.options.lr * factor)
        self.take_step(micro_batches, self.lr, shards=self.shards)
        self._taken += 1
        self.recovery.move(step=done + 1)

    def _after_step(self, signals: StopSignals) -> bool:
        """Whatever is due now; True if the run has rolled back."""
        done, options = self.position.step, self.options
        if done % options.log_every == 0 or self.budget.over(done):
            progress = self.step.report()
            self._look_at_clock()
            self._report(progress)
            if progress.longest_streak >= options.patience:
                self.recovery.roll_back(progress, skip_above=options.skip_above)
                self._look_at_clock()
                self._reported = (self.position.step, self.stopwatch())
                return True
        elif self._taken <= 2 or (done < options.log_every and done & (done - 1) == 0):
            self._look_at_clock()  # early and often while the pace is not known
        if self.budget.over(done):
            return False  # the end evaluates and saves anyway
        due = [
            # The sheet first: once the checkpoint is written, nothing of this step is done again.
            (bool(options.sheet_every) and done % options.sheet_every == 0, self._sheet),
            (done % options.evaluate_every == 0, self._evaluate),
            (done % options.checkpoint_every == 0, self.recovery.save),
        ]
        if any(now for now, _ in due):
            self._look_at_clock()  # before and after, so that what is due does not pass for the pace of steps
            for now, work in due:
                if now:
                    work()
            self._look_at_clock()
        self._heed(signals)
        return False

    def _finish(self) -> None:
        if self.step.tally[0].item():
            self._report(self.step.report())
        raw = evaluate_held_out(self.step, self.held_out, seed=self.options.seed)
        self._evaluate(raw)
        self._refuse_wreckage()
        if self.world.leads:
            # Before all else that needs room on the disk.
            with self.step.flat.replaced_by(self.step.optimiser.average):
                self.save_model(self.folder.model, self.record())
        self.recovery.save()
        self._sheet()
        took, peak = self.stopwatch(), peak_gigabytes(self.world.device)
        self.log.record("end", self.position.step, elapsed=took, peak_memory_gb=peak)
        memory = "" if peak is None else f", peak memory {peak:.1f} GB"
        self.log.say(f"finished after {self.position.step:,} steps and {duration(took)}{memory}: {self.folder.model}")

    def _refuse_wreckage(self) -> None:
        """No model is written of a run that learnt nothing; one that hardly did gets a warning."""
        done, updates = self.position.step, int(self.step.optimiser.updates.item())
        assert self.evaluation is not None
        if not updates or not math.isfinite(self.evaluation.nats_per_dim):
            raise Diverged(
                f"training came to nothing: {done - updates:,} of {done:,} updates were left out (not finite, or a "
                f"gradient norm above {self.options.skip_above:g}), and no model was written: "
                "try a lower --lr or another --skip-above"
            )
        if done - updates > done // 2:
            self.log.warn(f"{done - updates:,} of {done:,} updates were left out: the model has learnt little")
        if done < self.options.warm_up:
            self.log.warn(f"the run ended inside its warm-up of {self.options.warm_up:,} steps: give it more time")

    def _batches(self) -> Iterator[list[MicroBatch]]:
        """The micro-batches of this rank from the present step on: functions of the seed and the step alone."""
        options, first = self.options, self.position.step
        order = Order(len(self.train), options.seed)
        seeds = Seeds(options.seed, f"training, {self.position.rollbacks} roll-backs")
        mine = range(self.world.rank * self.passes, (self.world.rank + 1) * self.passes)
        generators = [torch.Generator(self.world.device) for _ in mine]
        places = ((step, shard) for step in itertools.count(first) for shard in mine)
        levels = deliver(
            self.train,
            (order(step * options.batch + shard * self.micro, self.micro) for step, shard in places),
            device=self.world.device,
            residency=options.residency,
            workers=options.workers,
        )
        for step in itertools.count(first):
            for shard, generator in zip(mine, generators, strict=True):
                generator.manual_seed(seeds(step * self.shards + shard))
            yield [MicroBatch(next(levels), generator) for generator in generators]

    def _report(self, progress: Progress) -> None:
        done, options = self.position.step, self.options
        now = self.stopwatch()
        before, then = self._reported
        self._reported = (done, now)
        rate = (done - before) * options.batch / max(now - then, 1e-9)
        kl = by_resolution(self.step.task.vae.config, progress.kl_nats)
        bits = progress.loss / math.log(2)
        self.log.record(
            "train",
            done,
            images=done * options.batch,
            loss=progress.loss,
            bits_per_dim=bits,
            kl_nats=kl,
            log_likelihood_nats=progress.log_likelihood_nats,
            gradient_norm=progress.gradient_norm,
            skipped=progress.skipped,
            lr=self.lr.item(),
            images_per_second=rate,
            elapsed=now,
        )
        left = self.budget.seconds_left(done)
        total = f"/{options.steps:,}" if options.steps else ""
        parts = [
            f"step {done:,}{total}",
            f"{rate:,.0f} images/s",
            # With a frozen artifact the likelihood is a constant, and left out.
            f"{bits:.3f} bits/dim" + ("" if progress.log_likelihood_nats else " of KL"),
            "KL " + " ".join(f"{resolution}:{nats:.0f}" for resolution, nats in kl.items()),
            f"skipped {progress.skipped}",
        ]
        self.log.live("  ".join([*parts, f"{duration(left)} left"] if left is not None else parts))

    def _evaluate(self, raw: Evaluation | None = None) -> None:
        """The averaged weights on held-out images; the best are kept. raw: what the weights themselves reach."""
        done, recovery = self.position.step, self.recovery
        with self.step.flat.replaced_by(self.step.optimiser.average):
            result = self.evaluation = evaluate_held_out(self.step, self.held_out, seed=self.options.seed)
            best = self.position.best_loss
            better = math.isfinite(result.nats_per_dim) and (
                best is None or result.nats_per_dim < best or done == self.position.best_step
            )
            if better:
                recovery.move(best_loss=result.nats_per_dim, best_step=done)
            self.log.record(
                "evaluation",
                done,
                images=result.images,
                nats_per_dim=result.nats_per_dim,
                standard_error=result.standard_error,
                bits_per_dim=result.bits_per_dim,
                raw_bits_per_dim=None if raw is None else raw.bits_per_dim,
                log_likelihood_nats=result.log_likelihood_nats,
                kl_nats=by_resolution(self.step.task.vae.config, result.kl_nats),
                **result.by_pixels,
                best=better,
            )
            if better and done and self.world.leads:
                recovery.survive(
                    f"the best model of step {done:,}", lambda: self.save_model(self.folder.best, self.record())
                )
        self.log.say(
            f"step {done:,}: {result.bits_per_dim:.4f} +- {result.standard_error / math.log(2):.4f} bits/dim "
            f"({result.in_words}) on {result.images:,} {self.held_out_name} images"
            + (", the best so far" if better and done else "")
        )
        lag = 0.0 if raw is None else result.nats_per_dim - raw.nats_per_dim
        if raw is not None and lag > max(2 * result.standard_error, 1e-3):
            self.log.warn(
                f"the average of the weights lags behind the weights themselves ({raw.bits_per_dim:.4f} bits/dim): "
                "for a run of this length choose a smaller --ema"
            )
        if better and done:
            recovery.save()

    def _sheet(self) -> None:
        if not self.world.leads:
            return
        done = self.position.step
        with self.step.flat.replaced_by(self.step.optimiser.average):
            picture = self.draw_sheet()
        self.log.picture(done, "sheet", picture)

        def write() -> None:
            self.folder.sheets.mkdir(exist_ok=True)
            picture.save(self.folder.sheets / f"step-{done:09}.png")

        self.recovery.survive(f"the contact sheet of step {done:,}", write)

    def record(self) -> dict[str, Any]:
        """What a model file says of its training."""
        evaluation = self.evaluation
        assert evaluation is not None
        kl = by_resolution(self.step.task.vae.config, evaluation.kl_nats)
        device = self.world.device
        return {
            "steps": self.position.step,
            "updates": int(self.step.optimiser.updates.item()),
            "images_seen": self.position.step * self.options.batch,
            "minutes": round(self.stopwatch() / 60, 2),
            "ranks": self.world.size,
            "device": torch.cuda.get_device_name(device) if device.type == "cuda" else device.type,
            "bits_per_dim": round(evaluation.bits_per_dim, 5),
            **{name: round(cost, 5) for name, cost in evaluation.by_pixels.items() if "error" not in name},
            "evaluated_on": evaluation.images,
            "kl_nats": {str(resolution): round(nats, 2) for resolution, nats in kl.items()},
            "options": self.options.for_record(),
        }

    def _look_at_clock(self) -> None:
        self._wait_for_device()
        reading = torch.tensor([self.stopwatch(), self.position.closing], dtype=torch.float64, device=self.world.device)
        elapsed, closing = self.world.from_leader(reading).tolist()
        # The first steps of a process on a GPU compile kernels and record graphs: their time is no pace.
        settling = self.world.device.type == "cuda" and self._taken <= 2
        self.budget.look(self.position.step, elapsed, reserve=1.0 + 1.25 * closing, settling=settling)

    def _timed(self, work: Callable[[], None]) -> float:
        begin = self.stopwatch()
        work()
        self._wait_for_device()
        return self.stopwatch() - begin

    def _wait_for_device(self) -> None:
        if self.world.device.type == "cuda":
            torch.cuda.synchronize(self.world.device)

    def _heed(self, signals: StopSignals) -> None:
        """Ranks must stop at the same step, so with several they compare notes: every five seconds or so."""
        asked = signals.asked
        if self.world.size > 1:
            every = min(self.options.log_every, int(5 / max(self.budget.pace, 1e-3)))
            if self.position.step % max(every, 1):
                return
            asked = self.world.sum(torch.tensor(float(asked), device=self.world.device)).item() > 0
        if asked:
            self.recovery.save()
            newest = max(self.recovery.checkpoints.steps(), default=0)
            raise Stopped(
                f"stopped at step {self.position.step:,}: the same command with --resume goes on from step {newest:,}"
            )
