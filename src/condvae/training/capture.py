"""A training step as CUDA graphs: recorded once, then started by one call instead of thousands."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from condvae import kernels
from condvae.data import LevelBatch
from condvae.kernels.cuda_graphs import reason, record, run_on
from condvae.training.step import MicroBatch, TrainingPrecision, TrainingStep


def why_not_fused(device: torch.device, precision: TrainingPrecision) -> str | None:
    """What keeps a step from computing with fused kernels; None: nothing."""
    if device.type != "cuda":
        return f"they need a GPU, this is a {device.type}"
    if precision != "bf16":
        return f"they compute in bf16, not in {precision}"
    if not kernels.installed():
        return "they need Triton, which is not installed"
    return None if kernels.available(device) else "they need a GPU like A100 or newer, with 160 KiB of shared memory"


class Capture:
    """Calls a `TrainingStep`: the first time as it is, then recorded and replayed, to the same effect.

    One process that takes its batch at one go has the whole step in one graph. Otherwise a graph adds a micro-batch's
    gradients and another makes the update; the exchange between ranks lies between them. Where recording fails, steps
    go on as they are, and `say` is told once.
    """

    def __init__(self, step: TrainingStep, say: Callable[[str], None]) -> None:
        self.step, self.say = step, say
        self.device = step.world.device
        self.possible = self.device.type == "cuda"
        self.stream = torch.cuda.Stream(self.device) if self.possible else None
        self.warm = self._told = False
        self.recorded: _Recorded | None = None
        if not self.possible:
            say(f"steps run operation by operation: CUDA graphs need a GPU, this is a {self.device.type}")

    def __call__(self, micro_batches: Sequence[MicroBatch], lr: Tensor, *, shards: int) -> None:
        """What `TrainingStep` does."""
        if not self.possible:
            self.step(micro_batches, lr, shards=shards)
        elif not self.warm:
            assert self.stream is not None
            run_on(self.stream, lambda: self.step(micro_batches, lr, shards=shards))
            self.warm = True
        else:
            if self.recorded is None:
                self._record(micro_batches, shards)
            if self.recorded is None:
                self.step(micro_batches, lr, shards=shards)
            elif not self.recorded.fits(micro_batches, shards):
                if not self._told:
                    self.say("a batch of another shape than the recorded one is taken operation by operation")
                    self._told = True
                self.step(micro_batches, lr, shards=shards)
            else:
                self.recorded.replay(self.step, micro_batches, lr)

    def _record(self, micro_batches: Sequence[MicroBatch], shards: int) -> None:
        assert self.stream is not None
        try:
            self.recorded = _Recorded(self.step, self.stream, micro_batches, shards)
        except RuntimeError as error:
            self.possible = False
            self.say(
                f"steps run operation by operation, since they cannot be captured as a CUDA graph: {reason(error)}"
            )


class _Recorded:
    """Graphs, and the places that they read from."""

    def __init__(
        self, step: TrainingStep, stream: torch.cuda.Stream, micro_batches: Sequence[MicroBatch], shards: int
    ) -> None:
        device = step.world.device
        self.shards = shards
        images, *others = micro_batches[0].levels
        self.levels = LevelBatch(images.clone(), *(None if part is None else part.clone() for part in others))
        self.generator = torch.Generator(device)
        self.lr = torch.zeros((), device=device)
        self.whole = step.world.size == 1 and len(micro_batches) == 1
        mine = MicroBatch(self.levels, self.generator)

        def whole() -> None:
            step([mine], self.lr, shards=shards)

        def learn() -> None:
            step.learn(mine, share=1 / shards)

        def finish() -> None:
            step.finish(self.lr)

        self.graphs = record((whole,) if self.whole else (learn, finish), stream, self.generator)

    def fits(self, micro_batches: Sequence[MicroBatch], shards: int) -> bool:
        """Whether graphs recorded for other batches can take these."""
        alike = all(_form(micro_batch.levels) == _form(self.levels) for micro_batch in micro_batches)
        return alike and shards == self.shards and (not self.whole or len(micro_batches) == 1)

    def replay(self, step: TrainingStep, micro_batches: Sequence[MicroBatch], lr: Tensor) -> None:
        """One step."""
        self.lr.copy_(lr)
        if not self.whole:
            step.begin()
        for levels, generator in micro_batches:
            for place, part in zip(self.levels, levels, strict=True):
                if place is not None and part is not None:
                    place.copy_(part)
            # Seeded where this micro-batch's generator stands: a fresh seed, nothing drawn yet.
            self.generator.manual_seed(generator.initial_seed())
            self.graphs[0].replay()
        if not self.whole:
            step.exchange()
            self.graphs[1].replay()


def _form(levels: LevelBatch) -> list[object]:
    return [None if part is None else (part.shape, part.dtype) for part in levels]
