"""The artifact: a hierarchical VAE, and the one walk down its decoder that everything else is made of."""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
import torch
from torch import Tensor, nn

from condvae.gaussian import Gaussian
from condvae.noise import NoiseSource, as_noise
from condvae.pixels import check_images, to_levels
from condvae.vdvae.config import VDVAEConfig
from condvae.vdvae.decoder import Decoder, LatentBlock
from condvae.vdvae.encoder import Encoder, Posterior, Source


class Step(NamedTuple):
    """One latent group on the way down."""

    group: int
    state: Tensor
    """h: carries z_<l."""
    prior: Gaussian
    """p(z_l | z_<l)"""
    drawn_from: Gaussian
    """What z was drawn from: the prior, q(z_l | z_<l, x) or c(z_l | z_<l, y)."""
    z: Tensor


Score: TypeAlias = Callable[[Step], Tensor]


class Descent(NamedTuple):
    """The result of a walk down the decoder."""

    state: Tensor
    """[B, width, H, W], after gain and bias."""
    latents: list[Tensor]
    """z_1, ..., z_L."""
    scores: Tensor
    """[B, L]: the score of every step, summed over the group's latents; [B, 0] if none was asked for."""


class VDVAE(nn.Module):
    """A very deep VAE: encoder q(z | x) (phi), decoder with prior p(z) and p(x | z) (theta)."""

    def __init__(self, config: VDVAEConfig) -> None:
        super().__init__()
        self.config = config
        self.likelihood = config.likelihood
        self.encoder = Encoder(config, config.channels)
        self.decoder = Decoder(config)

    def check(self, x: Tensor, *, name: str = "x", values: bool = True) -> None:
        """Raise a ValueError unless x is a batch of this model's images."""
        check_images(x, channels=self.config.channels, size=self.config.image_size, name=name, values=values)
        if x.dtype != self.decoder.gain.dtype:
            raise ValueError(f"{name} is {x.dtype} but the model's weights are {self.decoder.gain.dtype}: convert one")

    def normalise(self, x: Tensor) -> Tensor:
        """Images in [-1, 1] as the networks see them."""
        normalisation = self.config.normalisation
        return (to_levels(x) + normalisation.shift) * normalisation.scale

    def posterior(self, x: Tensor) -> Posterior:
        """q(. | x) for images [B, C, H, W] in [-1, 1]."""
        self.check(x, values=False)
        posterior: Posterior = self.encoder(self.normalise(x))
        return posterior

    def descend(
        self,
        source: Source | None,
        *,
        batch: int,
        noise: NoiseSource,
        temperature: float | Sequence[float] = 1.0,
        given: Sequence[Tensor | None] = (),
        score: Score | None = None,
        first_stream: int = 0,
    ) -> Descent:
        """Draw z_1, ..., z_L from `source` (None: the prior) and carry them down to the pixels.

        temperature: factor on every standard deviation, one number or one per group.
        given: fixed latents; where it ends or holds None, z is drawn.
        score: asked at every step, e.g. for a KL divergence; steps are not kept, so memory stays bounded.
        first_stream: group l draws from the noise's stream first_stream + l; another value gives other numbers.
        """
        noise = as_noise(noise)
        temperatures = self._per_group(temperature)
        if len(given) > len(temperatures):
            raise ValueError(f"{len(given)} latents were given, but the model has {len(temperatures)} groups")
        latents: list[Tensor] = []
        scores: list[Tensor] = []
        state: Tensor | None = None
        for stage, blocks in self.decoder.levels():
            state = self.decoder.enter(stage, state, batch)
            for block in blocks:
                if not isinstance(block, LatentBlock):
                    state = block(state)
                    continue
                group = len(latents)
                prior, feature = block.look(state)
                drawn_from = source(group, state, prior) if source else prior
                z = given[group] if group < len(given) else None
                if z is None:
                    numbers = noise.normal(first_stream + group, drawn_from.mean.shape, state.device)
                    z = drawn_from.sample(numbers, temperatures[group])
                _check_latents(z, drawn_from, group)
                latents.append(z)
                if score:
                    scores.append(score(Step(group, state, prior, drawn_from, z)).flatten(1).sum(dim=1))
                state = block.take_in(state, feature, z)
        assert state is not None  # a config has at least one decoder stage
        by_group = torch.stack(scores, dim=1) if score else state.new_zeros(batch, 0)
        return Descent(self.decoder.leave(state), latents, by_group)

    def pixel_log_prob(self, state: Tensor, x: Tensor) -> Tensor:
        """log p(pixel | z) of each pixel in nats, [B, H, W], for a descent's state and images in [-1, 1]."""
        return self.likelihood.log_prob(self.decoder.pixel_parameters(state), x)

    def _per_group(self, temperature: float | Sequence[float]) -> list[float]:
        groups = len(self.config.group_stages)
        values = np.asarray(temperature, dtype=np.float64)
        temperatures = [float(value) for value in (np.full(groups, values) if values.ndim == 0 else values)]
        if len(temperatures) != groups:
            raise ValueError(
                f"{len(temperatures)} temperatures were given, expected one number or one per group ({groups})"
            )
        if any(not 0 <= t < math.inf for t in temperatures):
            raise ValueError("a temperature is negative, infinite or not a number, expected 0 or more")
        return temperatures


def _check_latents(z: Tensor, drawn_from: Gaussian, group: int) -> None:
    if z.shape != drawn_from.mean.shape:
        expected = tuple(drawn_from.mean.shape)
        raise ValueError(f"the latents given for group {group} have shape {tuple(z.shape)}, expected {expected}")
