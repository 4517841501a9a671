"""The training task of a learned baseline, and its evaluation on held-out images."""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from condvae.completers.learned_completer import CompleterLoss, LearnedCompleter
from condvae.data import ImageSet
from condvae.observe import KnownPixels
from condvae.observe.batch import Batch
from condvae.runtime.pixels import to_levels
from condvae.runtime.progress import track
from condvae.runtime.seeds import Seeds
from condvae.training.task import TaskLoss, TrainingTask

if TYPE_CHECKING:
    from condvae.training.step import Progress, TrainingStep

_CHUNK = 250
"""Number of images whose holes are drawn and completed together in an evaluation. It is fixed: each chunk has its own
seed, so another size would change results."""


@dataclass(frozen=True, kw_only=True)
class HeldOutError:
    """The error of completions of held-out images, one completion each."""

    images: int
    loss: float
    """Mean absolute error of hidden pixels, in grey levels; each image counts the same."""
    standard_error: float

    @property
    def short(self) -> str:
        return f"error {self.loss:.2f}"

    @property
    def text(self) -> str:
        return f"mean absolute error of hidden pixels {self.loss:.2f} +- {self.standard_error:.2f} grey levels"

    def numbers(self, raw: "HeldOutError | None" = None) -> dict[str, Any]:
        return {
            "images": self.images,
            "hidden_error": self.loss,
            "standard_error": self.standard_error,
            "raw_hidden_error": None if raw is None else raw.loss,
        }

    def record(self) -> dict[str, Any]:
        return {"hidden_error": round(self.loss, 4), "evaluated_on": self.images}


@dataclass(frozen=True, kw_only=True)
class HeldOutLoss:
    """The training loss on held-out images, for stages of a training in which completions mean nothing."""

    images: int
    loss: float
    standard_error: float
    """The standard error over chunks of images; 0 if there is only one."""

    @property
    def short(self) -> str:
        return f"loss {self.loss:.4f}"

    @property
    def text(self) -> str:
        return f"loss {self.loss:.4f} +- {self.standard_error:.4f}"

    def numbers(self, raw: "HeldOutLoss | None" = None) -> dict[str, Any]:
        return {
            "images": self.images,
            "held_out_loss": self.loss,
            "standard_error": self.standard_error,
            "raw_held_out_loss": None if raw is None else raw.loss,
        }

    def record(self) -> dict[str, Any]:
        return {"held_out_loss": round(self.loss, 6), "evaluated_on": self.images}


class BaselineTraining(TrainingTask):
    """Train a learned baseline to complete images with holes."""

    model: LearnedCompleter

    def __init__(self, losses: CompleterLoss, process: KnownPixels) -> None:
        self.losses, self.process = losses.train(), process
        self.model, self.critic = losses.completer, losses.critic
        self.figures, self.critic_figures = losses.figures, losses.critic_figures

    @property
    def image_size(self) -> int:
        return self.model.image_size

    def move_to(self, device: torch.device) -> None:
        super().move_to(device)
        self.losses.to(device)  # what is left: networks of the loss that are not trained

    def loss(self, batch: Batch, generator: torch.Generator) -> TaskLoss:
        return self._loss(batch, generator, self.figures, critic=False)

    def critic_loss(self, batch: Batch, generator: torch.Generator) -> TaskLoss:
        return self._loss(batch, generator, self.critic_figures, critic=True)

    def _loss(self, batch: Batch, generator: torch.Generator, names: tuple[str, ...], *, critic: bool) -> TaskLoss:
        found = self.losses.of_batch(batch.x, self._known(batch, generator), generator, critic=critic)
        return TaskLoss(found.total, torch.stack([found.parts[name].float() for name in names]))

    def _known(self, batch: Batch, generator: torch.Generator) -> Tensor:
        with torch.autocast(batch.x.device.type, enabled=False):
            return self.process.draw(len(batch), self.image_size, generator)

    @torch.no_grad()
    def evaluate(self, step: "TrainingStep", images: ImageSet, *, seed: int) -> HeldOutError | HeldOutLoss:
        if not len(images):
            raise ValueError("there are no images to evaluate on")
        seeds, world = Seeds(seed, "evaluation"), step.world
        completes = self.losses.completes
        sums = torch.zeros(3, dtype=torch.float64, device=world.device)  # of 1, value, squared value
        chunks = np.split(np.arange(len(images)), range(_CHUNK, len(images), _CHUNK))
        with track("evaluating", total=len(images)) as job:
            for number in range(world.rank, len(chunks), world.size):
                batch = images.take(chunks[number]).to(world.device).batch()
                generator = seeds.generator(number, world.device)
                known = self._known(batch, generator)
                if completes:
                    each = self._errors_of(batch, known, seed, chunks[number].tolist())
                else:
                    each = self._loss_of(step, batch, known, generator)
                sums += torch.stack((torch.ones_like(each), each, each.square())).sum(dim=1)
                job.update(len(batch) * world.size)  # the other ranks compute as many at the same time
        n, total, squares = world.sum(sums).tolist()
        variance = max(squares / n - (total / n) ** 2, 0.0)
        if completes:
            return HeldOutError(images=int(n), loss=total / n, standard_error=math.sqrt(variance / n))
        # All images of a chunk have the same value, so the number of independent values is that of chunks.
        spread = math.sqrt(variance / max(1, len(chunks) - 1))
        return HeldOutLoss(images=int(n), loss=total / n, standard_error=spread)

    def _errors_of(self, batch: Batch, known: Tensor, seed: int, places: list[int]) -> Tensor:
        """Return the mean absolute error of the hidden pixels of each image, with one completion, float64 [B]."""
        made = self.model.complete(self.model.observe(batch.x, known), 1, seed, places=places)[:, 0]
        errors = made.double() - to_levels(batch.x.double())
        hidden = (~known).expand_as(errors).flatten(1)
        return (errors.abs().flatten(1) * hidden).sum(dim=1) / hidden.sum(dim=1).clamp_min(1)

    def _loss_of(self, step: "TrainingStep", batch: Batch, known: Tensor, generator: torch.Generator) -> Tensor:
        """Return the loss of a batch, in evaluation mode, once for each image, float64 [B]."""
        self.losses.eval()
        try:
            with step.computing():
                total = self.losses.of_batch(batch.x, known, generator).total
        finally:
            self.losses.train()
        return total.double().expand(len(batch))

    def log_values(self, progress: "Progress") -> dict[str, Any]:
        return {**progress.figures, **({"critic": progress.critic} if progress.critic else {})}

    def note(self, progress: "Progress") -> list[str]:
        critic = [f"critic {progress.critic['loss']:.3f}"] if progress.critic else []
        return [f"loss {progress.loss:.4f}", *critic]
