"""The artifact: a hierarchical VAE, and the one walk down its decoder that everything else is made of."""

import functools
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias, TypeVar

import torch
from torch import Tensor, nn

from condvae.gaussian import Gaussian
from condvae.likelihood import GaussianPixels
from condvae.noise import NoiseSource, as_noise
from condvae.runtime.pixels import check_images, to_levels
from condvae.vdvae.config import VDVAEConfig
from condvae.vdvae.decoder import Decoder, LatentBlock
from condvae.vdvae.encoder import Encoder, Posterior, Prior, Source
from condvae.vdvae.temperature import TemperatureLike, per_group

T = TypeVar("T")


class Step(NamedTuple):
    """One latent group on the way down."""

    group: int
    state: Tensor
    """h: carries z_<l."""
    prior: Prior
    """p(z_l | z_<l)"""
    drawn_from: Gaussian
    """What z was drawn from: the prior, q(z_l | z_<l, x) or c(z_l | z_<l, y)."""
    z: Tensor


StepScore: TypeAlias = Callable[[Step], Tensor]
"""A number for each image, [B]; or K of them, [B, K]."""


class Descent(NamedTuple):
    """The result of a walk down the decoder."""

    state: Tensor
    """[B, width, H, W], after gain and bias."""
    latents: list[Tensor]
    """z_1, ..., z_L."""
    scores: Tensor
    """[B, L]: the score of every step, [B, L, K] if it is K numbers; [B, 0] if none was asked for."""


class VDVAE(nn.Module):
    """A very deep VAE: encoder q(z | x) (phi), decoder with prior p(z) and p(x | z) (theta)."""

    def __init__(self, config: VDVAEConfig) -> None:
        super().__init__()
        self.config = config
        self.likelihood = config.likelihood
        self.encoder = Encoder(config, config.channels)
        self.decoder = Decoder(config)

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return self.decoder.gain.device

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
        temperature: TemperatureLike | Tensor = 1.0,
        given: Sequence[Tensor | None] = (),
        score: StepScore | None = None,
        first_stream: int = 0,
        asks_prior: bool = True,
    ) -> Descent:
        """Draw z_1, ..., z_L from `source` (None: the prior) and carry them down to the pixels.

        temperature: factor on every standard deviation, as `per_group` takes it; a tensor, [L], is used unseen.
        given: fixed latents; where it ends or holds None, z is drawn.
        score: asked at every step, e.g. for a KL divergence; steps are not kept, so memory stays bounded.
        asks_prior: False promises that source and score do not ask for the prior, which saves work.
        first_stream: group l draws from the noise's stream first_stream + l; another value gives other numbers.
        """
        noise = as_noise(noise)
        temperatures: Sequence[float | Tensor]
        if isinstance(temperature, Tensor):
            temperatures = temperature.expand(len(self.config.group_stages)).unbind()
        else:
            temperatures = per_group(temperature, self.config)
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
                features = block.features(state, prior=asks_prior or source is None)
                prior = functools.cache(functools.partial(block.prior_of, features))
                drawn_from = source(group, state, prior) if source else prior()
                z = given[group] if group < len(given) else None
                if z is None:
                    z = drawn_from.draw(noise, first_stream + group, temperatures[group])
                _check_latents(z, drawn_from, group)
                latents.append(z)
                if score:
                    scores.append(self.aside(functools.partial(score, Step(group, state, prior, drawn_from, z))))
                state = block.merge(state, features, z)
        assert state is not None  # a config has at least one decoder stage
        state = self.decoder.leave(state)
        return Descent(state, latents, torch.stack(scores, dim=1) if score else state.new_zeros(batch, 0))

    def aside(self, work: Callable[[], T], *, shared: bool = False) -> T:
        """Do work that the walk does not wait for until it is over; `condvae.kernels` gives it streams of its own.

        shared: work that is done aside later reads the result.
        """
        return work()

    def pixel_log_prob(self, state: Tensor, x: Tensor) -> Tensor:
        """log p(pixel | z) of each pixel in nats, [B, H, W], for a descent's state and images in [-1, 1]."""
        return self.likelihood.log_prob(self.decoder.pixel_parameters(state), x)

    def pixel_log_probs(self, state: Tensor, x: Tensor) -> Tensor:
        """[1 or 2, B, H, W]: `pixel_log_prob`; and last, where that is no log-probability, the one of grey levels."""
        if not isinstance(self.likelihood, GaussianPixels):
            return self.pixel_log_prob(state, x)[None]
        parameters = self.decoder.pixel_parameters(state)
        return torch.stack((self.likelihood.log_prob(parameters, x), self.likelihood.log_mass(parameters, x)))


def _check_latents(z: Tensor, drawn_from: Gaussian, group: int) -> None:
    if z.shape != drawn_from.shape:
        expected = tuple(drawn_from.shape)
        raise ValueError(f"the latents given for group {group} have shape {tuple(z.shape)}, expected {expected}")
