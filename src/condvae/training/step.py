"""One training step: micro-batches in, one update of the weights or none, and sums for the log. Nothing here waits for
the device, so that `Capture` can record it whole.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

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
    """What one pass through the network takes."""

    levels: LevelBatch
    generator: torch.Generator
    """Draws flips, observations and latents; on the images' device."""


@dataclass(frozen=True, kw_only=True)
class Progress:
    """What the device has counted since the last report, on the host."""

    steps: int
    skipped: int
    longest_streak: int
    """Of skipped updates in a row, those before this report that run into it included."""
    streak: int
    """Skipped updates in a row at this moment."""
    loss: float
    """Mean over accepted updates, nats per dimension; so are the others. NaN where there was none."""
    log_likelihood_nats: float
    gradient_norm: float
    kl_nats: tuple[float, ...]
    """Per latent group."""


class TrainingStep:
    """Forward, backward, exchange between ranks, clip, skip, update, average, count."""

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
        # Behind the gradients travel: how many losses were not finite, the loss, the log-likelihood, the KLs.
        self.flat = FlatParameters(task.model, extra=3 + self.groups)
        self.optimiser = Optimiser(self.flat, rule)
        # Sums since the last report: steps, accepted, longest streak, norm, loss, log-likelihood, KLs.
        self.tally = torch.zeros(6 + self.groups, device=world.device)
        self.streak = torch.zeros((), device=world.device)
        self.fused = self._fuse(streams) if fused else None

    def _fuse(self, streams: int) -> "Fused":
        from condvae.kernels.fused_vdvae import Fused  # late: it needs Triton

        assert self.precision == "bf16", "kernels compute in half precision"
        self.low = torch.empty_like(self.flat.values, dtype=torch.bfloat16)
        gradients = self.flat.gradients
        trained = {
            p: (self.flat.view(self.low, n), self.flat.view(gradients, n)) for n, p in self.flat.parameters.items()
        }
        return Fused(self.task.model, torch.bfloat16, trained, streams=streams)

    def __call__(self, micro_batches: Sequence[MicroBatch], lr: Tensor, *, shards: int) -> None:
        """Learn from this rank's micro-batches; `shards` of them make the whole batch over all ranks."""
        self.begin()
        for micro_batch in micro_batches:
            self.learn(micro_batch, share=1 / shards)
        self.exchange()
        self.finish(lr)

    def begin(self) -> None:
        """Forget the gradients of the step before."""
        self.flat.exchanged.zero_()

    def exchange(self) -> None:
        """Add up gradients and figures over ranks."""
        self.world.sum(self.flat.exchanged)

    def finish(self, lr: Tensor) -> None:
        """Update the weights, or do not, and count."""
        unsound, means = self.flat.extra[0], self.flat.extra[1:]
        norm, accepted = self.optimiser.update(lr, unsound=unsound)
        self._count(norm, accepted, means)

    def learn(self, micro_batch: MicroBatch, *, share: float) -> None:
        """Add a micro-batch's gradients and figures to what is exchanged."""
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
            unsound = (~torch.isfinite(loss)).to(loss.dtype)
            figures = torch.cat((torch.stack((loss, mean_likelihood)), bound.kl_nats.mean(dim=0)))
            # Figures of a loss that is not finite must not reach the log; that there was one must reach every rank.
            figures = torch.where(torch.isfinite(loss), figures, 0.0)
            self.flat.extra.add_(torch.cat((unsound.view(1), share * figures)))

    def reports(self, batch: Batch, generator: torch.Generator) -> dict[ScoredPixels, Bound]:
        """The task's reports with the weights as they are."""
        with self.computing():
            bounds = self.task.reports(batch, generator)
        if self.fused:
            self.fused.release()
        return bounds

    @contextmanager
    def computing(self) -> Iterator[None]:
        """Inside, the networks compute in the precision and with the kernels of this step."""
        with torch.autocast(self.world.device.type, torch.bfloat16, enabled=self.precision == "bf16"):
            if self.fused is None:
                yield
            else:
                self.low.copy_(self.flat.values)
                with self.fused.attached():
                    yield

    def _count(self, norm: Tensor, accepted: Tensor, means: Tensor) -> None:
        sound = accepted > 0
        self.streak.copy_(torch.where(sound, 0.0, self.streak + 1))
        self.tally[0].add_(1)
        self.tally[1].add_(accepted)
        self.tally[2].copy_(torch.maximum(self.tally[2], self.streak))
        self.tally[3:].add_(torch.where(sound, torch.cat((norm.view(1), means)), 0.0))

    def report(self) -> Progress:
        """What was counted since the last report; waits for the device."""
        steps, accepted, longest, *sums = self.tally.tolist()
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
