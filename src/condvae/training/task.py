"""Training tasks. A task is a model together with the loss that its training minimises."""

import math
from abc import ABC, abstractmethod
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, TypeAlias

import torch
from torch import Tensor, nn

from condvae import objectives
from condvae.conditional import ConditionalVAE
from condvae.data import ImageSet
from condvae.objectives import Bound, Target
from condvae.observe import Observation, PictureProcess, Process
from condvae.observe.batch import Batch
from condvae.runtime.checks import check_choice
from condvae.training.held_out_bound import ScoredPixels, by_resolution, evaluate_held_out
from condvae.vdvae import VDVAE

if TYPE_CHECKING:
    from condvae.training.step import Progress, TrainingStep

Objective: TypeAlias = Literal["forward", "reverse"]


class TaskLoss(NamedTuple):
    """The loss of a batch, and figures for the log."""

    total: Tensor
    """The loss that is minimised, a scalar."""
    figures: Tensor
    """[F]: means over the batch, without gradients, in the order of the task's list of figures."""


class HeldOutResult(Protocol):
    """The result of an evaluation on held-out images."""

    @property
    def images(self) -> int: ...

    @property
    def loss(self) -> float:
        """The loss by which the best weights are chosen."""

    @property
    def standard_error(self) -> float:
        """Standard error of the loss over images."""

    @property
    def short(self) -> str:
        """The loss in words, such as "2.9 bits/dim"."""

    @property
    def text(self) -> str:
        """The result in words, for the console."""

    def numbers(self, raw: Any = None) -> dict[str, Any]:
        """Return all numbers for the log. raw: the result of the last weights, for comparison with averaged ones."""

    def record(self) -> dict[str, Any]:
        """Return the numbers that are stored in the model file."""


class TrainingTask(ABC):
    """A model together with the loss that its training minimises.

    A task may have a critic, such as the discriminator of a GAN. Each step then updates the critic first, with a loss
    of its own, and the model afterwards.
    """

    model: nn.Module
    critic: nn.Module | None = None
    figures: tuple[str, ...]
    """The names of the figures of `loss`."""
    critic_figures: tuple[str, ...] = ()

    @property
    @abstractmethod
    def image_size(self) -> int:
        """The side of the images that the model takes, in pixels."""

    @abstractmethod
    def loss(self, batch: Batch, generator: torch.Generator) -> TaskLoss:
        """Return the loss that training minimises for a batch. Terms that have no gradient may be left out."""

    def critic_loss(self, batch: Batch, generator: torch.Generator) -> TaskLoss:
        """Return the loss of the critic."""
        raise NotImplementedError

    @abstractmethod
    def evaluate(self, step: "TrainingStep", images: ImageSet, *, seed: int) -> HeldOutResult:
        """Evaluate the current weights on held-out images; the result depends on the images and the seed alone."""

    @abstractmethod
    def log_values(self, progress: "Progress") -> dict[str, Any]:
        """Return what the log says about the last steps."""

    @abstractmethod
    def note(self, progress: "Progress") -> list[str]:
        """Describe the last steps for the console, in a few parts."""

    def move_to(self, device: torch.device) -> None:
        """Move all networks to a device."""
        for network in (self.model, self.critic):
            if network is not None:
                network.to(device, memory_format=torch.channels_last)  # type: ignore[call-overload]

    def prepare(self, step: int) -> None:  # noqa: B027 (most tasks need no preparation)
        """Prepare for a step, counted from 0. This is called before each step."""


class BoundTask(TrainingTask):
    """A VAE, conditional or not, together with the bound that its training maximises."""

    vae: VDVAE
    needs_whole_network: bool
    """Whether gradients flow through the whole VAE, not only through the partial encoder."""
    scores: ScoredPixels
    """The pixels whose log-probability is bounded by the training objective."""

    @property
    def image_size(self) -> int:
        return self.vae.config.image_size

    @property
    def figures(self) -> tuple[str, ...]:  # type: ignore[override]
        return ("log_likelihood_nats", *(f"kl_nats_{group}" for group in range(len(self.vae.config.group_stages))))

    @abstractmethod
    def bound(self, batch: Batch, generator: torch.Generator) -> Bound:
        """Return the bound that training maximises for a batch. Terms that have no gradient may be left out."""

    @abstractmethod
    def reports(self, batch: Batch, generator: torch.Generator) -> dict[ScoredPixels, Bound]:
        """Return all bounds to report on a batch, by the pixels that they score, from one pass.

        They include the bound that training maximises, here with all its terms, and bounds for comparing runs.
        """

    def loss(self, batch: Batch, generator: torch.Generator) -> TaskLoss:
        bound = self.bound(batch, generator)
        total = bound.loss
        with torch.no_grad():
            log_likelihood = bound.log_likelihood_nats
            mean = total.new_zeros(()) if log_likelihood is None else log_likelihood.mean()
            return TaskLoss(total, torch.cat((mean.view(1), bound.kl_nats.mean(dim=0))))

    def evaluate(self, step: "TrainingStep", images: ImageSet, *, seed: int) -> HeldOutResult:
        return evaluate_held_out(step, images, seed=seed)

    def log_values(self, progress: "Progress") -> dict[str, Any]:
        log_likelihood, kl = self._figures_of(progress)
        return {"bits_per_dim": progress.loss / math.log(2), "kl_nats": kl, "log_likelihood_nats": log_likelihood}

    def note(self, progress: "Progress") -> list[str]:
        log_likelihood, kl = self._figures_of(progress)
        # With a frozen artifact the likelihood is constant and not computed: the loss is the KL alone.
        bits = f"{progress.loss / math.log(2):.3f} bits/dim" + ("" if log_likelihood else " of KL")
        return [bits, "KL " + " ".join(f"{resolution}:{nats:.0f}" for resolution, nats in kl.items())]

    def _figures_of(self, progress: "Progress") -> tuple[float, dict[int, float]]:
        log_likelihood, *kl = progress.figures.values()
        return log_likelihood, by_resolution(self.vae.config, tuple(kl))


class Pretraining(BoundTask):
    """Train an unconditional VAE by maximising its ELBO, the paper's equation eq:eelbo."""

    needs_whole_network = True
    scores: ScoredPixels = "whole"

    def __init__(self, vae: VDVAE) -> None:
        self.model = self.vae = vae

    def bound(self, batch: Batch, generator: torch.Generator) -> Bound:
        return objectives.elbo(self.vae, batch.x, noise=generator, check_values=False)

    def reports(self, batch: Batch, generator: torch.Generator) -> dict[ScoredPixels, Bound]:
        return {"whole": self.bound(batch, generator)}


class ConditionalTraining(BoundTask):
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
