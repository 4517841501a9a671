"""Record a training step as CUDA graphs, so that replaying them replaces thousands of single kernel launches."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from condvae import kernels
from condvae.data import LevelBatch
from condvae.kernels.cuda_graphs import reason, record, run_on
from condvae.training.step import MicroBatch, TrainedNetwork, TrainingPrecision, TrainingStep


def why_not_fused(device: torch.device, precision: TrainingPrecision) -> str | None:
    """Return why a training step cannot use fused kernels, or None if it can."""
    if device.type != "cuda":
        return f"they need a CUDA GPU, but the device is {device.type}"
    if precision != "bf16":
        return f"they compute in bf16, but the precision is {precision}"
    if not kernels.installed():
        return "they need Triton, which is not installed"
    return None if kernels.available(device) else "they need an A100 or newer GPU, with 160 KiB of shared memory"


class Capture:
    """Run a `TrainingStep` as recorded CUDA graphs, with the same results as without them.

    The first call runs the step directly, the second records it, and from then on the recording is replayed. With one
    process, one micro-batch and no critic, one graph contains the whole step. Otherwise one graph adds the gradients of
    a micro-batch to the sum, another one makes the update, and between the two, the gradients are summed over ranks. A
    critic has two such graphs of its own. If recording fails, all steps run directly, and `say` receives one message
    with the reason.
    """

    def __init__(self, step: TrainingStep, say: Callable[[str], None]) -> None:
        self.step, self.say = step, say
        self.device = step.world.device
        self.possible = self.device.type == "cuda"
        self.stream = torch.cuda.Stream(self.device) if self.possible else None
        self.warm = self._shape_reported = False
        self.recorded: _Recorded | None = None
        if not self.possible:
            say(f"training steps run without CUDA graphs, which need a CUDA GPU: the device is {self.device.type}")

    def __call__(self, micro_batches: Sequence[MicroBatch], lr: Tensor, *, shards: int) -> None:
        """Take one training step. The arguments are those of `TrainingStep.__call__`."""
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
                if not self._shape_reported:
                    self.say("a batch has another shape than the recorded one: such batches run without CUDA graphs")
                    self._shape_reported = True
                self.step(micro_batches, lr, shards=shards)
            else:
                self.recorded.replay(self.step, micro_batches, lr)

    def _record(self, micro_batches: Sequence[MicroBatch], shards: int) -> None:
        assert self.stream is not None
        try:
            self.recorded = _Recorded(self.step, self.stream, micro_batches, shards)
        except RuntimeError as error:
            self.possible = False
            self.say(f"training steps run without CUDA graphs, because the step could not be recorded: {reason(error)}")


class _Recorded:
    """The recorded graphs and the tensors that they read their inputs from."""

    def __init__(
        self, step: TrainingStep, stream: torch.cuda.Stream, micro_batches: Sequence[MicroBatch], shards: int
    ) -> None:
        device = step.world.device
        self.shards = shards
        images, *others = micro_batches[0].levels
        self.levels = LevelBatch(images.clone(), *(None if part is None else part.clone() for part in others))
        self.generator = torch.Generator(device)
        self.lr = torch.zeros((), device=device)
        self.whole = step.world.size == 1 and len(micro_batches) == 1 and step.critic is None
        mine = MicroBatch(self.levels, self.generator, self.generator)

        def whole() -> None:
            step([mine], self.lr, shards=shards)

        def parts(learner: TrainedNetwork) -> tuple[Callable[[], None], Callable[[], None]]:
            def learn() -> None:
                step.learn(learner, mine, share=1 / shards)

            def update() -> None:
                step.update(learner, self.lr)
                if learner is step.model:
                    step.finish()

            return learn, update

        works = [work for learner in step.learners.values() for work in parts(learner)]
        self.graphs = record((whole,) if self.whole else tuple(works), stream, self.generator)

    def fits(self, micro_batches: Sequence[MicroBatch], shards: int) -> bool:
        """Return whether the micro-batches have the shapes, types and number that the graphs were recorded for."""
        alike = all(_shapes_and_types(batch.levels) == _shapes_and_types(self.levels) for batch in micro_batches)
        return alike and shards == self.shards and (not self.whole or len(micro_batches) == 1)

    def replay(self, step: TrainingStep, micro_batches: Sequence[MicroBatch], lr: Tensor) -> None:
        """Replay the graphs for one training step on new micro-batches."""
        self.lr.copy_(lr)
        if self.whole:
            self._replay(self.graphs[0], micro_batches[0], micro_batches[0].generator)
            return
        step.begin()
        for learner, learn, update in zip(step.learners.values(), self.graphs[::2], self.graphs[1::2], strict=True):
            for micro_batch in micro_batches:
                generator = micro_batch.generator if learner is step.model else micro_batch.critic_generator
                assert generator is not None
                self._replay(learn, micro_batch, generator)
            step.exchange(learner)
            update.replay()

    def _replay(self, graph: torch.cuda.CUDAGraph, micro_batch: MicroBatch, generator: torch.Generator) -> None:
        """Replay a graph on the images of a micro-batch, with the random numbers of a generator."""
        for place, part in zip(self.levels, micro_batch.levels, strict=True):
            if place is not None and part is not None:
                place.copy_(part)
        # The micro-batch's own generator has drawn nothing yet, so its initial seed is its whole state.
        self.generator.manual_seed(generator.initial_seed())
        graph.replay()


def _shapes_and_types(levels: LevelBatch) -> list[object]:
    return [None if part is None else (part.shape, part.dtype) for part in levels]
