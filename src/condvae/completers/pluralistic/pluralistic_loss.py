"""The loss of Pluralistic Image Completion (Zheng et al. 2019), and its discriminators.

p is the posterior given the hidden pixels, q the prior given the visible pixels, and m is 1 where a pixel is visible:

    (D(x_gen) - 1)^2 + (D_rec(x_rec) - D_rec(x))^2
    + reconstruction_weight * sum over scales of [|x_rec - x| + |m x_gen - m x|]
    + kl_weight * scales * [KL(N(0, s^2) || p) + KL(sg(p) || q)]

All terms are means over their elements. sg stops the gradient, and s depends on the visible part of the image.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from condvae.completers.learned_completer import CompleterLoss, Losses, without_gradients
from condvae.completers.pluralistic.pluralistic_blocks import (
    SharedAttention,
    SpectralPyramid,
    SpectralResidual,
    activation,
)
from condvae.completers.pluralistic.pluralistic_network import Paths, Pluralistic, PluralisticConfig, known_area
from condvae.completers.spectral_norm import normalised_together, spectral_norm
from condvae.gaussian import Gaussian
from condvae.noise import Noise


class PluralisticDiscriminator(nn.Module):
    """A map of scores, each for a part of the image. Its trunk is like the encoder, with a layer of self-attention."""

    def __init__(self, config: PluralisticConfig) -> None:
        super().__init__()
        last = config.widths[-1]
        self.attention_level = config.attention_level
        self.pyramid = SpectralPyramid(config.channels, config.widths)
        self.attention = SharedAttention(config.widths[config.attention_level])
        self.residual = SpectralResidual(last, last)
        self.output = spectral_norm(nn.Conv2d(last, 1, 3))  # no padding

    def forward(self, x: Tensor) -> Tensor:
        """Return scores [B, 1, latent_size - 2, latent_size - 2] in float32. x: images [B, C, H, W] in [-1, 1]."""
        for level, block in enumerate(self.pyramid.blocks):
            x = block(x)
            if level == self.attention_level:
                x = self.attention(x)
        scores: Tensor = self.output(activation(self.residual(x)))
        return scores.to(self.attention.gamma.dtype)


class PluralisticLoss(CompleterLoss):
    """The losses of the completer and of its two discriminators.

    The critic's "generated" discriminator D judges completions with latents from the prior; its "reconstructed"
    discriminator D_rec judges reconstructions with latents from the posterior. Both see uncomposited images.
    """

    completer: Pluralistic
    critic: nn.ModuleDict | None
    critic_figures = ("generated", "reconstructed")

    def __init__(self, completer: Pluralistic) -> None:
        super().__init__()
        config = completer.config
        self.completer = completer
        self.critic = None
        self.figures = ("reconstruction_l1", "visible_l1", "posterior_kl_nats", "prior_kl_nats")
        if config.adversarial:
            self.figures += ("adversarial", "score_difference")
            self.critic = nn.ModuleDict(
                {name: PluralisticDiscriminator(config) for name in ("generated", "reconstructed")}
            )

    def forward(self, x: Tensor, known: Tensor, noise: Noise) -> Losses:
        config = self.completer.config
        with normalised_together(self.completer):
            paths = self.completer.paths(x, known, noise)
        with torch.autocast(x.device.type, enabled=False):
            l1, kl = _l1(paths, x, known), _kl(paths, known)
            total = config.reconstruction_weight * torch.stack(list(l1.values())).sum()
            total = total + config.kl_weight * config.output_scales * torch.stack(list(kl.values())).sum()
        parts = {**l1, **kl}
        if self.critic is not None:
            with without_gradients(self.critic), normalised_together(self.critic):
                judged = self.critic["generated"](paths.generated[-1])
                mine, real = self.critic["reconstructed"](torch.cat((paths.reconstructed[-1].to(x.dtype), x))).chunk(2)
            parts["adversarial"] = (judged - 1).square().mean()
            parts["score_difference"] = (mine - real).square().mean()
            total = total + parts["adversarial"] + parts["score_difference"]
        return Losses(total, {name: part.detach() for name, part in parts.items()})

    def critic_loss(self, x: Tensor, known: Tensor, noise: Noise) -> Losses:
        """Return the sum over both discriminators of 1/2 [(D(x) - 1)^2 + D(x')^2] for images x' of the completer."""
        if self.critic is None:
            raise ValueError("this loss has no discriminators: set adversarial in the configuration to train them")
        with torch.no_grad(), normalised_together(self.completer):
            paths = self.completer.paths(x, known, noise)
        parts: dict[str, Tensor] = {}
        with normalised_together(self.critic):
            for name, images in (("generated", paths.generated), ("reconstructed", paths.reconstructed)):
                real, made = self.critic[name](torch.cat((x, images[-1].to(x.dtype)))).chunk(2)
                parts[name] = ((real - 1).square().mean() + made.square().mean()) / 2
        total = torch.stack(list(parts.values())).sum()
        return Losses(total, {name: part.detach() for name, part in parts.items()})


def fixed_std(known: Tensor) -> Tensor:
    """Return the standard deviation of the fixed prior of p for each image, [B, 1, 1, 1].

    s(v) = 1 / (1 + exp(8 (v - 0.8))) for the visible part v of an image: small holes need little variation.
    """
    v = known.float().mean(dim=(1, 2, 3), keepdim=True)
    return torch.sigmoid(8 * (0.8 - v))


def _l1(paths: Paths, x: Tensor, known: Tensor) -> dict[str, Tensor]:
    """Return the L1 losses, summed over scales. A coarse image is compared with averages of the pixels of x."""
    whole, visible = [], []
    for reconstructed, generated in zip(paths.reconstructed, paths.generated, strict=True):
        size = generated.shape[-1]
        target = F.avg_pool2d(x, x.shape[-1] // size)
        area = known_area(known, size, x.dtype)
        whole.append((reconstructed.to(x.dtype) - target).abs().mean())
        visible.append((area * (generated.to(x.dtype) - target)).abs().mean())
    return {"reconstruction_l1": torch.stack(whole).sum(), "visible_l1": torch.stack(visible).sum()}


def _kl(paths: Paths, known: Tensor) -> dict[str, Tensor]:
    """Return the means over all latents of KL(N(0, s^2) || p) and KL(sg(p) || q), in nats."""
    mean, log_std = paths.posterior
    fixed = Gaussian(torch.zeros_like(mean), fixed_std(known).log().to(log_std.dtype).expand_as(log_std))
    stopped = Gaussian(mean.detach(), log_std.detach())
    return {
        "posterior_kl_nats": fixed.kl_to(paths.posterior).mean(),
        "prior_kl_nats": stopped.kl_to(paths.prior).mean(),
    }
