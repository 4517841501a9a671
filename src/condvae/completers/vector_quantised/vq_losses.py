"""The losses of VQ-VAE completion (Peng et al. 2021). Its three stages are trained one after another.

Each loss trains one part of the completer and freezes the other two: neither their weights nor their buffers change.

    codes:      |x' - x|^2 + commitment_weight * (commitment of top codes + commitment of bottom codes)
    structure:  -log p(top codes | observation), per code
    texture:    |x' - x| + adversarial_weight * -D(completion) + code_weight * (-log p of the true top and bottom codes)
"""

from collections.abc import Callable, Mapping

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from condvae.completers.learned_completer import CompleterLoss, Losses, without_gradients
from condvae.completers.spectral_norm import normalised_together
from condvae.completers.vector_quantised.texture_network import TextureDiscriminator
from condvae.completers.vector_quantised.vq_codes import Codebook, perplexity
from condvae.completers.vector_quantised.vq_completer import VectorQuantised
from condvae.noise import Noise
from condvae.runtime.checks import check_choice

_TOP_RESTART_STREAM, _BOTTOM_RESTART_STREAM = 1, 2
"""Streams of random numbers that choose the vectors at which dead codes restart."""
_CODE_SHARPNESS = 10.0
"""The factor of the logits with which images are classified into codes."""


class CodesLoss(CompleterLoss):
    """Stage 1: the autoencoder reconstructs whole images. In training mode, it also updates the codebooks."""

    completer: VectorQuantised
    completes = False
    figures = ("squared_error", "top_commitment", "bottom_commitment", "top_perplexity", "bottom_perplexity")

    def __init__(self, completer: VectorQuantised) -> None:
        super().__init__()
        self.completer = _trained_in(completer, completer.codes)

    def forward(self, x: Tensor, known: Tensor, noise: Noise) -> Losses:
        network = self.completer.codes
        top, bottom = network.encode(x)
        made = network.decode(top.quantised, bottom.quantised)
        parts = {"squared_error": (made.float() - x).square().mean()}
        books = {
            "top": (network.top, top, _TOP_RESTART_STREAM),
            "bottom": (network.bottom, bottom, _BOTTOM_RESTART_STREAM),
        }
        for name, (_, coded, _) in books.items():
            parts[f"{name}_commitment"] = (coded.z - coded.quantised.detach()).square().mean()
        commitment = parts["top_commitment"] + parts["bottom_commitment"]
        total = parts["squared_error"] + self.completer.config.commitment_weight * commitment
        for name, (book, coded, stream) in books.items():
            parts[f"{name}_perplexity"] = perplexity(coded.codes, self.completer.config.codes)
            if self.training:
                book.learn(coded.z.detach(), coded.codes, noise, stream)
        return Losses(total, _detached(parts))


class StructureLoss(CompleterLoss):
    """Stage 2: the distribution of the top codes of the whole image, given the observation."""

    completer: VectorQuantised
    completes = False
    figures = ("code_nats", "accuracy")

    def __init__(self, completer: VectorQuantised) -> None:
        super().__init__()
        self.completer = _trained_in(completer, completer.structure)

    def forward(self, x: Tensor, known: Tensor, noise: Noise) -> Losses:
        network = self.completer.codes
        codes = network.top_codes(x)
        logits = self.completer.structure(x, known, network.top.look_up(codes), noise)
        with torch.autocast(x.device.type, enabled=False):
            nats = F.cross_entropy(logits, codes)
        accuracy = (logits.detach().argmax(dim=1) == codes).float().mean()
        return Losses(nats, {"code_nats": nats.detach(), "accuracy": accuracy})


class TextureLoss(CompleterLoss):
    """Stage 3: the image given the observation and the true top codes, with a discriminator."""

    completer: VectorQuantised
    critic: TextureDiscriminator
    figures = ("l1", "adversarial", "top_code_nats", "bottom_code_nats")
    critic_figures = ("real", "fake")

    def __init__(self, completer: VectorQuantised) -> None:
        super().__init__()
        self.completer = _trained_in(completer, completer.texture)
        self.critic = TextureDiscriminator(completer.config)

    def forward(self, x: Tensor, known: Tensor, noise: Noise) -> Losses:
        config, network = self.completer.config, self.completer.codes
        with torch.no_grad():
            true_top, true_bottom = network.encode(x)
        made = self._made(x, known, true_top.codes)
        completion = torch.where(known, x, made)
        with without_gradients(self.critic), normalised_together(self.critic):
            adversarial = -self.critic(completion, known).mean()
        top, bottom = network.encode(completion)
        parts = {
            "l1": (made - x).abs().mean(),
            "adversarial": adversarial,
            "top_code_nats": code_nats(network.top, top.z, true_top.codes),
            "bottom_code_nats": code_nats(network.bottom, bottom.z, true_bottom.codes),
        }
        total = parts["l1"] + config.adversarial_weight * adversarial
        total = total + config.code_weight * (parts["top_code_nats"] + parts["bottom_code_nats"])
        return Losses(total, _detached(parts))

    def critic_loss(self, x: Tensor, known: Tensor, noise: Noise) -> Losses:
        """Return the hinge loss 1/2 max(0, 1 - D(x)) + 1/2 max(0, 1 + D(completion))."""
        with torch.no_grad():
            made = self._made(x, known, self.completer.codes.top_codes(x))
        images = torch.cat((x, torch.where(known, x, made)))
        with normalised_together(self.critic):
            on_real, on_fake = self.critic(images, torch.cat((known, known))).chunk(2)
        parts = {"real": F.relu(1 - on_real).mean() / 2, "fake": F.relu(1 + on_fake).mean() / 2}
        return Losses(parts["real"] + parts["fake"], _detached(parts))

    def _made(self, x: Tensor, known: Tensor, codes: Tensor) -> Tensor:
        """Return whole images of the generator in float32. x: whole images, of which it sees only known pixels."""
        texture = self.completer.texture
        image: Tensor = texture(texture.visible(x, known), codes, self.completer.codes.top.vectors)
        return image.to(x.dtype)


def stage_loss(completer: VectorQuantised, stage: str) -> CompleterLoss:
    """Return the loss of a stage of training, one of `learned_names.STAGES`. It freezes all other parts."""
    check_choice(stage, "the stage", tuple(_LOSSES))
    return _LOSSES[stage](completer)


def code_nats(book: Codebook, z: Tensor, codes: Tensor) -> Tensor:
    """Return the mean of -log p(code) for vectors z [B, d, H, W], where p = softmax(-10 tanh(d)).

    d is the squared distance to each code, standardised over all codes. codes: the true ones, int64 [B, H, W].
    """
    distances = book.squared_distances(z)
    with torch.autocast(z.device.type, enabled=False):
        variance, mean = torch.var_mean(distances, dim=-1, correction=0, keepdim=True)
        logits = -_CODE_SHARPNESS * torch.tanh((distances - mean) / (variance + 1e-12).sqrt())
        return F.cross_entropy(logits.flatten(0, -2), codes.flatten())


def _trained_in(completer: VectorQuantised, part: nn.Module) -> VectorQuantised:
    """Freeze all weights of a completer except for those of one part."""
    completer.requires_grad_(False)
    part.requires_grad_(True)
    return completer


def _detached(parts: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: part.detach() for name, part in parts.items()}


_LOSSES: Mapping[str, Callable[[VectorQuantised], CompleterLoss]] = {
    "codes": CodesLoss,
    "structure": StructureLoss,
    "texture": TextureLoss,
}
