"""One training step: compute the gradients of micro-batches, update the weights or skip the update, and sum logged
values.

Nothing in a step waits for the device, so that `condvae.training.capture.Capture` can record it as one CUDA graph.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol, TypeAlias

import torch
from torch import Tensor, nn

from condvae.data import LevelBatch
from condvae.objectives import Bound
from condvae.observe.batch import Batch
from condvae.runtime.ranks import World
from condvae.training.flat_parameters import FlatBuffers, FlatParameters
from condvae.training.held_out_bound import ScoredPixels
from condvae.training.optimiser import Optimiser, Rule
from condvae.training.task import BoundTask, TaskLoss, TrainingTask

if TYPE_CHECKING:
    from condvae.kernels.fused_vdvae import Fused

TrainingPrecision: TypeAlias = Literal["fp32", "bf16"]


class MicroBatch(NamedTuple):
    """The images that pass through the network together, and the generator for their random numbers."""

    levels: LevelBatch
    generator: torch.Generator
    """Generator for mirroring, observations and latents, on the device of the images."""
    critic_generator: torch.Generator | None = None
    """The same for the update of the critic, if the task has one."""


@dataclass(frozen=True, kw_only=True)
class Progress:
    """Counts and means over the steps since the last report, copied from the device to the host."""

    steps: int
    skipped: int
    longest_streak: int
    """The longest sequence of skipped updates; one that began before the last report counts in full."""
    streak: int
    """How many updates in a row have been skipped up to now; 0 if the last update was made."""
    loss: float
    """The loss, for VAEs in nats per dimension. This and the following values are means over the updates that were not
    skipped, or NaN if all were skipped."""
    gradient_norm: float
    figures: dict[str, float]
    """The figures of the task, by name."""
    critic: dict[str, float]
    """The loss, gradient norm and figures of the critic, by name; empty if there is none."""


class TakeStep(Protocol):
    """Takes one training step when called: a `TrainingStep`, or its CUDA graph (`condvae.training.capture.Capture`)."""

    def __call__(self, micro_batches: Sequence[MicroBatch], lr: Tensor, *, shards: int) -> None:
        """Take one step on this rank's micro-batches; see `TrainingStep.__call__`."""


class TrainedNetwork:
    """A network that is trained: its weights, its optimiser, and the logged values of its last update."""

    def __init__(self, module: nn.Module, figures: Sequence[str], rule: Rule, world: World) -> None:
        self.module, self.figures = module, tuple(figures)
        # Summed over ranks after the gradients: number of losses that are not finite, loss, figures.
        self.flat = FlatParameters(module, extra=2 + len(self.figures))
        self.optimiser = Optimiser(self.flat, rule)
        self.norm = torch.zeros((), device=world.device)
        self.accepted = torch.zeros((), device=world.device)

    @property
    def logged(self) -> Tensor:
        """The gradient norm, the loss and the figures of the last update."""
        return torch.cat((self.norm.view(1), self.flat.extra[1:]))


class TrainingStep:
    """Takes a training step: forward and backward passes, sum over ranks, clipping, update or skip, and statistics."""

    def __init__(
        self,
        task: TrainingTask,
        rule: Rule,
        world: World,
        *,
        precision: TrainingPrecision,
        flip: bool,
        fused: bool = False,
        streams: int = 3,
    ) -> None:
        self.task, self.world, self.precision, self.flip = task, world, precision, flip
        self.model = TrainedNetwork(task.model, task.figures, rule, world)
        self.critic = None if task.critic is None else TrainedNetwork(task.critic, task.critic_figures, rule, world)
        self.buffers = FlatBuffers(*(learner.module for learner in self.learners.values()))
        # Since the last report: steps, accepted updates, longest streak, and for each learner, sums of norm, loss and
        # figures.
        logged = sum(len(learner.logged) for learner in self.learners.values())
        self.tally = torch.zeros(3 + logged, device=world.device)
        self.streak = torch.zeros((), device=world.device)
        self.fused = self._fuse(streams) if fused else None

    @property
    def flat(self) -> FlatParameters:
        """The weights of the model."""
        return self.model.flat

    @property
    def optimiser(self) -> Optimiser:
        """The optimiser of the model."""
        return self.model.optimiser

    @property
    def learners(self) -> dict[str, "TrainedNetwork"]:
        """The networks that are trained, by name, in the order in which a step updates them."""
        return {"model": self.model} if self.critic is None else {"critic": self.critic, "model": self.model}

    def _fuse(self, streams: int) -> "Fused":
        from condvae.kernels.fused_vdvae import Fused  # imported late, because it needs Triton

        assert self.precision == "bf16", "fused kernels compute in half precision"
        self.low = torch.empty_like(self.flat.values, dtype=torch.bfloat16)
        gradients = self.flat.gradients
        trained = {
            p: (self.flat.view(self.low, n), self.flat.view(gradients, n)) for n, p in self.flat.parameters.items()
        }
        return Fused(self.task.model, torch.bfloat16, trained, streams=streams)

    def __call__(self, micro_batches: Sequence[MicroBatch], lr: Tensor, *, shards: int) -> None:
        """Take one step on the micro-batches of this rank. shards: how many micro-batches all ranks have together."""
        self.begin()
        for learner in self.learners.values():
            for micro_batch in micro_batches:
                self.learn(learner, micro_batch, share=1 / shards)
            self.exchange(learner)
            self.update(learner, lr)
        self.finish()

    def begin(self) -> None:
        """Set the gradients and the logged values of the previous step to zero, and keep a copy of the buffers."""
        self.buffers.keep()
        for learner in self.learners.values():
            learner.flat.exchanged.zero_()

    def exchange(self, learner: "TrainedNetwork") -> None:
        """Sum the gradients and the logged values of a learner over all ranks, and average the buffers."""
        self.world.sum(learner.flat.exchanged)
        if self.world.size > 1 and len(self.buffers.values):
            self.world.sum(self.buffers.values).div_(self.world.size)

    def update(self, learner: "TrainedNetwork", lr: Tensor) -> None:
        """Update the weights of a learner, or skip the update."""
        norm, accepted = learner.optimiser.update(lr, bad_losses=learner.flat.extra[0])
        learner.norm.copy_(norm)
        learner.accepted.copy_(accepted)

    def finish(self) -> None:
        """Add the logged values of the step to the statistics for the next report.

        A step counts as skipped if one of its updates was. The buffers, such as running means of activations, are then
        set back, because they may contain NaN.
        """
        learners = self.learners.values()
        updated = torch.stack([learner.accepted for learner in learners]).amin() > 0
        self.buffers.restore_unless(updated)
        self.streak.copy_(torch.where(updated, 0.0, self.streak + 1))
        self.tally[0].add_(1)
        self.tally[1].add_(updated)
        self.tally[2].copy_(torch.maximum(self.tally[2], self.streak))
        self.tally[3:].add_(torch.where(updated, torch.cat([learner.logged for learner in learners]), 0.0))

    def learn(self, learner: "TrainedNetwork", micro_batch: MicroBatch, *, share: float) -> None:
        """Compute a learner's gradients and logged values for a micro-batch, and add `share` times them to its sums."""
        levels, generator = micro_batch.levels, micro_batch.generator
        compute = self.task.loss
        if learner is not self.model:
            assert micro_batch.critic_generator is not None
            generator, compute = micro_batch.critic_generator, self.task.critic_loss
        batch = levels.batch()
        if self.flip:
            which = torch.rand(len(batch), generator=generator, device=batch.x.device) < 0.5
            batch = batch.mirrored(which)
        with self.computing():
            found: TaskLoss = compute(batch, generator)
        loss = found.total
        (share * loss).backward()
        if self.fused:
            self.fused.release()
        with torch.no_grad():
            bad_loss = (~torch.isfinite(loss)).to(loss.dtype)
            # A loss that is not finite is counted, so that every rank skips the update, but its values are not logged.
            figures = torch.where(torch.isfinite(loss), torch.cat((loss.view(1), found.figures)), 0.0)
            learner.flat.extra.add_(torch.cat((bad_loss.view(1), share * figures)))

    def reports(self, batch: Batch, generator: torch.Generator) -> dict[ScoredPixels, Bound]:
        """Compute all bounds of a VAE on a batch with the current weights, by the pixels that they score."""
        assert isinstance(self.task, BoundTask)
        with self.computing():
            bounds = self.task.reports(batch, generator)
        if self.fused:
            self.fused.release()
        return bounds

    @contextmanager
    def computing(self) -> Iterator[None]:
        """Context in which the networks use the precision and the kernels of this step."""
        with torch.autocast(self.world.device.type, torch.bfloat16, enabled=self.precision == "bf16"):
            if self.fused is None:
                yield
            else:
                self.low.copy_(self.flat.values)
                with self.fused.attached():
                    yield

    def updates(self) -> float:
        """Return how many updates have been made; with a critic, of the network that has made fewer."""
        return min(float(learner.optimiser.updates.item()) for learner in self.learners.values())

    def report(self, *, start_new: bool = True) -> Progress:
        """Return the counts and means since the last report, and start new ones. This waits for the device."""
        steps, accepted, longest, *sums = self.tally.tolist()
        if start_new:
            self.tally.zero_()
        means = iter([total / accepted if accepted else float("nan") for total in sums])
        found = {
            name: dict(zip(("gradient_norm", "loss", *learner.figures), means, strict=False))
            for name, learner in self.learners.items()
        }
        model = found["model"]
        return Progress(
            steps=int(steps),
            skipped=int(steps - accepted),
            longest_streak=int(longest),
            streak=int(self.streak.item()),
            loss=model.pop("loss"),
            gradient_norm=model.pop("gradient_norm"),
            figures=model,
            critic=found.get("critic", {}),
        )
