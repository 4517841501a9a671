"""The likelihood regret of Xiao et al. 2020: how much better the latents could explain this one image.

Encoders are trained on ordinary images and find nearly the best z for those; for others much is left to gain. What is
optimised here is what the encoder says, not its weights: an offset to the mean and to the log-std of every latent.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from condvae.gaussian import Gaussian
from condvae.noise import as_noise
from condvae.observe import Observation
from condvae.ood.bound import log_evidence
from condvae.ood.inference import EncoderKind, Inference
from condvae.runtime.checks import check_whole
from condvae.vdvae.encoder import Prior


@dataclass(frozen=True, kw_only=True)
class Regret:
    """Minus what the bound on log p(y) gains in some steps of Adam."""

    fitted: ClassVar[bool] = False
    kind: ClassVar[EncoderKind | None] = None
    steps: int = 5
    """From 2 to 15, AUROCs of validation images of CIFAR-10 differ by less than their errors: few steps are enough."""
    rate: float = 0.03
    """How far a step goes, in standard deviations for means, in nats for their logarithms. With 0.03 bounds grow at
    nearly every step, with 0.1 they go up and down."""

    def __post_init__(self) -> None:
        check_whole(self.steps, "the steps of a likelihood regret", least=1)

    @property
    def name(self) -> str:
        return f"regret-{self.steps}"

    def features(self, inference: Inference, observation: Observation, seeds: Sequence[int]) -> Tensor:
        """[B, 1]: from the same numbers at every step, the best bound found minus the first."""
        bounds = self.bounds(inference, observation, seeds)
        return (bounds[0] - bounds.amax(dim=0))[:, None]

    def bounds(self, inference: Inference, observation: Observation, seeds: Sequence[int]) -> Tensor:
        """[steps + 1, B] in nats: before, and after each step."""
        with torch.no_grad():
            source = inference.source(observation)
        config, noise = inference.vae.config, as_noise(seeds)
        shapes = [(len(observation), 2, config.latent_channels, *2 * (s.resolution,)) for s in config.group_stages]
        like = observation.y
        offsets = [torch.zeros(shape, dtype=like.dtype, device=like.device, requires_grad=True) for shape in shapes]

        def moved(group: int, state: Tensor, prior: Prior) -> Gaussian:
            # In units of its own std, which differ by orders of magnitude between groups, a mean's step suits all.
            mean, log_std = source(group, state, prior)
            by_mean, by_log_std = offsets[group].unbind(1)
            return Gaussian(mean + log_std.exp() * by_mean, log_std + by_log_std)

        def bound() -> Tensor:
            return log_evidence(inference, observation, moved, noise=noise)

        # Element by element, so the images of a batch do not meet. Weights get no gradients: they are not asked for.
        adam = torch.optim.Adam(offsets, lr=self.rate, maximize=True)
        bounds = []
        for _ in range(self.steps):
            with torch.enable_grad():
                now = bound()
                gradients = torch.autograd.grad(now.sum(), offsets)
            bounds.append(now.detach())
            for offset, gradient in zip(offsets, gradients, strict=True):
                offset.grad = gradient
            adam.step()
        with torch.no_grad():
            bounds.append(bound())
        return torch.stack(bounds)
