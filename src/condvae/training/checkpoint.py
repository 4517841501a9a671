"""Checkpoints of a run, with everything that the next step depends on. A file is written completely or not at all.

A checkpoint stores no generator state, because every random number and the order of the data are functions of the seed
and the step (`runtime/seeds.py`).
"""

import dataclasses
import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from condvae.runtime.checks import check_whole, first_few, strict
from condvae.runtime.messages import reason_of, shown
from condvae.training.step import TrainedNetwork, TrainingStep
from condvae.weights import sealed_file

_NAME = re.compile(r"step-(\d{9})\.safetensors")


@dataclass(frozen=True, kw_only=True)
class Position:
    """The progress of a run, without the tensors of its training state."""

    step: int = 0
    """Number of completed steps, including steps whose update was skipped."""
    rollbacks: int = 0
    lr_scale: float = 1.0
    """Factor on the learning rate. It starts at 1, and every roll-back halves it."""
    elapsed: float = 0.0
    """Training time so far, in seconds."""
    best_loss: float | None = None
    """Lowest loss on the held-out images so far, in nats per dimension."""
    best_step: int | None = None
    updates_at_rollback: float | None = None
    """Number of updates made up to the checkpoint to which the last roll-back returned."""
    closing: float = 0.0
    """Estimate of how long the end of the run will take, with its evaluations, contact sheet and files, in seconds."""

    def __post_init__(self) -> None:
        for name in ("step", "rollbacks"):
            check_whole(getattr(self, name), name)
        for name in ("lr_scale", "elapsed", "closing", "best_loss", "best_step", "updates_at_rollback"):
            value = getattr(self, name)
            optional = value is None and name in ("best_loss", "best_step", "updates_at_rollback")
            if not optional and (isinstance(value, bool) or not isinstance(value, int | float)):
                raise ValueError(f"{name} is {shown(value)}, expected a number")


def pack(step: TrainingStep) -> dict[str, Tensor]:
    """Return CPU copies of all tensors of the training state, by name, for a checkpoint."""
    tensors = {"tally": step.tally, "streak": step.streak}
    tensors |= {f"{prefix}updates": learner.optimiser.updates for prefix, learner in _prefixes(step)}
    packed = {name: tensor.detach().to("cpu", copy=True) for name, tensor in tensors.items()}
    for prefix, learner in _prefixes(step):
        for vector, values in learner.optimiser.vectors().items():
            packed |= {f"{prefix}{vector}/{name}": part for name, part in learner.flat.by_name(values).items()}
    return packed | {f"buffers/{name}": part for name, part in step.buffers.by_name().items()}


def unpack(step: TrainingStep, tensors: dict[str, Tensor], origin: Path) -> None:
    """Copy the tensors of a checkpoint into the training state. Raise ValueError if a name or shape differs."""
    wanted = {name: tuple(tensor.shape) for name, tensor in pack(step).items()}
    found = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
    if wanted != found:
        odd = sorted(name for name in wanted.keys() | found.keys() if wanted.get(name) != found.get(name))
        raise ValueError(
            f"{origin} is a checkpoint of another model, with other names or shapes of tensors: {first_few(odd)}"
        )
    step.tally.copy_(tensors["tally"])
    step.streak.copy_(tensors["streak"])
    for prefix, learner in _prefixes(step):
        learner.optimiser.updates.copy_(tensors[f"{prefix}updates"])
        for vector, values in learner.optimiser.vectors().items():
            learner.flat.fill(values, _below(f"{prefix}{vector}/", tensors))
    step.buffers.fill(_below("buffers/", tensors))


def _prefixes(step: TrainingStep) -> Iterator[tuple[str, TrainedNetwork]]:
    """Yield the learners of a step with the prefixes of their names in a checkpoint; the model has none."""
    for name, learner in step.learners.items():
        yield ("" if learner is step.model else f"{name}/"), learner


def _below(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): part for name, part in tensors.items() if name.startswith(prefix)}


class Checkpoints:
    """The checkpoints in one run folder: the `keep` newest ones and the best one."""

    def __init__(self, folder: Path, *, keep: int = 3, options: Mapping[str, Any] | None = None) -> None:
        self.folder, self.keep, self.options = folder, keep, dict(options or {})

    def steps(self) -> list[int]:
        """Return the step numbers of the existing checkpoints, in ascending order."""
        if not self.folder.is_dir():
            return []
        return sorted(int(match[1]) for path in self.folder.iterdir() if (match := _NAME.fullmatch(path.name)))

    def path(self, step: int) -> Path:
        return self.folder / f"step-{step:09}.safetensors"

    def save(self, position: Position, tensors: dict[str, Tensor]) -> None:
        """Write a checkpoint, then delete all except the `keep` newest and the best. If writing fails, delete none."""
        description = {"options": self.options, "position": dataclasses.asdict(position)}
        sealed_file.write(
            self.path(position.step), kind=sealed_file.CHECKPOINT, description=description, tensors=tensors
        )
        kept = {*self.steps()[-self.keep :], position.best_step, position.step}
        for step in self.steps():
            if step not in kept:
                self.path(step).unlink(missing_ok=True)

    def discard_after(self, step: int) -> None:
        for later in self.steps():
            if later > step:
                self.path(later).unlink(missing_ok=True)

    def latest(
        self, warn: Callable[[str], None], *, before: float = math.inf
    ) -> tuple[Position, dict[str, Tensor]] | None:
        """Return the newest readable checkpoint before step `before`, or None. Rename damaged ones with a warning."""
        for step in reversed([step for step in self.steps() if step < before]):
            try:
                return self.read(self.path(step))
            except ValueError as error:
                # Renamed, so that it neither counts as the newest checkpoint nor as one of the `keep` newest ones.
                self.path(step).replace(self.path(step).with_suffix(".damaged"))
                warn(f"{error}; trying the previous checkpoint")
        return None

    @staticmethod
    def read(path: Path) -> tuple[Position, dict[str, Tensor]]:
        description, tensors = sealed_file.read(path, kind=sealed_file.CHECKPOINT)
        try:
            return strict(Position, description["position"], where="checkpoint"), tensors
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(
                f"{path} is not a checkpoint that this version of condvae can read ({reason_of(error)})"
            ) from error
