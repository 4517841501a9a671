"""The Attentive Neural Process (Kim et al. 2019, "Attentive neural processes") as a completer of images.

An image is a set of points: the positions of its pixels, and their values. From the known points, the context C, the
network predicts the values at target positions T. A latent z, which all targets share, lets completions differ.

Sets have a fixed size here. Which of their points exist is a tensor of bools, so that images with different holes fit
into one batch.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from condvae.completers.learned_completer import BaselineConfig, Code, CompleterLoss, LearnedCompleter, Losses
from condvae.completers.learned_names import LEARNED_TITLES
from condvae.gaussian import Gaussian
from condvae.noise import Noise
from condvae.runtime.checks import check_whole

_LATENT_STREAM, _CONTEXT_STREAM, _TARGET_STREAM = range(3)
"""The streams of random numbers: for z, and in training for the choice of context points and of targets."""
_LEAST_STD = 0.1
"""The lower bound of all standard deviations, as in the paper: of z, and of pixels in [-0.5, 0.5]."""
_POINTS_AT_ONCE = 2**17
"""How many points are encoded or decoded at once, to limit the memory. Training computes whole batches."""


@dataclass(frozen=True, kw_only=True)
class NeuralProcessConfig(BaselineConfig):
    """Configuration of an Attentive Neural Process. The paper's width is 512, which makes 11.6 million parameters."""

    width: int = 256
    """Features of every layer, and dimensions of z."""
    heads: int = 8
    """Heads of each attention."""
    self_attention_blocks: int = 2
    """Self-attention blocks among the context points, in each of the two paths."""
    cross_attention_blocks: int = 2
    """Cross-attention blocks from the targets to the context."""
    context_points: int | None = None
    """How many known pixels of an image, at most, are its context in training. None for all."""
    target_points: int | None = None
    """How many pixels of an image, at most, are its targets in training, including the context. None for all."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_whole(self.width, "the width", least=1)
        check_whole(self.heads, "the number of heads", least=1)
        check_whole(self.self_attention_blocks, "the number of self-attention blocks", least=1)
        check_whole(self.cross_attention_blocks, "the number of cross-attention blocks", least=1)
        if self.width % self.heads:
            raise ValueError(
                f"the width is {self.width}, which {self.heads} heads cannot share equally: give a multiple of "
                f"{self.heads}"
            )
        for limit, name in ((self.context_points, "context"), (self.target_points, "target")):
            if limit is not None:
                check_whole(limit, f"the number of {name} points", least=1)
        if self.most_context > self.most_targets:
            raise ValueError(
                f"the context has up to {self.most_context} points but there are only {self.most_targets} targets, "
                f"which include the context: give at most {self.most_targets} context points"
            )

    @property
    def blocks(self) -> int:
        return 2 * self.self_attention_blocks + self.cross_attention_blocks

    @property
    def pixels(self) -> int:
        """The number of pixels of an image."""
        return self.image_size**2

    @property
    def most_context(self) -> int:
        """The size of the context sets in training, some points of which may not exist."""
        return self.pixels if self.context_points is None else min(self.context_points, self.pixels)

    @property
    def most_targets(self) -> int:
        """The number of targets in training."""
        return self.pixels if self.target_points is None else min(self.target_points, self.pixels)


class PointSet(NamedTuple):
    """A set of n points for each image of a batch."""

    positions: Tensor
    """[B, n, 2]: rows and columns in [-1, 1)."""
    values: Tensor
    """[B, n, C]: pixels in [-0.5, 0.5]."""
    valid: Tensor | None = None
    """[B, n] bool, False for points that only fill up the set. None if all points exist."""

    @classmethod
    def of_images(cls, x: Tensor, known: Tensor | None = None) -> "PointSet":
        """Make the set of all pixels of images x, [B, C, H, W] in [-1, 1]. Only known pixels exist: [B, 1, H, W]."""
        positions = pixel_positions(x.shape[2], x.device).expand(len(x), -1, -1)
        values = 0.5 * x.flatten(2).transpose(1, 2)
        return cls(positions, values, None if known is None else known.flatten(1))

    def take(self, index: Tensor, valid: Tensor | None = None) -> "PointSet":
        """Return the points with these indices, [B, m]. valid: [B, m], which of them exist."""
        positions, values = (part.gather(1, index[..., None].expand(-1, -1, part.shape[2])) for part in self[:2])
        return PointSet(positions, values, valid)

    def inputs(self) -> Tensor:
        """Return positions and values as one tensor, [B, n, 2 + C], with values of 0 where points do not exist."""
        values = self.values if self.valid is None else torch.where(self.valid[..., None], self.values, 0.0)
        return torch.cat((self.positions, values), dim=2)


class PointAttention(nn.Module):
    """A block of multi-head attention and a residual MLP. The heads' results are concatenated, without a projection."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width, bias=False)
        self.value = nn.Linear(width, width, bias=False)
        for layer in (self.query, self.key, self.value):
            # Xavier initialisation of one head's projection, from `width` to width / heads features.
            nn.init.normal_(layer.weight, std=(2 / (width + width / heads)) ** 0.5)
        self.attended_norm = nn.LayerNorm(width)
        self.mlp = _mlp(width, width, width)
        self.norm = nn.LayerNorm(width)

    def forward(self, queries: Tensor, keys: Tensor, values: Tensor, attended: Tensor | None) -> Tensor:
        """Attend from queries [B, m, h] to values [B, n, h], and return [B, m, h].

        keys: [B, n, h]. attended: [B, 1, 1, n] bool, True for points that are used, at least one of each image.
        """
        q, k, v = self.query(queries), self.key(keys), self.value(values)
        q, k, v = (part.unflatten(2, (self.heads, -1)).transpose(1, 2) for part in (q, k, v))
        found = F.scaled_dot_product_attention(q, k, v, attn_mask=attended)  # [B, heads, m, h / heads]
        x: Tensor = self.attended_norm(found.transpose(1, 2).flatten(2) + queries)
        y: Tensor = self.norm(x + self.mlp(x))
        return y


class NeuralProcess(LearnedCompleter):
    """The Attentive Neural Process.

    Its parts are functions of point sets: the latent path gives q(z | points), the deterministic path gives features r
    of the context at each target, and the decoder predicts the values of targets from their positions, z and r. Without
    any context points, r and the mean over the context in the latent path are zero.
    """

    kind: ClassVar[str] = "anp"
    title: ClassVar[str] = LEARNED_TITLES["anp"]
    varies: ClassVar[bool] = True
    config: NeuralProcessConfig

    def __init__(self, config: NeuralProcessConfig) -> None:
        super().__init__(config)
        h, point = config.width, 2 + config.channels

        def attention(blocks: int) -> nn.ModuleList:
            return nn.ModuleList(PointAttention(h, config.heads) for _ in range(blocks))

        self.latent_inputs = _mlp(point, h, h, h)
        self.latent_attention = attention(config.self_attention_blocks)
        self.latent_pooled = nn.Linear(h, h)
        self.latent_outputs = nn.Linear(h, 2 * h)
        self.value_inputs = _mlp(point, h, h, h)
        self.value_attention = attention(config.self_attention_blocks)
        self.key_inputs = _mlp(2, h, h)
        self.query_inputs = _mlp(2, h, h)
        self.cross_attention = attention(config.cross_attention_blocks)
        self.decoder = nn.Sequential(_mlp(2 + h + h, h, h, h, h), nn.ReLU())
        self.decoder_outputs = nn.Linear(h, 2 * config.channels)

    def latent(self, points: PointSet) -> Gaussian:
        """Return q(z | points), whose mean and log_std are [B, h]. Their order does not matter."""
        x = self.latent_inputs(points.inputs())
        x = _self_attention(self.latent_attention, x, points.valid)
        with torch.autocast(x.device.type, enabled=False):
            pooled = F.relu(self.latent_pooled(_mean(x.float(), points.valid)))
            mean, raw = self.latent_outputs(pooled).chunk(2, dim=1)
            return Gaussian(mean, (_LEAST_STD + (1 - _LEAST_STD) * torch.sigmoid(raw)).log())

    def features(self, context: PointSet, positions: Tensor) -> Tensor:
        """Return r, the features of the context at target positions [B, m, 2], as [B, m, h]."""
        values = _self_attention(self.value_attention, self.value_inputs(context.inputs()), context.valid)
        keys, x = self.key_inputs(context.positions), self.query_inputs(positions)
        attended = _attended(context.valid)
        for block in self.cross_attention:
            x = block(x, keys, values, attended)
        r: Tensor = x
        return r if context.valid is None else torch.where(context.valid.any(dim=1)[:, None, None], r, 0.0)

    def predict(self, positions: Tensor, z: Tensor, r: Tensor) -> Gaussian:
        """Return the distribution of the values at target positions, whose mean and log_std are [B, m, C].

        positions: [B, m, 2]. z: [B, h]. r: [B, m, h]. Each target is predicted by itself.
        """
        x = torch.cat((positions, z[:, None].expand(-1, positions.shape[1], -1), r), dim=2)
        x = self.decoder(x)
        with torch.autocast(x.device.type, enabled=False):
            mean, raw = self.decoder_outputs(x.float()).chunk(2, dim=2)
            return Gaussian(mean, (_LEAST_STD + (1 - _LEAST_STD) * F.softplus(raw)).log())

    def encode(self, pixels: Tensor, known: Tensor) -> Code:
        """Return the mean and the log_std of q(z | C), [B, h], and r at all pixels, [B, H W, h]."""
        made = [self._encode(*some) for some in zip(self._parts(pixels), self._parts(known), strict=True)]
        return tuple(torch.cat(parts) for parts in zip(*made, strict=True))

    def decode(self, code: Code, noise: Noise) -> Tensor:
        """Draw z from q(z | C), and return the means of the pixels. Noise is never added to pixels."""
        mean, log_std, r = code
        z = Gaussian(mean, log_std).draw(noise, _LATENT_STREAM)
        positions, size = pixel_positions(self.image_size, r.device), self.image_size
        made = [
            self.predict(positions.expand(len(some), -1, -1), some, features).mean
            for some, features in zip(self._parts(z), self._parts(r), strict=True)
        ]
        pixels = 2 * torch.cat(made)  # [B, H W, C], from [-0.5, 0.5] to [-1, 1]
        return pixels.clamp(-1, 1).transpose(1, 2).reshape(-1, self.channels, size, size)

    def _encode(self, pixels: Tensor, known: Tensor) -> Code:
        context = PointSet.of_images(pixels, known)
        q = self.latent(context)
        return q.mean, q.log_std, self.features(context, context.positions)

    def _parts(self, x: Tensor) -> tuple[Tensor, ...]:
        """Split a batch into parts that fit into memory."""
        parts: tuple[Tensor, ...] = x.split(max(1, _POINTS_AT_ONCE // self.config.pixels))
        return parts


class NeuralProcessLoss(CompleterLoss):
    """The negative evidence lower bound of the targets given the context.

    It is -log N(values of T; prediction with z ~ q(z | T)) + KL(q(z | T) || q(z | C)), summed over points, channels and
    dimensions of z, and averaged over the batch. The total is divided by the number of values of an image's targets, so
    that learning rates and limits of gradients suit all image sizes. The parts are nats per image, with densities of
    pixels in [-0.5, 0.5].
    """

    completer: NeuralProcess
    figures = ("log_likelihood_nats", "kl_nats")

    def __init__(self, completer: NeuralProcess) -> None:
        super().__init__()
        self.completer = completer

    def forward(self, x: Tensor, known: Tensor, noise: Noise) -> Losses:
        net = self.completer
        context, targets = self.choose_points(x, known, noise)
        q, prior = net.latent(targets), net.latent(context)
        z = q.draw(noise, _LATENT_STREAM)
        predicted = net.predict(targets.positions, z, net.features(context, targets.positions))
        with torch.autocast(x.device.type, enabled=False):
            log_likelihood = predicted.log_prob(targets.values.float()).flatten(1).sum(dim=1).mean()
            kl = q.total_kl_to(prior).mean()
            total = (kl - log_likelihood) / (targets.values.shape[1] * targets.values.shape[2])
        return Losses(total, {"log_likelihood_nats": log_likelihood.detach(), "kl_nats": kl.detach()})

    def choose_points(self, x: Tensor, known: Tensor, noise: Noise) -> tuple[PointSet, PointSet]:
        """Return the context and the targets of images: all pixels, or a random choice if the config limits them.

        The context has known pixels only. Limited targets are the context and a random choice of all other pixels.
        """
        config = self.completer.config
        points, seen = PointSet.of_images(x), known.flatten(1)  # seen: [B, H W]
        # The values of hidden pixels are zeroed before they are gathered, so that the context cannot contain them.
        context = PointSet.of_images(torch.where(known, x, 0.0), known)
        if config.most_context < config.pixels:
            keys = noise.normal(_CONTEXT_STREAM, seen.shape, x.device).masked_fill(~seen, -torch.inf)
            index = keys.topk(config.most_context, dim=1).indices
            valid = seen.gather(1, index)
            context = context.take(index, valid)
            seen = torch.zeros_like(seen).scatter(1, index, valid)  # the pixels of the context
        if config.most_targets == config.pixels:
            return context, points
        # New random numbers, because the known pixels that are not in the context had small ones.
        keys = noise.normal(_TARGET_STREAM, seen.shape, x.device).masked_fill(seen, torch.inf)
        return context, points.take(keys.topk(config.most_targets, dim=1).indices)


def pixel_positions(size: int, device: torch.device) -> Tensor:
    """Return the positions of all pixels in row-major order, [1, H W, 2]: (i - H / 2) / (H / 2) in row i."""
    place = torch.arange(size, device=device, dtype=torch.float32) * (2 / size) - 1
    return torch.cartesian_prod(place, place)[None]


def _mlp(*widths: int) -> nn.Sequential:
    """Make linear layers with these numbers of features, and a ReLU between two layers."""
    layers: list[nn.Module] = []
    for inputs, outputs in pairwise(widths):
        layers += [nn.ReLU()] * bool(layers) + [nn.Linear(inputs, outputs)]
    return nn.Sequential(*layers)


def _self_attention(blocks: Iterable[nn.Module], x: Tensor, valid: Tensor | None) -> Tensor:
    """Apply self-attention blocks to points [B, n, h]. Results of points that do not exist have no meaning."""
    attended = _attended(valid)
    for block in blocks:
        x = block(x, x, x, attended)
    return x


def _attended(valid: Tensor | None) -> Tensor | None:
    """Return which points are attended to, [B, 1, 1, n]: those that exist, or all points of an empty set.

    A softmax over nothing would be NaN, and so would its gradient. The results of an empty set are replaced later.
    """
    return None if valid is None else (valid | ~valid.any(dim=1, keepdim=True))[:, None, None]


def _mean(x: Tensor, valid: Tensor | None) -> Tensor:
    """Return the mean over the points that exist: [B, n, h] -> [B, h]. The mean of an empty set is 0."""
    if valid is None:
        return x.mean(dim=1)
    return torch.where(valid[..., None], x, 0.0).sum(dim=1) / valid.sum(dim=1, keepdim=True).clamp(min=1)
