"""Stage 1 of VQ-VAE completion: an autoencoder with two maps of discrete codes (Peng et al. 2021, Razavi et al. 2019).

The codebooks are moving averages of the encoder's outputs, not trained weights. Codes that are no longer used restart
at outputs of the encoder. Distances and averages are computed in float32, also under autocast.
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from condvae.completers.vector_quantised.vq_config import VectorQuantisedConfig
from condvae.gaussian import full_precision
from condvae.noise import Noise

_DECAY = 0.99
_EPSILON = 1e-5
_DEAD = 0.02
"""A code restarts if its size falls below this part of the mean size."""


class Codebook(nn.Module):
    """The vectors of K codes, and the moving averages from which they are computed."""

    vectors: Tensor
    """[K, d]."""
    sizes: Tensor
    """Moving average of how often each code is used, [K]. 1 is the mean over codes after many updates."""
    sums: Tensor
    """Moving average of the sums of the vectors that each code stands for, in the same units, [K, d]."""

    def __init__(self, codes: int, width: int) -> None:
        super().__init__()
        self.register_buffer("vectors", torch.randn(codes, width))
        self.register_buffer("sizes", torch.zeros(codes))
        self.register_buffer("sums", torch.zeros(codes, width))

    def squared_distances(self, z: Tensor) -> Tensor:
        """Return |z - e|^2 for each vector z and code e, [B, H, W, K] in float32. z: [B, d, H, W]."""
        with torch.autocast(z.device.type, enabled=False):
            rows = full_precision(z).movedim(1, -1)
            products = rows @ self.vectors.mT
            return rows.square().sum(dim=-1, keepdim=True) - 2 * products + self.vectors.square().sum(dim=1)

    @torch.no_grad()
    def nearest(self, z: Tensor) -> Tensor:
        """Return the nearest code of each vector, int64 [B, H, W]. z: [B, d, H, W]."""
        return self.squared_distances(z).argmin(dim=-1)

    def look_up(self, codes: Tensor) -> Tensor:
        """Return the vectors of codes in float32, [B, d, H, W]. codes: int64 [B, H, W]."""
        return self.vectors[codes].movedim(-1, 1)

    @torch.no_grad()
    def learn(self, z: Tensor, codes: Tensor, noise: Noise, stream: int) -> None:
        """Update the vectors with outputs z of the encoder, [B, d, H, W], and their codes, [B, H, W].

        size <- 0.99 size + 0.01 K n / N and sum <- 0.99 sum + 0.01 K / N (sum of z), for a code that stands for n of N
        vectors; then vector = sum / size, where epsilon keeps sizes away from 0. Dead codes become vectors of this
        batch, which the noise chooses.
        """
        with torch.autocast(z.device.type, enabled=False):
            rows = full_precision(z).movedim(1, -1).flatten(0, -2)  # [N, d]
            count = len(self.vectors)
            scale = (1 - _DECAY) * count / len(rows)
            chosen = _one_hot(codes.flatten(), count)
            sizes = _DECAY * self.sizes + scale * chosen.sum(dim=0)
            sums = _DECAY * self.sums + scale * (chosen.mT @ rows)
            total = sizes.sum()
            smooth = (sizes + _EPSILON) / (total + count * _EPSILON) * total
            # The noise may have one seed per image: each image gives an equal part of the K random numbers.
            random = noise.uniform(stream, (len(z), -(-count // len(z))), z.device).flatten()[:count]
            fresh = rows[(random * len(rows)).long().clamp(max=len(rows) - 1)]
            mean = total / count
            dead = sizes < _DEAD * mean
            self.sizes.copy_(torch.where(dead, mean, sizes))
            self.sums.copy_(torch.where(dead[:, None], fresh * mean, sums))
            self.vectors.copy_(torch.where(dead[:, None], fresh, sums / smooth[:, None]))


class CodedMap(NamedTuple):
    """A map of vectors from the encoder, and its codes."""

    z: Tensor
    """The outputs of the encoder in float32, [B, d, H, W]."""
    codes: Tensor
    """The nearest codes, int64 [B, H, W]."""
    quantised: Tensor
    """The vectors of the codes, with the gradient of z, [B, d, H, W]."""


class CodesNetwork(nn.Module):
    """The autoencoder: image -> top codes and bottom codes -> image."""

    def __init__(self, config: VectorQuantisedConfig) -> None:
        super().__init__()
        width, d, halvings = config.codes_width, config.code_width, config.bottom_halvings
        self.bottom_encoder = _encoder(config.channels, width, halvings)
        self.top_encoder = _encoder(width, width, 1)
        self.top_output = nn.Conv2d(width, d, 1)
        self.top_decoder = _decoder(d, d, width, 1)
        self.bottom_output = nn.Conv2d(d + width, d, 1)
        self.top_upsampling = nn.ConvTranspose2d(d, d, 4, 2, 1)
        self.decoder = _decoder(2 * d, config.channels, width, halvings)
        self.top, self.bottom = Codebook(config.codes, d), Codebook(config.codes, d)

    def encode(self, x: Tensor) -> tuple[CodedMap, CodedMap]:
        """Return the top and the bottom map of images x, [B, C, H, W] in [-1, 1]."""
        features = self.bottom_encoder(x)
        top = _coded(self.top, self.top_output(self.top_encoder(features)))
        with_top = torch.cat((self.top_decoder(top.quantised), features), dim=1)
        return top, _coded(self.bottom, self.bottom_output(with_top))

    def decode(self, top: Tensor, bottom: Tensor) -> Tensor:
        """Return images [B, C, H, W] from the vectors of the codes, [B, d, h, w] and [B, d, 2 h, 2 w]."""
        both = torch.cat((self.top_upsampling(top), bottom), dim=1)
        image: Tensor = self.decoder(both)
        return image

    @torch.no_grad()
    def top_codes(self, x: Tensor) -> Tensor:
        """Return the top codes of images, int64 [B, h, w]."""
        return self.top.nearest(self.top_output(self.top_encoder(self.bottom_encoder(x))))


class CodesResidual(nn.Module):
    """x + conv1x1(ELU(conv3x3(ELU(x))))."""

    def __init__(self, width: int) -> None:
        super().__init__()
        inner = width // 2
        self.layers = nn.Sequential(
            nn.ELU(), nn.Conv2d(width, inner, 3, padding=1), nn.ELU(), nn.Conv2d(inner, width, 1)
        )

    def forward(self, x: Tensor) -> Tensor:
        change: Tensor = self.layers(x)
        return x + change


def straight_through(z: Tensor, quantised: Tensor) -> Tensor:
    """Return quantised vectors through which gradients pass to z unchanged."""
    return z + (quantised - z).detach()


def perplexity(codes: Tensor, count: int) -> Tensor:
    """Return exp(entropy) of the frequencies of codes: between 1 and the number `count` of codes. codes: int64 [...]"""
    frequencies = _one_hot(codes.flatten(), count).mean(dim=0)
    entropy: Tensor = torch.special.entr(frequencies).sum()
    return entropy.exp()


def _coded(book: Codebook, z: Tensor) -> CodedMap:
    z = full_precision(z)
    codes = book.nearest(z)
    return CodedMap(z, codes, straight_through(z, book.look_up(codes)))


def _one_hot(codes: Tensor, count: int) -> Tensor:
    """Return float32 [N, K] for codes [N]. Unlike torch's own function, it never waits for the device."""
    return (codes[:, None] == torch.arange(count, device=codes.device)).float()


def _encoder(inputs: int, width: int, halvings: int) -> nn.Sequential:
    """Halve the resolution by 4x4 convolutions, first to width / 2; then a 3x3 convolution and two residuals."""
    layers: list[nn.Module] = []
    for step in range(halvings):
        outputs = width if step else width // 2
        layers += [nn.Conv2d(inputs, outputs, 4, 2, 1), nn.ELU()]
        inputs = outputs
    return nn.Sequential(
        *layers, nn.Conv2d(inputs, width, 3, padding=1), CodesResidual(width), CodesResidual(width), nn.ELU()
    )


def _decoder(inputs: int, outputs: int, width: int, doublings: int) -> nn.Sequential:
    """A 3x3 convolution and two residuals; then double the resolution by 4x4 transposed convolutions."""
    layers: list[nn.Module] = [
        nn.Conv2d(inputs, width, 3, padding=1),
        CodesResidual(width),
        CodesResidual(width),
        nn.ELU(),
    ]
    for step in range(doublings - 1):
        layers += [nn.ConvTranspose2d(width // (2 if step else 1), width // 2, 4, 2, 1), nn.ELU()]
    last = width // 2 if doublings > 1 else width
    return nn.Sequential(*layers, nn.ConvTranspose2d(last, outputs, 4, 2, 1))
