"""`Encoder`, the network of q(z | x) and of c(z | y), which predicts the distributions of all latent groups.

The encoder and the partial encoder are the same network with different inputs, so both use this class.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from condvae.gaussian import Gaussian, Scales
from condvae.vdvae.blocks import Block, convolution, fit_channels
from condvae.vdvae.config import VDVAEConfig

Prior: TypeAlias = Callable[[], Gaussian]
"""A function that returns p(z_l | z_<l). It computes the prior at the first call, as not every source needs it."""
Source: TypeAlias = Callable[[int, Tensor, Prior], Gaussian]
"""A function that returns the distribution from which z_l is drawn: the prior, q(z_l | z_<l, x) or c(z_l | z_<l, y).
Its arguments are the index l of the latent group, the decoder state h, and the prior of z_l."""


class Pyramid(nn.Module):
    """Compute features of the input at all resolutions, from fine to coarse."""

    def __init__(self, config: VDVAEConfig, channels: int) -> None:
        super().__init__()
        stages = config.stages
        self.input = convolution(channels, stages[0].width, 3)
        self.blocks = nn.ModuleList()
        self.output_widths: list[int] = []
        for i, stage in enumerate(stages):
            for position in range(stage.encoder_blocks):
                pools = position == stage.encoder_blocks - 1 and i + 1 < len(stages)
                after = stages[i + 1] if pools else stage
                self.blocks.append(
                    Block(
                        stage.width,
                        stage.inner,
                        stage.width,
                        resolution=stage.resolution,
                        adds_input=True,
                        pool=stage.resolution // after.resolution,
                    )
                )
                self.output_widths.append(after.width)
        # Keep the variance of the residual sum bounded as the depth grows.
        for block in self.blocks:
            block.c4.weight.data.mul_(len(self.blocks) ** -0.5)  # type: ignore[union-attr, operator]

    def forward(self, x: Tensor) -> dict[int, Tensor]:
        """Map inputs [B, C, H, W] to the last activation at each resolution R: {R: [B, width, R, R]}."""
        state: Tensor = self.input(x)
        activations = {state.shape[-1]: state}
        for block, width in zip(self.blocks, self.output_widths, strict=True):
            state = fit_channels(block(state), width)
            activations[state.shape[-1]] = state
        return activations


class Encoder(nn.Module):
    """A `Pyramid`, and one head per latent group that computes the Gaussian of this group.

    The inputs of a head are the decoder state and the pyramid's activation at the resolution of the group. With
    relative=True, heads compute the differences from the prior's mean and log-std. These are zero before training, so
    the posterior starts as the prior.
    """

    def __init__(self, config: VDVAEConfig, channels: int, *, relative: bool = False) -> None:
        super().__init__()
        self.channels = channels
        self.scales: Scales = config.scales
        self.relative = relative
        self.resolutions = [stage.resolution for stage in config.group_stages]
        self.pyramid = Pyramid(config, channels)
        self.heads = nn.ModuleList(
            Block(2 * stage.width, stage.inner, 2 * config.latent_channels, resolution=stage.resolution)
            for stage in config.group_stages
        )
        if relative:
            for head in self.heads:
                nn.init.zeros_(head.c4.weight)  # type: ignore[arg-type, union-attr]

    def forward(self, x: Tensor) -> "Posterior":
        """Run the pyramid once, and return the posterior over all latent groups."""
        if x.ndim != 4 or x.shape[1] != self.channels:
            raise ValueError(f"the encoder's input has shape {tuple(x.shape)}, expected [B, {self.channels}, H, W]")
        # Every head begins with GELU, so apply it once for all heads.
        activations = {r: F.gelu(a) for r, a in self.pyramid(x).items() if r in self.resolutions}
        return Posterior(self, activations)

    def gaussian(self, group: int, state: Tensor, activation: Tensor, prior: Prior) -> Gaussian:
        """Return the distribution of a latent group, given the decoder state and the activation after GELU."""
        raw: Tensor = self.heads[group](state, activation)
        difference_or_own = self.read(raw, "log_std" if self.relative else self.scales)
        return prior().shifted_by(difference_or_own) if self.relative else difference_or_own

    def read(self, raw: Tensor, scales: Scales) -> Gaussian:
        """Convert the outputs of a head to a Gaussian."""
        return Gaussian.from_network(raw, scales)


@dataclass(frozen=True)
class Posterior:
    """The result of an encoder for one batch of inputs: a `Source` that gives the distribution of each latent group.

    The decoder may have n consecutive states for each input; they share the encoding of that input.
    """

    encoder: Encoder
    activations: Mapping[int, Tensor]

    @classmethod
    def joined(cls, posteriors: "Sequence[Posterior]") -> "Posterior":
        """Concatenate posteriors of the same encoder into one batch."""
        resolutions = posteriors[0].activations
        joined = {r: torch.cat([posterior.activations[r] for posterior in posteriors]) for r in resolutions}
        return cls(posteriors[0].encoder, joined)

    @property
    def asks_prior(self) -> bool:
        """Whether the distributions are relative to the prior, so that the prior must be computed."""
        return self.encoder.relative

    def __call__(self, group: int, state: Tensor, prior: Prior) -> Gaussian:
        activation = self.activations[self.encoder.resolutions[group]]
        return self.encoder.gaussian(group, state, activation, prior)
