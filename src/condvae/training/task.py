"""What is trained: the bound on a batch that its training raises."""

from abc import ABC, abstractmethod
from typing import Literal, TypeAlias

import torch
from torch import Tensor, nn

from condvae import objectives
from condvae.conditional import ConditionalVAE
from condvae.objectives import Bound, Target
from condvae.observe import Process
from condvae.observe.batch import Batch
from condvae.runtime.checks import check_choice
from condvae.vdvae import VDVAE

Objective: TypeAlias = Literal["forward", "reverse"]


class TrainingTask(ABC):
    """A model, and the bound that its training raises."""

    model: nn.Module
    vae: VDVAE
    needs_whole_network: bool
    """Whether gradients flow through the artifact too."""

    @abstractmethod
    def bound(self, batch: Batch, generator: torch.Generator, *, complete: bool) -> Bound:
        """The bound for a batch; `complete` includes the parts that no gradient needs, for reports."""

    def prepare(self, step: int) -> None:  # noqa: B027 (most tasks have nothing to prepare)
        """Called before step 0, 1, ..."""


class Pretraining(TrainingTask):
    """The unconditional VAE: eq:eelbo."""

    needs_whole_network = True

    def __init__(self, vae: VDVAE) -> None:
        self.model = self.vae = vae

    def bound(self, batch: Batch, generator: torch.Generator, *, complete: bool) -> Bound:
        return objectives.elbo(self.vae, batch.x, noise=generator, check_values=False)


class ConditionalTraining(TrainingTask):
    """The partial encoder, alone (IPA, IPA-R) or with everything else (from scratch)."""

    def __init__(
        self,
        model: ConditionalVAE,
        process: Process,
        *,
        objective: Objective = "forward",
        target: Target = "unknown",
        anneal: int = 0,
    ) -> None:
        check_choice(objective, "the objective", ("forward", "reverse"))
        self.model, self.vae, self.process = model, model.artifact, process
        self.objective, self.target, self.anneal = objective, target, anneal
        self.likelihood_weight: float | Tensor = 1.0
        self.trains_artifact = model.trains_artifact
        # z comes from c under the reverse objective, so its gradient passes through the frozen decoder.
        self.needs_whole_network = self.trains_artifact or objective == "reverse"

    def prepare(self, step: int) -> None:
        """IPA-R: the likelihood's weight rises to 1 over the first `anneal` steps."""
        if self.anneal:
            # A tensor that is written anew: a captured step reads it at every replay.
            if not isinstance(self.likelihood_weight, Tensor):
                self.likelihood_weight = self.vae.decoder.gain.new_ones(())
            self.likelihood_weight.fill_(min(1.0, (step + 1) / self.anneal))

    def bound(self, batch: Batch, generator: torch.Generator, *, complete: bool) -> Bound:
        model: ConditionalVAE = self.model  # type: ignore[assignment]
        # What is observed does not depend on the precision of the networks.
        with torch.autocast(batch.x.device.type, enabled=False):
            observation = self.process.observe(batch, normalise=self.vae.normalise, generator=generator)
        if self.objective == "reverse":
            return objectives.reverse(
                model, observation, noise=generator, likelihood_weight=self.likelihood_weight, check_values=False
            )
        return objectives.forward(
            model,
            batch.x,
            observation,
            noise=generator,
            target=self.target,
            # With a frozen artifact the likelihood is a constant in psi.
            likelihood=complete or self.trains_artifact,
            check_values=False,
        )
