"""Stage 3 of VQ-VAE completion: a generator that renders an image around given top codes (Peng et al. 2021).

Structure attention compares the codes of positions, and copies features of the image between similar positions.
S is the resolution of the top codes, 2 S that of the coarse features, and 4 S that of the fine features.
"""

import math
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from condvae.completers.spectral_norm import spectral_norm
from condvae.completers.vector_quantised.structure_network import observation_input
from condvae.completers.vector_quantised.vq_config import VectorQuantisedConfig

_SHARPNESS = 50.0
"""The factor of the scores of the structure attention before the softmax."""
_CODE_LAYERS = 4
"""Number of layers on the map of codes, before it meets the features of the observation."""


class GatedConv(nn.Module):
    """ELU(a) sigmoid(b), where (a, b) is a convolution to `width` channels. So the output has half of them."""

    def __init__(self, inputs: int, width: int, kernel: int = 3, *, stride: int = 1, dilation: int = 1) -> None:
        super().__init__()
        self.conv = nn.Conv2d(inputs, width, kernel, stride, dilation * (kernel // 2), dilation)

    def forward(self, x: Tensor) -> Tensor:
        a, b = self.conv(x).chunk(2, dim=1)
        return F.elu(a) * torch.sigmoid(b)


class VisibleTexture(NamedTuple):
    """What the generator computes from an observation alone."""

    coarse: Tensor
    """Features at the resolution of the bottom codes, [B, 2 w, 2 S, 2 S] for the texture width w."""
    fine: Tensor
    """Features at twice that resolution, [B, w, 4 S, 4 S]."""
    known_cells: Tensor
    """1 where all pixels of the area of a top code are known, 0 elsewhere, [B, 1, S, S]."""


class TextureNetwork(nn.Module):
    """The generator: an encoder of the observation, dilated layers, structure attention, and a decoder."""

    def __init__(self, config: VectorQuantisedConfig) -> None:
        super().__init__()
        w, self.size, self.doublings = config.texture_width, config.top_size, config.bottom_halvings - 1
        self.fine_encoder = nn.Sequential(
            GatedConv(config.channels + 2, w, 5),
            GatedConv(w // 2, 2 * w, stride=2**self.doublings),
            GatedConv(w, 2 * w),
        )
        self.coarse_encoder = GatedConv(w, 4 * w, stride=2)
        code_layers = (GatedConv(2 * w, 4 * w) for _ in range(_CODE_LAYERS - 1))
        self.code_layers = nn.Sequential(GatedConv(config.code_width, 4 * w), *code_layers)
        dilated = (GatedConv(2 * w, 4 * w, dilation=dilation) for dilation in config.dilations)
        self.trunk = nn.Sequential(GatedConv(4 * w, 4 * w), GatedConv(2 * w, 4 * w), *dilated)
        self.coarse_decoder = nn.Sequential(GatedConv(4 * w, 4 * w), GatedConv(2 * w, 4 * w))
        self.fine_decoder = nn.Sequential(GatedConv(3 * w, 2 * w), GatedConv(w, 2 * w))
        self.output = nn.Sequential(GatedConv(w, w), nn.Conv2d(w // 2, config.channels, 3, padding=1))

    def visible(self, pixels: Tensor, known: Tensor) -> VisibleTexture:
        """Encode an observation. pixels: [B, C, H, W] in [-1, 1]. known: [B, 1, H, W] bool."""
        fine: Tensor = self.fine_encoder(observation_input(pixels, known))
        # The smallest value in each cell: 0 if a pixel is hidden.
        known_cells = -F.max_pool2d(-known.float(), known.shape[-1] // self.size)
        return VisibleTexture(self.coarse_encoder(fine), fine, known_cells)

    def forward(self, visible: VisibleTexture, codes: Tensor, vectors: Tensor) -> Tensor:
        """Return images [B, C, H, W] in [-1, 1]. codes: the top codes [B, S, S]. vectors: of all codes, [K, d]."""
        structure = self.code_layers(vectors[codes].movedim(-1, 1))
        structure = F.interpolate(structure, scale_factor=2.0, mode="nearest")
        h = self.trunk(torch.cat((visible.coarse, structure), dim=1))
        weights = structure_attention(codes, vectors, visible.known_cells)
        h = self.coarse_decoder(torch.cat((h, paste(weights, h)), dim=1))
        h = F.interpolate(h, scale_factor=2.0, mode="nearest")
        h = self.fine_decoder(torch.cat((h, paste(weights, visible.fine)), dim=1))
        if self.doublings:
            h = F.interpolate(h, scale_factor=2.0, mode="nearest")
        return torch.tanh(self.output(h))


@torch.no_grad()
def structure_attention(codes: Tensor, vectors: Tensor, known_cells: Tensor) -> Tensor:
    """Return how much each position copies from each other one, float32 [B, S S, S S], whose rows sum to 1.

    The score of two positions is -50 tanh(d), where d is the squared distance of the 3x3 codes around them,
    standardised over all positions to copy from. Scores of neighbouring pairs of positions are added, so that areas
    are copied together. Positions with hidden pixels are not copied from, unless all positions have some.

    codes: int64 [B, S, S]. vectors: [K, d]. known_cells: [B, 1, S, S].
    """
    with torch.autocast(codes.device.type, enabled=False):
        scores = -_SHARPNESS * torch.tanh(_standardised(_patch_distances(codes, vectors)))
        # Sums over diagonals: (y, x) -> (y', x') is supported by (y, x + 1) -> (y', x' + 1), and so on.
        padded = F.pad(scores, (1, 1, 0, 0, 1, 1))
        size = codes.shape[-1]
        scores = sum_of([padded[:, :, k : k + size, :, k : k + size] for k in range(3)])
        padded = F.pad(scores, (0, 0, 1, 1, 0, 0, 1, 1))
        scores = sum_of([padded[:, k : k + size, :, k : k + size] for k in range(3)])
        scores = scores.flatten(3).flatten(1, 2)  # [B, S S, S S]
        sources = known_cells.flatten(1) > 0
        sources = sources | ~sources.any(dim=1, keepdim=True)
        return scores.masked_fill(~sources[:, None], -torch.inf).softmax(dim=-1)


def paste(weights: Tensor, features: Tensor) -> Tensor:
    """Average patches of r x r features, [B, C, r S, r S], with attention weights [B, S S, S S]."""
    size = math.isqrt(weights.shape[-1])
    patches = F.pixel_unshuffle(features, features.shape[-1] // size)
    averaged = patches.flatten(2) @ weights.to(features.dtype).mT
    return F.pixel_shuffle(averaged.view_as(patches), features.shape[-1] // size)


def sum_of(parts: list[Tensor]) -> Tensor:
    """Return the sum of tensors of the same shape."""
    return torch.stack(parts).sum(dim=0)


def _patch_distances(codes: Tensor, vectors: Tensor) -> Tensor:
    """Return the squared distances of the 3x3 code vectors around all pairs of positions, [B, S, S, S, S].

    Beyond the border, vectors are 0. The distances come from a table for pairs of codes, so that equal patches have the
    distance 0 exactly.
    """
    size, count = codes.shape[-1], len(vectors)
    with_outside = F.pad(vectors.float(), (0, 0, 0, 1))
    table = torch.cdist(with_outside, with_outside, compute_mode="donot_use_mm_for_euclid_dist").square()
    places = F.pad(codes, (1, 1, 1, 1), value=count)
    pairs = table[places[:, :, :, None, None], places[:, None, None]]  # [B, S + 2, S + 2, S + 2, S + 2]
    ends = [(i, i + size, j, j + size) for i in range(3) for j in range(3)]
    return sum_of([pairs[:, a:b, c:d, a:b, c:d] for a, b, c, d in ends])


def _standardised(distances: Tensor) -> Tensor:
    """Subtract the mean over the last two dimensions, and divide by the standard deviation."""
    std, mean = torch.std_mean(distances, dim=(-2, -1), correction=0, keepdim=True)
    # If all distances are equal, the result is 0 in spite of rounding.
    return (distances - mean) / (std + 1e-4 * mean + 1e-12)


class TextureDiscriminator(nn.Module):
    """Tells real images from completions. Its input is the image and a channel that is 1 at hidden pixels."""

    def __init__(self, config: VectorQuantisedConfig) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        inputs = config.channels + 1
        for level in range(config.critic_layers):
            outputs = config.texture_width * min(2**level, 4)
            layers += [spectral_norm(nn.Conv2d(inputs, outputs, 5, 2, 2)), nn.LeakyReLU(0.2)]
            inputs = outputs
        self.layers = nn.Sequential(*layers)

    def forward(self, images: Tensor, known: Tensor) -> Tensor:
        """Return a map of scores, float32 [B, channels, h, w]; all of its channels are scores."""
        scores: Tensor = self.layers(torch.cat((images, (~known).to(images.dtype)), dim=1))
        return scores.float()
