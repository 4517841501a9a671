"""Tiny networks of VQ-VAE completion for its tests, and the networks of the paper."""

import functools
from typing import Any

import torch
from helpers.models import randomise
from torch import Tensor, nn

from condvae.completers.vector_quantised import TextureLoss, VectorQuantised, VectorQuantisedConfig

SIZE = 16
TINY: dict[str, Any] = {
    "image_size": SIZE,
    "codes": 12,
    "code_width": 6,
    "codes_width": 8,
    "structure_width": 6,
    "structure_blocks": 2,
    "structure_attentions": 1,
    "output_blocks": 1,
    "attention_heads": 2,
    "key_width": 3,
    "value_width": 4,
    "condition_width": 8,
    "condition_blocks": 2,
    "max_dilation": 2,
    "texture_width": 8,
    "critic_layers": 2,
}
PAPER: dict[str, Any] = {
    "image_size": 256,
    "bottom_halvings": 2,
    "codes": 512,
    "structure_width": 128,
    "structure_blocks": 20,
    "structure_attentions": 4,
    "output_blocks": 20,
    "attention_heads": 8,
    "value_width": 64,
    "condition_width": 256,
    "condition_blocks": 10,
    "max_dilation": 16,
    "texture_width": 64,
    "critic_layers": 6,
}


def tiny(*, seed: int = 0, **changes: Any) -> VectorQuantised:
    """A tiny completer in eval mode. All weights and biases are random, and images have many different codes."""
    torch.manual_seed(seed)
    model = VectorQuantised(VectorQuantisedConfig(**(TINY | changes)))
    randomise(model, seed)
    for book in (model.codes.top, model.codes.bottom):
        book.vectors.mul_(0.3)
    return model.eval()


@functools.cache
def paper() -> TextureLoss:
    """The paper's networks without values, with their discriminator."""
    with torch.device("meta"):
        return TextureLoss(VectorQuantised(VectorQuantisedConfig(**PAPER)))


def smooth_images(batch: int, *, size: int = SIZE, channels: int = 3, seed: int = 0) -> Tensor:
    """Smooth random images in [-1, 1]."""
    noise = torch.randn(batch, channels, 4, 4, generator=torch.Generator().manual_seed(seed))
    return nn.functional.interpolate(noise, size=(size, size), mode="bicubic", align_corners=True).tanh()


def count(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())
