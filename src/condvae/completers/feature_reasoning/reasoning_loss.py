"""The losses of Recurrent Feature Reasoning (Li et al. 2020): absolute errors, perceptual loss and style loss.

The perceptual and the style loss (Johnson et al. 2016, Gatys et al. 2016) compare feature maps of a pretrained VGG16.
That network is an argument here, and is no part of the loss: it is neither trained nor saved.
"""

from collections.abc import Callable, Sequence
from typing import TypeAlias

import torch
from torch import Tensor

from condvae.completers.feature_reasoning.reasoning_network import FeatureReasoning
from condvae.completers.learned_completer import CompleterLoss, Losses
from condvae.noise import Noise

PerceptualFeatures: TypeAlias = Callable[[Tensor], Sequence[Tensor]]
"""Maps images [B, 3, H, W] in [0, 1] to feature maps [B, C, h, w]: the outputs of the first three poolings of VGG16.
ImageNet normalisation is not applied to the images. The weights are frozen, and gradients pass through."""


class FeatureReasoningLoss(CompleterLoss):
    """The loss: a weighted sum of four terms, with pixels in [0, 1]. The weights are in the config.

    hole, valid: the mean over all pixels of |completion - x|, with zeros outside the hole or inside it.
    perceptual, style: distances of feature maps, for the completion itself and for the one with known pixels pasted in.
    """

    completer: FeatureReasoning
    figures = ("hole", "valid", "perceptual", "style")

    def __init__(self, completer: FeatureReasoning, features: PerceptualFeatures | None = None) -> None:
        super().__init__()
        if completer.config.needs_features and features is None:
            raise ValueError(
                "the perceptual and the style loss need a feature network: give one, or set perceptual_weight and "
                "style_weight to 0"
            )
        self.completer = completer
        self._features = (features,)  # in a tuple, because torch would register a module as a part of the loss

    def forward(self, x: Tensor, known: Tensor, noise: Noise) -> Losses:
        (completion,) = self.completer.encode(torch.where(known, x, 0.0), known)
        completion, x = (completion + 1) / 2, (x.float() + 1) / 2
        error = (completion - x).abs()
        hole = torch.where(known, 0.0, error).mean()
        valid = torch.where(known, error, 0.0).mean()
        config = self.completer.config
        total = config.hole_weight * hole + config.valid_weight * valid
        perceptual = style = torch.zeros_like(hole)
        if config.needs_features:
            perceptual, style = self._feature_losses(completion, x, known)
            total = total + config.perceptual_weight * perceptual + config.style_weight * style
        parts = {"hole": hole, "valid": valid, "perceptual": perceptual, "style": style}
        return Losses(total, {name: part.detach() for name, part in parts.items()})

    def _feature_losses(self, completion: Tensor, x: Tensor, known: Tensor) -> tuple[Tensor, Tensor]:
        """Return the perceptual and the style loss. completion, x: [B, C, H, W] in [0, 1]."""
        (features,) = self._features
        assert features is not None
        pasted = torch.where(known, x, completion)
        made = features(_three_channels(torch.cat((completion, pasted))))
        with torch.no_grad():
            true = features(_three_channels(x))
        perceptual = style = torch.zeros_like(completion[0, 0, 0, 0])
        with torch.autocast(x.device.type, enabled=False):
            for some, target in zip(made, true, strict=True):
                target_gram = gram(target)
                for one in some.chunk(2):  # the completion, then the pasted one
                    perceptual = perceptual + (one.float() - target.float()).abs().mean()
                    style = style + (gram(one) - target_gram).abs().mean()
        return perceptual, style


def gram(features: Tensor) -> Tensor:
    """Return the Gram matrices F F^T / (C H W) in float32, [B, C, C]. features: [B, C, H, W]."""
    # Sums over all positions are large, and the loss compares them: bfloat16 is too coarse.
    with torch.autocast(features.device.type, enabled=False):
        f = features.float().flatten(2)
        return f @ f.transpose(1, 2) / f[0].numel()


def _three_channels(images: Tensor) -> Tensor:
    """Repeat grey images as three equal channels."""
    return images.expand(-1, 3, -1, -1)
