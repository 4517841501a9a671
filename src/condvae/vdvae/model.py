"""`VDVAE`, the artifact: a hierarchical VAE. Samples and bounds are computed by a pass through its decoder."""

import functools
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias, TypeVar

import torch
from torch import Tensor, nn

from condvae.gaussian import Gaussian
from condvae.likelihood import GaussianPixels
from condvae.noise import NoiseSource, as_noise
from condvae.runtime.messages import counted
from condvae.runtime.pixels import check_images, to_levels
from condvae.vdvae.config import VDVAEConfig
from condvae.vdvae.decoder import Decoder, LatentBlock
from condvae.vdvae.encoder import Encoder, Posterior, Prior, Source
from condvae.vdvae.temperature import TemperatureLike, per_group

T = TypeVar("T")


class Step(NamedTuple):
    """One step of a pass: the values at one latent group."""

    group: int
    state: Tensor
    """The decoder state h, which depends on the coarser latent groups z_<l."""
    prior: Prior
    """A function that returns the prior p(z_l | z_<l)."""
    drawn_from: Gaussian
    """The distribution that z was drawn from: the prior, q(z_l | z_<l, x) or c(z_l | z_<l, y)."""
    z: Tensor


StepScore: TypeAlias = Callable[[Step], Tensor]
"""A function of a step that returns one number per image, [B], or K numbers per image, [B, K]."""


class Descent(NamedTuple):
    """The result of a pass through the decoder."""

    state: Tensor
    """The final state, [B, width, H, W], after gain and bias."""
    latents: list[Tensor]
    """The latents z_1, ..., z_L."""
    scores: Tensor
    """The scores of each image at the L steps: [B, L], or [B, L, K] if a score is K numbers; [B, 0] without a score."""


class VDVAE(nn.Module):
    """A very deep VAE: an encoder q(z | x) with weights phi, and a decoder p(z), p(x | z) with weights theta."""

    def __init__(self, config: VDVAEConfig) -> None:
        super().__init__()
        self.config = config
        self.likelihood = config.likelihood
        self.encoder = Encoder(config, config.channels)
        self.decoder = Decoder(config)

    @property
    def device(self) -> torch.device:
        """The device of the weights."""
        return self.decoder.gain.device

    def check(self, x: Tensor, *, name: str = "x", values: bool = True) -> None:
        """Raise ValueError unless x is a batch of images of this model's size and dtype; see `check_images`."""
        check_images(x, channels=self.config.channels, size=self.config.image_size, name=name, values=values)
        if x.dtype != self.decoder.gain.dtype:
            weights = self.decoder.gain.dtype
            raise ValueError(f"{name} is {x.dtype} but the model's weights are {weights}: convert one of them")

    def normalise(self, x: Tensor) -> Tensor:
        """Convert images in [-1, 1] to the scale of the networks' inputs."""
        normalisation = self.config.normalisation
        return (to_levels(x) + normalisation.shift) * normalisation.scale

    def posterior(self, x: Tensor) -> Posterior:
        """Return q(z | x), the distribution of all latents, for images [B, C, H, W] in [-1, 1]."""
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
        """Do one pass: draw z_1, ..., z_L from `source` (the prior if None) and compute the decoder's final state.

        temperature: factor on the standard deviations, in any form that `per_group` accepts, or a tensor [L], which is
        not checked.
        given: latents of the first groups, to use instead of drawing them. An entry that is None is drawn.
        score: a function that is computed at every step, such as a KL divergence. Only its results are kept.
        asks_prior: if False, source and score must not call the prior. This saves work.
        first_stream: group l draws from the stream first_stream + l of the noise.
        """
        noise = as_noise(noise)
        temperatures: Sequence[float | Tensor]
        if isinstance(temperature, Tensor):
            temperatures = temperature.expand(len(self.config.group_stages)).unbind()
        else:
            temperatures = per_group(temperature, self.config)
        if len(given) > len(temperatures):
            groups = counted(len(temperatures), "latent group")
            raise ValueError(f"latents were given for {len(given)} groups, but the model has {groups}")
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
        """Return work(), whose result the pass does not need before its end. `condvae.kernels` runs it in parallel.

        shared: whether work that is given to a later call of this method reads the result.
        """
        return work()

    def pixel_log_prob(self, state: Tensor, x: Tensor) -> Tensor:
        """Return log p(pixel | z) in nats, [B, H, W], for the final state of a pass and images x in [-1, 1]."""
        return self.likelihood.log_prob(self.decoder.pixel_parameters(state), x)

    def pixel_log_probs(self, state: Tensor, x: Tensor) -> Tensor:
        """Return `pixel_log_prob` as [1, B, H, W].

        For `GaussianPixels`, return [2, B, H, W]: `pixel_log_prob`, and the log-probabilities of 8-bit grey levels.
        """
        if not isinstance(self.likelihood, GaussianPixels):
            return self.pixel_log_prob(state, x)[None]
        parameters = self.decoder.pixel_parameters(state)
        return torch.stack((self.likelihood.log_prob(parameters, x), self.likelihood.log_mass(parameters, x)))


def _check_latents(z: Tensor, drawn_from: Gaussian, group: int) -> None:
    if z.shape != drawn_from.shape:
        expected = tuple(drawn_from.shape)
        raise ValueError(f"the latents given for latent group {group} have shape {tuple(z.shape)}, expected {expected}")
