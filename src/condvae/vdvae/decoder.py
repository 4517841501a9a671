"""The decoder of p(z) and p(x | z). From coarse to fine, its blocks merge the latent groups into a state h."""

import itertools
from collections.abc import Iterator
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from condvae.gaussian import Gaussian
from condvae.vdvae.blocks import Block, convolution, fit_channels
from condvae.vdvae.config import Stage, VDVAEConfig


class LatentBlock(nn.Module):
    """A decoder block with latents. It merges z into the state: h <- residual(h + f(h) + projection(z)).

    One network computes both the prior p(z | h) and f(h).
    """

    def __init__(self, config: VDVAEConfig, stage: Stage) -> None:
        super().__init__()
        self.scales = config.scales
        self.split = (2 * config.latent_channels, stage.width)
        self.prior = Block(stage.width, stage.inner, sum(self.split), resolution=stage.resolution)
        self.projection = convolution(config.latent_channels, stage.width, 1)
        self.residual = residual_block(stage)
        nn.init.zeros_(self.prior.c4.weight)

    def features(self, state: Tensor, *, prior: bool = True) -> "PriorFeatures":
        """Compute the part of the block that does not need its latents. prior: whether `prior_of` will be called."""
        return PriorFeatures(self.prior.hidden(state))

    def prior_of(self, features: "PriorFeatures") -> Gaussian:
        """Return the prior p(z_l | z_<l) from the result of `features`."""
        return Gaussian.from_network(self.prior.outputs(features.hidden, 0, self.split[0]), self.scales)

    def merge(self, state: Tensor, features: "PriorFeatures", z: Tensor) -> Tensor:
        """Merge the latents z into the state h, and return the new state, residual(h + f(h) + projection(z))."""
        merged = state + self.prior.outputs(features.hidden, self.split[0]) + self.projection(z)
        after: Tensor = self.residual(merged)
        return after


class PriorFeatures(NamedTuple):
    """The result of `LatentBlock.features`: the part of a latent block that does not need its latents."""

    hidden: Tensor
    """The input of the last convolution of the prior network."""
    half_way: bool = False
    """True if `hidden` is only half computed, because GPU kernels leave the second half to `merge`."""


def residual_block(stage: Stage) -> Block:
    """Make a residual block, which is a decoder block without latents, or the last part of a `LatentBlock`."""
    return Block(stage.width, stage.inner, stage.width, resolution=stage.resolution, adds_input=True)


class Decoder(nn.Module):
    """The blocks of the decoder, which `VDVAE.descend` applies in order. None of them gets x or y as an input."""

    def __init__(self, config: VDVAEConfig) -> None:
        super().__init__()
        self.stages = config.decoder_stages
        finest = self.stages[-1]
        self.starts = nn.ParameterDict(
            {
                str(stage.resolution): nn.Parameter(torch.zeros(1, stage.width, stage.resolution, stage.resolution))
                for stage in self.stages
                if stage.resolution <= config.largest_bias
            }
        )
        self.blocks = nn.ModuleList()
        for stage in self.stages:
            self.blocks.extend(LatentBlock(config, stage) for _ in range(stage.groups))
            self.blocks.extend(residual_block(stage) for _ in range(stage.decoder_blocks - stage.groups))
        self.gain = nn.Parameter(torch.ones(1, finest.width, 1, 1))
        self.bias = nn.Parameter(torch.zeros(1, finest.width, 1, 1))
        self.output = convolution(finest.width, config.likelihood.parameters_per_pixel, 1)
        shrink = len(self.blocks) ** -0.5
        for block in self.blocks:
            residual = block
            if isinstance(block, LatentBlock):
                block.projection.weight.data.mul_(shrink)
                residual = block.residual
            residual.c4.weight.data.mul_(shrink)  # type: ignore[union-attr, operator]

    def levels(self) -> Iterator[tuple[Stage, list[nn.Module]]]:
        """Yield every stage with its blocks, from coarse to fine."""
        blocks = iter(self.blocks)
        for stage in self.stages:
            yield stage, list(itertools.islice(blocks, stage.decoder_blocks))

    def enter(self, stage: Stage, coarser: Tensor | None, batch: int) -> Tensor:
        """Return the first state of a stage: its learnt start image plus the upsampled state of the coarser stage."""
        start = self.start(stage, batch)
        if coarser is None:
            return start
        enlarged = F.interpolate(coarser, scale_factor=stage.resolution // coarser.shape[-1], mode="nearest")
        return start + fit_channels(enlarged, stage.width)

    def start(self, stage: Stage, batch: int) -> Tensor:
        """Return the learnt start image of a stage for each image, [B, width, R, R], or zeros if the stage has none."""
        r = stage.resolution
        if str(r) in self.starts:
            start: Tensor = self.starts[str(r)].expand(batch, -1, -1, -1)
            return start
        return self.gain.new_zeros(1, 1, 1, 1).expand(batch, stage.width, r, r)

    def leave(self, state: Tensor) -> Tensor:
        """Multiply the finest state, [B, width, H, W], by the decoder's gain and add its bias."""
        return state * self.gain + self.bias

    def pixel_parameters(self, state: Tensor) -> Tensor:
        """Compute the parameters of the likelihood for every pixel, [B, P, H, W], from the result of `leave`."""
        parameters: Tensor = self.output(state)
        return parameters
