"""VD-VAE and IPA in the style of public research code: the reference for every comparison in `speed.py`.

It runs eagerly, in float32 with torch's default settings and NCHW memory. Every posterior block concatenates state and
activation. Prior blocks always compute means, scales and features. The likelihood is always computed. A step draws its
holes one by one on the CPU, and waits for the loss and the gradient norm. y is encoded again for every sample. Nothing
here is computed by condvae.vdvae: only weights are copied from it, and tests compare both implementations.
"""

import copy
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from helpers.plain_freeform import candidate

from condvae.conditional import ConditionalVAE
from condvae.likelihood import LogisticMixture
from condvae.vdvae import VDVAE, Stage, VDVAEConfig

Objective: TypeAlias = Literal["elbo", "ipa", "ipa-r"]


class PlainBlock(nn.Module):
    """A block of four convolutions, with GELU before each."""

    def __init__(
        self, inputs: int, middle: int, outputs: int, resolution: int, residual: bool = False, down: int = 1
    ) -> None:
        super().__init__()
        kernel, padding = (3, 1) if resolution > 2 else (1, 0)
        self.residual, self.down = residual, down
        self.c1 = nn.Conv2d(inputs, middle, 1)
        self.c2 = nn.Conv2d(middle, middle, kernel, padding=padding)
        self.c3 = nn.Conv2d(middle, middle, kernel, padding=padding)
        self.c4 = nn.Conv2d(middle, outputs, 1)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.c1(F.gelu(x))
        y = self.c2(F.gelu(y))
        y = self.c3(F.gelu(y))
        y = self.c4(F.gelu(y))
        if self.residual:
            y = x + y
        return F.avg_pool2d(y, self.down) if self.down > 1 else y


class PlainEncoder(nn.Module):
    """An encoder that returns the last activation at each resolution."""

    def __init__(self, config: VDVAEConfig, channels: int) -> None:
        super().__init__()
        self.widths = {stage.resolution: stage.width for stage in config.stages}
        self.first = nn.Conv2d(channels, config.stages[0].width, 3, padding=1)
        self.blocks = nn.ModuleList()
        for i, stage in enumerate(config.stages):
            for position in range(stage.encoder_blocks):
                last = position == stage.encoder_blocks - 1 and i + 1 < len(config.stages)
                down = stage.resolution // config.stages[i + 1].resolution if last else 1
                self.blocks.append(PlainBlock(stage.width, stage.inner, stage.width, stage.resolution, True, down))

    def forward(self, x: Tensor) -> dict[int, Tensor]:
        x = self.first(x)
        activations = {x.shape[2]: x}
        for block in self.blocks:
            x = block(x)
            width = self.widths[x.shape[2]]
            if x.shape[1] < width:
                x = torch.cat((x, x.new_zeros(len(x), width - x.shape[1], *x.shape[2:])), dim=1)
            x = x[:, :width]
            activations[x.shape[2]] = x
        return activations


class PlainDecoderBlock(nn.Module):
    """All layers of one latent group: posterior, partial encoder's head, prior, projection and residual block."""

    def __init__(self, config: VDVAEConfig, stage: Stage, conditional: bool) -> None:
        super().__init__()
        width, inner, r, self.latents = stage.width, stage.inner, stage.resolution, config.latent_channels
        self.posterior = PlainBlock(2 * width, inner, 2 * self.latents, r)
        self.partial = PlainBlock(2 * width, inner, 2 * self.latents, r) if conditional else None
        self.prior = PlainBlock(width, inner, 2 * self.latents + width, r)
        self.projection = nn.Conv2d(self.latents, width, 1)
        self.residual = PlainBlock(width, inner, width, r, residual=True)

    def forward(
        self, h: Tensor, image: Tensor | None, partial: Tensor | None, noise: Tensor | None, *, from_partial: bool
    ) -> tuple[Tensor, Tensor]:
        """Return the next state, and each image's KL in nats, [B]. image, partial: activations of the encoders."""
        p_mean, p_log_std, feature = self.prior(h).split((self.latents, self.latents, h.shape[1]), dim=1)
        q = self.posterior(torch.cat((h, image), dim=1)).chunk(2, dim=1) if image is not None else None
        c = None
        if partial is not None:
            assert self.partial is not None
            c = self.partial(torch.cat((h, partial), dim=1)).chunk(2, dim=1)
        mean, log_std = (c if from_partial else q) or (p_mean, p_log_std)
        z = mean + log_std.exp() * (torch.randn_like(mean) if noise is None else noise)
        other_mean, other_log_std = c if c and not from_partial else (p_mean, p_log_std)
        h = self.residual(h + feature + self.projection(z))
        return h, plain_kl(mean, log_std, other_mean, other_log_std).sum(dim=(1, 2, 3))


class Result(NamedTuple):
    """The result of one pass through the network."""

    parameters: Tensor
    """Parameters of the pixels' distribution, [B, P, H, W]."""
    kl_nats: Tensor
    """KL of each of the L latent groups in nats, [B, L]."""


class PlainVAE(nn.Module):
    """Encoder, partial encoder and decoder in one module; images are [B, C, H, W] in [-1, 1]."""

    def __init__(self, config: VDVAEConfig, partial_channels: int | None = None) -> None:
        super().__init__()
        if config.scales != "log_std" or not isinstance(config.likelihood, LogisticMixture):
            raise ValueError("the reference needs a network with log-std outputs and a mixture of logistics")
        self.config, self.mixture = config, config.likelihood
        self.encoder = PlainEncoder(config, config.channels)
        self.partial_encoder = PlainEncoder(config, partial_channels) if partial_channels else None
        self.starts = nn.ParameterDict()
        self.blocks = nn.ModuleList()
        self.stages: list[Stage] = []
        for stage in config.decoder_stages:
            r, width = stage.resolution, stage.width
            if r <= config.largest_bias:
                self.starts[str(r)] = nn.Parameter(torch.zeros(1, width, r, r))
            for i in range(stage.decoder_blocks):
                latent = i < stage.groups
                self.blocks.append(
                    PlainDecoderBlock(config, stage, bool(partial_channels))
                    if latent
                    else PlainBlock(width, stage.inner, width, r, residual=True)
                )
                self.stages.append(stage)
        self.gain = nn.Parameter(torch.ones(1, stage.width, 1, 1))
        self.bias = nn.Parameter(torch.zeros(1, stage.width, 1, 1))
        self.output = nn.Conv2d(stage.width, config.likelihood.parameters_per_pixel, 1)

    def forward(
        self,
        x: Tensor | None = None,
        y: Tensor | None = None,
        *,
        noise: Sequence[Tensor] | None = None,
        from_partial: bool = False,
    ) -> Result:
        """Run the network.

        With x alone, z is drawn from q, and the KL is KL(q || p). With x and y, z is from q, and the KL is KL(q || c).
        With from_partial, z is from c, and the KL is KL(c || p).
        """
        image = self.encoder(self.normalise(x)) if x is not None else {}
        partial = self.partial_encoder(y) if y is not None and self.partial_encoder else {}
        given = x if x is not None else y
        assert given is not None
        h: Tensor | None = None
        kl: list[Tensor] = []
        for block, stage in zip(self.blocks, self.stages, strict=True):
            r = stage.resolution
            if h is None or h.shape[2] != r:
                start = given.new_zeros(len(given), stage.width, r, r)
                if str(r) in self.starts:
                    start = self.starts[str(r)].repeat(len(given), 1, 1, 1)
                h = start if h is None else start + F.interpolate(h[:, : stage.width], scale_factor=r // h.shape[2])
            if isinstance(block, PlainDecoderBlock):
                drawn = noise[len(kl)] if noise is not None else None
                h, group_kl = block(h, image.get(r), partial.get(r), drawn, from_partial=from_partial)
                kl.append(group_kl)
            else:
                h = block(h)
        assert h is not None
        return Result(self.output(h * self.gain + self.bias), torch.stack(kl, dim=1))

    def normalise(self, x: Tensor) -> Tensor:
        return ((x + 1) * 127.5 + self.config.normalisation.shift) * self.config.normalisation.scale

    def observe(self, x: Tensor, known: Tensor) -> Tensor:
        """Return the observation y = concat(x * known, known), for normalised x."""
        return torch.cat((self.normalise(x) * known, known), dim=1)

    def loss(
        self, objective: Objective, x: Tensor, known: Tensor | None = None, noise: Sequence[Tensor] | None = None
    ) -> Tensor:
        """Return the loss in nats per dimension, including the likelihood, as a mean over the batch.

        known: [B, 1, H, W], 1 where a pixel is known and 0 where it is hidden.
        """
        y = self.observe(x, known) if known is not None else None
        if objective == "ipa-r":
            parameters, kl = self(None, y, noise=noise, from_partial=True)
        else:
            parameters, kl = self(x, y, noise=noise)
        log_prob = plain_log_prob(self.mixture, parameters, x)
        if known is not None:
            log_prob = log_prob * (known if objective == "ipa-r" else 1 - known)[:, 0]
        total: Tensor = (kl.sum(dim=1) - log_prob.sum(dim=(1, 2))).mean() / self.config.image_dims
        return total

    @torch.no_grad()
    def complete(self, y: Tensor, n: int) -> Tensor:
        """Return n samples [n, C, H, W] uint8. The observation y [1, Cy, H, W] is repeated, and encoded n times."""
        parameters = self(None, y.repeat(n, 1, 1, 1), from_partial=True).parameters
        images = plain_sample(self.mixture, parameters)
        return ((images + 1) * 127.5).round().clamp(0, 255).to(torch.uint8)


def plain_kl(mean: Tensor, log_std: Tensor, other_mean: Tensor, other_log_std: Tensor) -> Tensor:
    ratio = (log_std.exp() ** 2 + (mean - other_mean) ** 2) / (other_log_std.exp() ** 2)
    return -0.5 + other_log_std - log_std + 0.5 * ratio


def _components(mixture: LogisticMixture, parameters: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return K components: log-weights [B, H, W, K], and means, log-scales and coefficients, each [B, H, W, 3, K]."""
    k = mixture.components
    last = parameters.permute(0, 2, 3, 1)
    rest = last[..., k:].reshape(*last.shape[:3], 3, 3 * k)
    log_scales, coefficients = rest[..., k : 2 * k].clamp(min=-7.0), torch.tanh(rest[..., 2 * k :])
    return F.log_softmax(last[..., :k], dim=-1), rest[..., :k], log_scales, coefficients


def plain_log_prob(mixture: LogisticMixture, parameters: Tensor, x: Tensor) -> Tensor:
    """Return the log-probability of each pixel of colour images, [B, H, W]."""
    log_weights, means, log_scales, coefficients = _components(mixture, parameters)
    x = ((x + 1) * 127.5).round()
    if mixture.bits == 5:
        x = torch.floor(x / 8) * 8
    x = (x / 127.5 - 1).permute(0, 2, 3, 1).unsqueeze(-1).repeat(1, 1, 1, 1, mixture.components)
    red, green = x[..., 0, :], x[..., 1, :]
    green_mean = means[..., 1, :] + coefficients[..., 0, :] * red
    blue_mean = means[..., 2, :] + coefficients[..., 1, :] * red + coefficients[..., 2, :] * green
    means = torch.stack((means[..., 0, :], green_mean, blue_mean), dim=3)
    half, middle = mixture.half_bin, x - means
    inverse = torch.exp(-log_scales)
    upper, lower, middle = inverse * (middle + half), inverse * (middle - half), inverse * middle
    mass = torch.sigmoid(upper) - torch.sigmoid(lower)
    density = middle - log_scales - 2 * F.softplus(middle) - math.log((mixture.levels - 1) / 2)
    log_mass = torch.where(mass > 1e-5, mass.clamp(min=1e-12).log(), density)
    log_mass = torch.where(x > 0.999, -F.softplus(lower), log_mass)
    log_mass = torch.where(x < -0.999, upper - F.softplus(upper), log_mass)
    return torch.logsumexp(log_mass.sum(dim=3) + log_weights, dim=-1)


def plain_sample(mixture: LogisticMixture, parameters: Tensor) -> Tensor:
    """Draw colour images [B, 3, H, W] in [-1, 1]."""
    log_weights, means, log_scales, coefficients = _components(mixture, parameters)
    gumbel = -torch.log(-torch.log(torch.empty_like(log_weights).uniform_(1e-5, 1 - 1e-5)))
    chosen = F.one_hot((log_weights + gumbel).argmax(dim=-1), mixture.components).to(means.dtype).unsqueeze(3)
    mean, log_scale, coefficient = ((part * chosen).sum(dim=-1) for part in (means, log_scales, coefficients))
    u = torch.empty_like(mean).uniform_(1e-5, 1 - 1e-5)
    x = mean + torch.exp(log_scale) * (torch.log(u) - torch.log(1 - u))
    red = x[..., 0].clamp(-1, 1)
    green = (x[..., 1] + coefficient[..., 0] * red).clamp(-1, 1)
    blue = (x[..., 2] + coefficient[..., 1] * red + coefficient[..., 2] * green).clamp(-1, 1)
    return torch.stack((red, green, blue), dim=1)


def plain_known(rng: np.random.Generator, batch: int, size: int) -> Tensor:
    """Draw freeform holes one by one: [batch, 1, size, size], 1 where a pixel is known and 0 where it is hidden.

    Holes that hide no pixel or all pixels are drawn again.
    """
    drawn: list[Tensor] = []
    while len(drawn) < batch:
        known = candidate(rng, size, low=0.0, high=1.0)
        if 0 < 1 - known.mean() < 1:
            drawn.append(torch.from_numpy(known.astype(np.float32))[None])
    return torch.stack(drawn)


class PlainTraining:
    """The training step of public code. Unlike public code, it keeps no moving average of frozen weights."""

    def __init__(self, model: PlainVAE, objective: Objective, *, lr: float, skip_above: float, seed: int = 0) -> None:
        self.model, self.objective, self.skip_above = model, objective, skip_above
        if objective != "elbo":
            model.requires_grad_(False)
            assert model.partial_encoder is not None
            model.partial_encoder.requires_grad_(True)
            for block in model.blocks:
                if isinstance(block, PlainDecoderBlock) and block.partial is not None:
                    block.partial.requires_grad_(True)
        self.trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
        self.average = [copy.deepcopy(parameter.data) for parameter in self.trained]
        self.optimiser = torch.optim.AdamW(self.trained, lr=lr, betas=(0.9, 0.9), weight_decay=0.01)
        self.rng = np.random.default_rng(seed)

    def __call__(self, levels: Tensor) -> float:
        """Do one step on images [B, C, H, W] uint8; return the loss."""
        x = levels.float() / 127.5 - 1
        known = None
        if self.objective != "elbo":
            known = plain_known(self.rng, len(x), x.shape[2]).to(x.device)
        self.model.zero_grad()
        loss = self.model.loss(self.objective, x, known)
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(self.trained, 200.0).item()
        value = loss.item()
        if math.isfinite(value) and norm < self.skip_above:
            self.optimiser.step()
            with torch.no_grad():
                for average, parameter in zip(self.average, self.trained, strict=True):
                    average.mul_(0.9999).add_(parameter, alpha=1 - 0.9999)
        return value


@torch.no_grad()
def plain_copy(model: VDVAE | ConditionalVAE) -> PlainVAE:
    """Return a reference network with the same architecture and weights as the model."""
    vae = model.artifact if isinstance(model, ConditionalVAE) else model
    partial = model.partial if isinstance(model, ConditionalVAE) else None
    if partial is not None and partial.relative:
        raise ValueError("the reference has no relative partial encoder: give a model with the form 'direct'")
    weight = vae.decoder.gain
    plain = PlainVAE(vae.config, partial.channels if partial else None).to(weight.device, weight.dtype)
    pairs: list[tuple[nn.Module, nn.Module]] = [(plain.output, vae.decoder.output)]
    for mine, theirs in ((plain.encoder, vae.encoder), (plain.partial_encoder, partial)):
        if mine is not None and theirs is not None:
            pairs += [(mine.first, theirs.pyramid.input), (mine.blocks, theirs.pyramid.blocks)]
    latent = [block for block in plain.blocks if isinstance(block, PlainDecoderBlock)]
    for group, block in enumerate(latent):
        pairs.append((block.posterior, vae.encoder.heads[group]))
        if block.partial is not None and partial is not None:
            pairs.append((block.partial, partial.heads[group]))
    for mine_block, their_block in zip(plain.blocks, vae.decoder.blocks, strict=True):
        if isinstance(mine_block, PlainDecoderBlock):
            for name in ("prior", "projection", "residual"):
                pairs.append((getattr(mine_block, name), getattr(their_block, name)))
        else:
            pairs.append((mine_block, their_block))
    for to, source in pairs:
        to.load_state_dict(source.state_dict())
    for r, start in vae.decoder.starts.items():
        plain.starts[r].copy_(start)
    plain.gain.copy_(vae.decoder.gain)
    plain.bias.copy_(vae.decoder.bias)
    return plain
