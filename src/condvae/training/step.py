"""One training step: compute the gradients of micro-batches, update the weights or skip the update, and sum logged
values.

Nothing in a step waits for the device, so that `condvae.training.capture.Capture` can record it as one CUDA graph.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol, TypeAlias

import torch
from torch import Tensor

from condvae.data import LevelBatch
from condvae.objectives import Bound
from condvae.observe.batch import Batch
from condvae.runtime.ranks import World
from condvae.training.flat_parameters import FlatParameters
from condvae.training.optimiser import Optimiser, Rule
from condvae.training.task import ScoredPixels, TrainingTask

if TYPE_CHECKING:
    from condvae.kernels.fused_vdvae import Fused

TrainingPrecision: TypeAlias = Literal["fp32", "bf16"]


class MicroBatch(NamedTuple):
    """The images that pass through the network together, and the generator for their random numbers."""

    levels: LevelBatch
    generator: torch.Generator
    """Generator for mirroring, observations and latents, on the device of the images."""


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
    """Loss in nats per dimension. This and the following values are means over the updates that were not skipped, or
    NaN if all were skipped."""
    log_likelihood_nats: float
    gradient_norm: float
    kl_nats: tuple[float, ...]
    """KL of each latent group, from coarse to fine."""


class TakeStep(Protocol):
    """Takes one training step when called: a `TrainingStep`, or its CUDA graph (`condvae.training.capture.Capture`)."""

    def __call__(self, micro_batches: Sequence[MicroBatch], lr: Tensor, *, shards: int) -> None:
        """Take one step on this rank's micro-batches; see `TrainingStep.__call__`."""


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
        self.groups = len(task.vae.config.group_stages)
        # Summed over ranks after the gradients: number of losses that are not finite, loss, log-likelihood, KLs.
        self.flat = FlatParameters(task.model, extra=3 + self.groups)
        self.optimiser = Optimiser(self.flat, rule)
        # Since the last report: steps, accepted updates, longest streak, and sums of norm, loss, log-likelihood, KLs.
        self.tally = torch.zeros(6 + self.groups, device=world.device)
        self.streak = torch.zeros((), device=world.device)
        self.fused = self._fuse(streams) if fused else None

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
        for micro_batch in micro_batches:
            self.learn(micro_batch, share=1 / shards)
        self.exchange()
        self.finish(lr)

    def begin(self) -> None:
        """Set the gradients and the logged values of the previous step to zero."""
        self.flat.exchanged.zero_()

    def exchange(self) -> None:
        """Sum the gradients and the logged values over all ranks."""
        self.world.sum(self.flat.exchanged)

    def finish(self, lr: Tensor) -> None:
        """Update the weights, or skip the update, and add the logged values to the statistics for the next report."""
        bad_losses, means = self.flat.extra[0], self.flat.extra[1:]
        norm, accepted = self.optimiser.update(lr, bad_losses=bad_losses)
        self._count(norm, accepted, means)

    def learn(self, micro_batch: MicroBatch, *, share: float) -> None:
        """Compute the gradients and logged values of a micro-batch, and add `share` times them to this step's sums."""
        levels, generator = micro_batch
        batch = levels.batch()
        if self.flip:
            which = torch.rand(len(batch), generator=generator, device=batch.x.device) < 0.5
            batch = batch.mirrored(which)
        with self.computing():
            bound = self.task.bound(batch, generator)
            loss = bound.loss
        (share * loss).backward()
        if self.fused:
            self.fused.release()
        with torch.no_grad():
            log_likelihood = bound.log_likelihood_nats
            mean_likelihood = loss.new_zeros(()) if log_likelihood is None else log_likelihood.mean()
            bad_loss = (~torch.isfinite(loss)).to(loss.dtype)
            figures = torch.cat((torch.stack((loss, mean_likelihood)), bound.kl_nats.mean(dim=0)))
            # A loss that is not finite is counted, so that every rank skips the update, but its values are not logged.
            figures = torch.where(torch.isfinite(loss), figures, 0.0)
            self.flat.extra.add_(torch.cat((bad_loss.view(1), share * figures)))

    def reports(self, batch: Batch, generator: torch.Generator) -> dict[ScoredPixels, Bound]:
        """Compute all bounds of the task on a batch with the current weights, by the pixels that they score."""
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

    def _count(self, norm: Tensor, accepted: Tensor, means: Tensor) -> None:
        updated = accepted > 0
        self.streak.copy_(torch.where(updated, 0.0, self.streak + 1))
        self.tally[0].add_(1)
        self.tally[1].add_(accepted)
        self.tally[2].copy_(torch.maximum(self.tally[2], self.streak))
        self.tally[3:].add_(torch.where(updated, torch.cat((norm.view(1), means)), 0.0))

    def report(self, *, start_new: bool = True) -> Progress:
        """Return the counts and means since the last report, and start new ones. This waits for the device."""
        steps, accepted, longest, *sums = self.tally.tolist()
        if start_new:
            self.tally.zero_()
        norm, loss, log_likelihood, *kl = (total / accepted if accepted else float("nan") for total in sums)
        return Progress(
            steps=int(steps),
            skipped=int(steps - accepted),
            longest_streak=int(longest),
            streak=int(self.streak.item()),
            loss=loss,
            log_likelihood_nats=log_likelihood,
            gradient_norm=norm,
            kl_nats=tuple(kl),
        )
