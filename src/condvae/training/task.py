"""Training tasks. A task is a model together with the bound that its training maximises."""

from abc import ABC, abstractmethod
from dataclasses import replace
from typing import Any, Literal, TypeAlias

import torch
from torch import Tensor, nn

from condvae import objectives
from condvae.conditional import ConditionalVAE
from condvae.objectives import Bound, Target
from condvae.observe import Observation, PictureProcess, Process
from condvae.observe.batch import Batch
from condvae.runtime.checks import check_choice
from condvae.vdvae import VDVAE

Objective: TypeAlias = Literal["forward", "reverse"]
ScoredPixels: TypeAlias = Literal["known", "hidden", "whole"]
"""Which pixels a bound is about: the known pixels, log p(y); the hidden pixels given y; or the whole image."""


class TrainingTask(ABC):
    """A model together with the bound that its training maximises."""

    model: nn.Module
    vae: VDVAE
    needs_whole_network: bool
    """Whether gradients flow through the whole VAE, not only through the partial encoder."""
    scores: ScoredPixels
    """The pixels whose log-probability is bounded by the training objective."""

    @abstractmethod
    def bound(self, batch: Batch, generator: torch.Generator) -> Bound:
        """Return the bound that training maximises for a batch. Terms that have no gradient may be left out."""

    @abstractmethod
    def reports(self, batch: Batch, generator: torch.Generator) -> dict[ScoredPixels, Bound]:
        """Return all bounds to report on a batch, by the pixels that they score, from one pass.

        They include the bound that training maximises, here with all its terms, and bounds for comparing runs.
        """

    def prepare(self, step: int) -> None:  # noqa: B027 (most tasks need no preparation)
        """Prepare for a step, counted from 0. This is called before each step."""


class Pretraining(TrainingTask):
    """Train an unconditional VAE by maximising its ELBO, the paper's equation eq:eelbo."""

    needs_whole_network = True
    scores: ScoredPixels = "whole"

    def __init__(self, vae: VDVAE) -> None:
        self.model = self.vae = vae

    def bound(self, batch: Batch, generator: torch.Generator) -> Bound:
        return objectives.elbo(self.vae, batch.x, noise=generator, check_values=False)

    def reports(self, batch: Batch, generator: torch.Generator) -> dict[ScoredPixels, Bound]:
        return {"whole": self.bound(batch, generator)}


class ConditionalTraining(TrainingTask):
    """Train a partial encoder for a frozen artifact (IPA, IPA-R), or a whole conditional VAE from scratch."""

    model: ConditionalVAE

    def __init__(
        self,
        model: ConditionalVAE,
        process: Process,
        *,
        objective: Objective = "forward",
        target: Target = "hidden",
        anneal: int = 0,
    ) -> None:
        check_choice(objective, "the objective", ("forward", "reverse"))
        self.model, self.vae, self.process = model, model.artifact, process
        self.objective, self.target, self.anneal = objective, target, anneal
        self.scores = "known" if objective == "reverse" else "whole" if target == "whole" else "hidden"
        self.likelihood_weight: float | Tensor = 1.0
        self.trains_artifact = model.trains_artifact
        self.pictures_given = False
        """Whether the paired images of a batch are the process's pictures of its images, made before training."""
        # Under the reverse objective z is drawn from c, so gradients pass through the frozen decoder.
        self.needs_whole_network = self.trains_artifact or objective == "reverse"

    def prepare(self, step: int) -> None:
        """For IPA-R, set the weight of the likelihood, which rises to 1 over the first `anneal` steps."""
        if self.anneal:
            # The weight is a tensor that is overwritten, because a captured step reads it at every replay.
            if not isinstance(self.likelihood_weight, Tensor):
                self.likelihood_weight = self.vae.decoder.gain.new_ones(())
            self.likelihood_weight.fill_(min(1.0, (step + 1) / self.anneal))

    def bound(self, batch: Batch, generator: torch.Generator) -> Bound:
        observation = self._observe(batch, generator)
        if self.objective == "reverse":
            return self._reverse(observation, generator)
        # With a frozen artifact the likelihood does not depend on the partial encoder.
        return self._forward(batch, observation, generator, target=self.target, likelihood=self.trains_artifact)

    def reports(self, batch: Batch, generator: torch.Generator) -> dict[ScoredPixels, Bound]:
        observation = self._observe(batch, generator)
        if self.objective == "reverse":
            return {"known": self._reverse(observation, generator)}
        score = objectives.for_both_targets(observation, self.vae.pixel_log_prob)
        both = self._forward(batch, observation, generator, target="whole", pixel_score=score)
        assert both.log_likelihood_nats is not None
        hidden, whole = both.log_likelihood_nats
        dims = objectives.hidden_dims(self.vae, observation)
        return {
            "hidden": replace(both, log_likelihood_nats=hidden, scored_dims=dims),
            "whole": replace(both, log_likelihood_nats=whole),
        }

    def _observe(self, batch: Batch, generator: torch.Generator) -> Observation:
        # Observations must not depend on the precision of the networks.
        with torch.autocast(batch.x.device.type, enabled=False):
            if self.pictures_given:
                assert isinstance(self.process, PictureProcess) and batch.paired is not None
                return self.process.show(batch.paired, normalise=self.vae.normalise, generator=generator)
            return self.process.observe(batch, normalise=self.vae.normalise, generator=generator)

    def _reverse(self, observation: Observation, generator: torch.Generator) -> Bound:
        return objectives.reverse(
            self.model, observation, noise=generator, likelihood_weight=self.likelihood_weight, check_values=False
        )

    def _forward(self, batch: Batch, observation: Observation, generator: torch.Generator, **options: Any) -> Bound:
        return objectives.forward(self.model, batch.x, observation, noise=generator, check_values=False, **options)
