"""Run a training in which something fails: python sabotage.py WHAT STEP RANK condvae-arguments...

WHAT is one of these. nan: the images of that rank are NaN at that step. die: that rank kills itself at that step, once.
disk: from that step on, no file can grow beyond a few bytes, as on a full disk. broken: from that step on, all losses
are NaN.
"""

import os
import resource
import signal
import sys

import torch

from condvae import cli
from condvae.observe.batch import Batch
from condvae.training.baseline_task import BaselineTraining
from condvae.training.task import BoundTask, ConditionalTraining, TaskLoss, TrainingTask


def main() -> None:
    what, step, rank, *arguments = sys.argv[1:]
    # ConditionalTraining has a `prepare` of its own, and the same `loss` as BoundTask.
    for task in (BoundTask, ConditionalTraining, BaselineTraining):
        sabotage(task, what, int(step), int(rank))
    cli.main(arguments)


def sabotage(task: type[TrainingTask], what: str, at: int, rank: int) -> None:
    prepare, loss = task.prepare, task.loss
    state = {"step": -1}

    def prepared(self: TrainingTask, step: int) -> None:
        state["step"] = step
        mine = int(os.environ.get("RANK", "0")) == rank
        if step == at and mine and what == "disk":
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (64, 64))
        if step == at and mine and what == "die" and os.environ.get("TORCHELASTIC_RESTART_COUNT") == "0":
            os.kill(os.getpid(), signal.SIGKILL)
        prepare(self, step)

    def lossy(self: TrainingTask, batch: Batch, generator: torch.Generator) -> TaskLoss:
        here = what == "nan" and state["step"] == at and int(os.environ.get("RANK", "0")) == rank
        from_here = what == "broken" and state["step"] >= at
        if (here or from_here) and torch.is_grad_enabled():  # evaluations are not affected
            batch = Batch(x=torch.full_like(batch.x, torch.nan))
        return loss(self, batch, generator)

    task.prepare, task.loss = prepared, lossy  # type: ignore[method-assign]


if __name__ == "__main__":
    main()
