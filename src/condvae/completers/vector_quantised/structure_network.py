"""Stage 2 of VQ-VAE completion: the distribution of the top codes given the observation (Peng et al. 2021).

A condition network encodes the observation. A PixelCNN with attention predicts each code from the earlier ones, in
raster order. Its vertical stream sees the rows above a position, and its horizontal stream also sees the codes to the
left. The codes of the whole image are predicted, also where pixels are known.
"""

import itertools

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from condvae.completers.vector_quantised.structure_layers import (
    ABOVE_WIDE,
    COLUMN_BEFORE,
    LEFT_AND_ABOVE,
    POINT,
    ROW_BEFORE,
    ROWS_BEFORE,
    CausalAttention,
    Dropout,
    GatedResidual,
    TensorMap,
    WeightNormConv,
    around,
    concat_elu,
    no_dropout,
)
from condvae.completers.vector_quantised.vq_config import VectorQuantisedConfig
from condvae.gaussian import full_precision
from condvae.noise import Noise

_DROPOUT_STREAM = 1000
"""The first stream of random numbers for dropout."""


def observation_input(pixels: Tensor, known: Tensor) -> Tensor:
    """Return the pixels, 0 where hidden, a channel of ones, and a channel that is 1 at hidden pixels: [B, C + 2, H, W].

    The paper's networks mark what is missing, where ours mark what is known.
    """
    hidden = (~known).to(pixels.dtype)
    return torch.cat((torch.where(known, pixels, 0.0), torch.ones_like(hidden), hidden), dim=1)


class ConditionNetwork(nn.Module):
    """The features of an observation at the resolution of the top codes."""

    def __init__(self, config: VectorQuantisedConfig) -> None:
        super().__init__()
        halvings, width = config.condition_halvings, config.condition_width
        self.input = WeightNormConv(config.channels + 2, width // 2**halvings, around(5))
        widths = [width // 2**level for level in range(halvings, -1, -1)]
        self.halvings = nn.ModuleList(
            WeightNormConv(before, after, around(3), stride=2) for before, after in itertools.pairwise(widths)
        )
        plain = config.condition_blocks - len(config.dilations)
        dilations = [*(1,) * (plain - plain // 2), *config.dilations, *(1,) * (plain // 2)]
        self.blocks = nn.ModuleList(GatedResidual(width, around(3, d), dilation=d) for d in dilations)

    def forward(self, pixels: Tensor, known: Tensor, dropout: TensorMap = no_dropout) -> Tensor:
        """Return features [B, condition_width, S, S]. pixels: [B, C, H, W], known: [B, 1, H, W] bool."""
        h: Tensor = self.input(observation_input(pixels, known))
        for halving in self.halvings:
            h = halving(F.elu(h))
        for block in self.blocks:
            h = block(h, dropout=dropout)
        return h


class CausalBlock(nn.Module):
    """A gated residual block of each stream. The horizontal one also sees the vertical one."""

    def __init__(self, width: int, condition: int) -> None:
        super().__init__()
        self.vertical = GatedResidual(width, ABOVE_WIDE, others=(condition,))
        self.horizontal = GatedResidual(width, LEFT_AND_ABOVE, others=(condition, width))

    def forward(
        self, vertical: Tensor, horizontal: Tensor, condition: Tensor, dropout: TensorMap = no_dropout
    ) -> tuple[Tensor, Tensor]:
        """Return both streams, [B, width, S, S]. condition: after `concat_elu`."""
        vertical = self.vertical(vertical, condition, dropout=dropout)
        return vertical, self.horizontal(horizontal, condition, concat_elu(vertical), dropout=dropout)


class PixelCNN(nn.Module):
    """The logits of each code given the earlier codes and the condition."""

    def __init__(self, config: VectorQuantisedConfig) -> None:
        super().__init__()
        width, inputs = config.structure_width, config.code_width + 1
        self.rows_input = WeightNormConv(inputs, width, ROWS_BEFORE)
        self.row_input = WeightNormConv(inputs, width, ROW_BEFORE)
        self.column_input = WeightNormConv(inputs, width, COLUMN_BEFORE)
        self.blocks = nn.ModuleList(CausalBlock(width, config.condition_width) for _ in range(config.structure_blocks))
        self.attention_every = config.structure_blocks // config.structure_attentions
        self.attentions = nn.ModuleList(
            CausalAttention(
                width,
                inputs,
                config.top_size,
                heads=config.attention_heads,
                keys=config.key_width,
                values=config.value_width,
            )
            for _ in range(config.structure_attentions)
        )
        self.output_blocks = nn.ModuleList(GatedResidual(width, POINT) for _ in range(config.output_blocks))
        self.logits = WeightNormConv(width, config.codes, POINT)

    def forward(self, vectors: Tensor, condition: Tensor, dropout: TensorMap = no_dropout) -> Tensor:
        """Return logits [B, K, S, S] in float32. vectors: of the codes, [B, d, S, S]. condition: [B, width, S, S]."""
        codes = with_ones(vectors)
        condition = concat_elu(condition)
        vertical = self.rows_input(codes)
        horizontal = self.row_input(codes) + self.column_input(codes)
        for number, block in enumerate(self.blocks, start=1):
            vertical, horizontal = block(vertical, horizontal, condition, dropout)
            if number % self.attention_every == 0:
                horizontal = self.attentions[number // self.attention_every - 1](horizontal, codes, dropout)
        for block in self.output_blocks:
            horizontal = block(horizontal, dropout=dropout)
        return full_precision(self.logits(F.elu(horizontal)))


class StructureNetwork(nn.Module):
    """The structure generator: the condition network and the PixelCNN."""

    def __init__(self, config: VectorQuantisedConfig) -> None:
        super().__init__()
        self.condition = ConditionNetwork(config)
        self.pixel_cnn = PixelCNN(config)
        self.dropout = config.dropout

    def forward(self, pixels: Tensor, known: Tensor, vectors: Tensor, noise: Noise) -> Tensor:
        """Return logits [B, K, S, S] in float32 for training; the noise is for dropout."""
        drop = self.training and self.dropout > 0
        dropout: TensorMap = Dropout(noise, self.dropout, _DROPOUT_STREAM) if drop else no_dropout
        logits: Tensor = self.pixel_cnn(vectors, self.condition(pixels, known, dropout), dropout)
        return logits


def with_ones(vectors: Tensor) -> Tensor:
    """Add a channel of ones to a map, so that a layer can tell positions from the padding."""
    return torch.cat((vectors, torch.ones_like(vectors[:, :1])), dim=1)
