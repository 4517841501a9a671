"""p(z), and the way from z to pixels: a state h goes from coarse to fine and takes in one group at a time."""

from collections.abc import Callable
from typing import TypeAlias

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from condvae.gaussian import Gaussian
from condvae.vdvae.blocks import Block, convolution, fit_channels
from condvae.vdvae.config import Stage, VDVAEConfig

Latent: TypeAlias = Callable[[int, Tensor, Gaussian], Tensor]
"""(group l, state h, prior p(z_l | z_<l)) -> z_l"""


class LatentBlock(nn.Module):
    """h <- h + f(h) + projection(z); h <- residual(h), where the prior network gives both p(z | h) and f(h)."""

    def __init__(self, config: VDVAEConfig, stage: Stage) -> None:
        super().__init__()
        self.scales = config.scales
        self.split = (2 * config.latent_channels, stage.width)
        self.prior = Block(stage.width, stage.inner, sum(self.split), resolution=stage.resolution)
        self.projection = convolution(config.latent_channels, stage.width, 1)
        self.residual = residual_block(stage)
        nn.init.zeros_(self.prior.c4.weight)

    def forward(self, state: Tensor, group: int, latent: Latent) -> Tensor:
        raw, feature = self.prior(state).split(self.split, dim=1)
        z = latent(group, state, Gaussian.from_network(raw, self.scales))
        merged: Tensor = self.residual(state + feature + self.projection(z))
        return merged


def residual_block(stage: Stage) -> Block:
    """A block without latents: all there is to a decoder block that carries none."""
    return Block(stage.width, stage.inner, stage.width, resolution=stage.resolution, residual=True)


class Decoder(nn.Module):
    """Stages from coarse to fine. Asks `latent` for z of every group; never sees x or y."""

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

    def forward(self, latent: Latent, batch: int) -> Tensor:
        """The final state after gain and bias, [B, width, H, W]; `pixel_parameters` reads pixels off it."""
        state: Tensor | None = None
        group = 0
        blocks = iter(self.blocks)
        for stage in self.stages:
            state = self._enter(stage, state, batch)
            for position in range(stage.decoder_blocks):
                block = next(blocks)
                if position < stage.groups:
                    state = block(state, group, latent)
                    group += 1
                else:
                    state = block(state)
        assert state is not None  # a config has at least one decoder stage
        return state * self.gain + self.bias

    def pixel_parameters(self, state: Tensor) -> Tensor:
        """What the likelihood needs of every pixel: [B, P, H, W]."""
        parameters: Tensor = self.output(state)
        return parameters

    def _enter(self, stage: Stage, coarser: Tensor | None, batch: int) -> Tensor:
        """The state at a new resolution: its bias image, plus the state from below, upsampled and cut to width."""
        r = stage.resolution
        if str(r) in self.starts:
            start: Tensor = self.starts[str(r)].expand(batch, -1, -1, -1)
        else:
            start = self.gain.new_zeros(1, 1, 1, 1).expand(batch, stage.width, r, r)
        if coarser is None:
            return start
        upsampled = F.interpolate(coarser, scale_factor=r // coarser.shape[-1], mode="nearest")
        return start + fit_channels(upsampled, stage.width)
