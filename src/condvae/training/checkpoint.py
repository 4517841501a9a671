"""Checkpoints of a run: everything that the next step depends on, in files that are whole or not there.

Generators need no place in them: every random number is a function of the seed and the step (`seeds.py`), and so is the
order of the data.
"""

import dataclasses
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from condvae.runtime.checks import first_few, strict
from condvae.training.step import TrainingStep
from condvae.weights import sealed_file

_NAME = re.compile(r"step-(\d{9})\.safetensors")


@dataclass(frozen=True, kw_only=True)
class Position:
    """Where a run stands."""

    step: int = 0
    """Steps done."""
    rollbacks: int = 0
    lr_scale: float = 1.0
    """Halved by every roll-back."""
    elapsed: float = 0.0
    """Seconds."""
    best_loss: float | None = None
    """On the validation images, nats per dimension."""
    best_step: int | None = None
    updates_at_rollback: float | None = None
    """Updates that had been made where the last roll-back went to."""
    closing: float = 0.0
    """Seconds that the end will take: its evaluations, its sheet, its files."""


def pack(step: TrainingStep) -> dict[str, Tensor]:
    """All tensors of the training state, by name."""
    tensors = {"updates": step.optimiser.updates, "tally": step.tally, "streak": step.streak}
    packed = {name: tensor.detach().to("cpu", copy=True) for name, tensor in tensors.items()}
    for vector, values in step.optimiser.vectors().items():
        packed |= {f"{vector}/{name}": part for name, part in step.flat.by_name(values).items()}
    return packed


def unpack(step: TrainingStep, tensors: dict[str, Tensor], origin: Path) -> None:
    """Put a packed state back; every name and shape must fit."""
    wanted = {name: tuple(tensor.shape) for name, tensor in pack(step).items()}
    found = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
    if wanted != found:
        odd = sorted(name for name in wanted.keys() | found.keys() if wanted.get(name) != found.get(name))
        raise ValueError(f"{origin} belongs to another model: {first_few(odd)} do not fit this one")
    step.optimiser.updates.copy_(tensors["updates"])
    step.tally.copy_(tensors["tally"])
    step.streak.copy_(tensors["streak"])
    for vector, values in step.optimiser.vectors().items():
        prefix = f"{vector}/"
        step.flat.fill(values, {n.removeprefix(prefix): t for n, t in tensors.items() if n.startswith(prefix)})


class Checkpoints:
    """The checkpoints of one run folder: the last few, and the best."""

    def __init__(self, folder: Path, *, keep: int = 3, options: Mapping[str, Any] | None = None) -> None:
        self.folder, self.keep, self.options = folder, keep, dict(options or {})

    def steps(self) -> list[int]:
        """Of the checkpoints there are, oldest first."""
        if not self.folder.is_dir():
            return []
        return sorted(int(match[1]) for path in self.folder.iterdir() if (match := _NAME.fullmatch(path.name)))

    def path(self, step: int) -> Path:
        return self.folder / f"step-{step:09}.safetensors"

    def save(self, position: Position, tensors: dict[str, Tensor]) -> None:
        """Write one, then remove those that are no longer kept. An OSError leaves the older ones as they are."""
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
        """The newest checkpoint (of steps before `before`) that can be read; damaged ones are named and passed over."""
        for step in reversed([step for step in self.steps() if step < before]):
            try:
                return self.read(self.path(step))
            except ValueError as error:
                # Out of the way: it must not pass for the newest again, nor take the place of one that is kept.
                self.path(step).replace(self.path(step).with_suffix(".damaged"))
                warn(f"{error}; going back to the checkpoint before it")
        return None

    @staticmethod
    def read(path: Path) -> tuple[Position, dict[str, Tensor]]:
        description, tensors = sealed_file.read(path, kind=sealed_file.CHECKPOINT)
        try:
            return strict(Position, description["position"], where="checkpoint"), tensors
        except (KeyError, TypeError) as error:
            raise ValueError(f"{path} is no checkpoint that this version of condvae knows") from error
