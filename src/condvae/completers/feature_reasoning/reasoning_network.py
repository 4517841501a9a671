"""Recurrent Feature Reasoning (Li et al. 2020): a network that fills the hole of an image from its border inwards.

Reimplements "Recurrent Feature Reasoning for Image Inpainting" (Li, Wang, Zhang, Du, Tao; CVPR 2020). Features at half
the resolution of the image go through rounds of the same layers. Every round extends the known region by a few pixels,
and computes the features there with an encoder-decoder that has attention. The mean of the features of all rounds then
becomes the image.

The number of rounds is fixed, so that all batches run the same operations. Each image takes only the rounds that it
needs: after its features are known everywhere, or if a round did not extend them, further rounds leave it unchanged.
"""

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from condvae.completers.feature_reasoning.partial_convolution import HoleShrinking, PartialHead, PartialStem, growth
from condvae.completers.learned_completer import BaselineConfig, Code, LearnedCompleter, batch_norm
from condvae.completers.learned_names import LEARNED_TITLES
from condvae.noise import Noise
from condvae.runtime.checks import check_choice, check_number, check_whole, whole_numbers
from condvae.runtime.messages import shown


@dataclass(frozen=True, kw_only=True)
class FeatureReasoningConfig(BaselineConfig):
    """Configuration of Recurrent Feature Reasoning. The defaults suit images of 32 x 32.

    The paper's configuration is the preset rfr-paper.
    """

    widths: tuple[int, int, int, int] = (32, 64, 128, 256)
    """Number of channels outside the module, then in its three levels."""
    kernels: tuple[int, int] = (5, 3)
    """Kernel sizes of the two partial convolutions in the stem, and of the two in every round."""
    strides: int = 2
    """How many levels of the module halve the resolution. With fewer than 3, the first levels keep it. Images of
    64 x 64 and larger should use 3."""
    head_width: int = 32
    """Number of channels in the last layers, at the full resolution."""
    hole_weight: float = 6.0
    """Weight of the mean absolute error in the hole."""
    valid_weight: float = 1.0
    """Weight of the mean absolute error at known pixels."""
    perceptual_weight: float = 0.1
    """Weight of the distance between VGG16 features. Needs those features; 0 turns it off."""
    style_weight: float = 180.0
    """Weight of the distance between Gram matrices of VGG16 features. Needs those features; 0 turns it off."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, length, least in (("widths", 4, 1), ("kernels", 2, 3)):
            object.__setattr__(self, name, whole_numbers(getattr(self, name), name, least=least, count=length))
        if any(kernel % 2 == 0 for kernel in self.kernels):
            raise ValueError(f"kernels is {shown(self.kernels)}, expected odd numbers")
        check_choice(self.strides, "strides", (1, 2, 3))
        check_whole(self.head_width, "head_width", least=4)
        if self.head_width % 4:
            raise ValueError(f"head_width is {self.head_width}, expected a multiple of 4")
        if self.image_size % 2 ** (self.strides + 1):
            raise ValueError(
                f"the image size is {self.image_size}, but with {self.strides} strides it has to be a multiple of "
                f"{2 ** (self.strides + 1)}"
            )
        for name in ("hole_weight", "valid_weight", "perceptual_weight", "style_weight"):
            check_number(getattr(self, name), name, least=0)

    @property
    def needs_features(self) -> bool:
        return self.perceptual_weight > 0 or self.style_weight > 0

    @property
    def rounds(self) -> int:
        """Number of rounds that fill any hole, if at least one pixel of the image is known."""
        return math.ceil(self.image_size // 2 / growth(self.kernels))


class ConsistentAttention(nn.Module):
    """Attention among the positions of a feature map, whose weights are blended with those of the previous round."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.blend = nn.Parameter(torch.ones(1))  # lambda of the paper
        self.merge = nn.Conv2d(2 * width, width, 1)

    def forward(self, x: Tensor, before: Tensor | None, known_before: Tensor) -> tuple[Tensor, Tensor]:
        """Attend. Returns [B, width, h, w] and the weights [B, h w, h w].

        before: the weights of the previous round, or None in the first. known_before: [B, 1, h, w], where the features
        of the previous round are known.
        """
        with torch.autocast(x.device.type, enabled=False):  # scores are large, so bfloat16 would blur the softmax
            sources = F.normalize(x.float(), dim=1, eps=1e-4)
            weights = self.weights(x.float(), sources, before, known_before)
            attended = (sources.flatten(2) @ weights.transpose(1, 2)).view_as(sources)
        y: Tensor = self.merge(torch.cat((x, attended.to(x.dtype)), dim=1))
        return y, weights

    def weights(self, x: Tensor, sources: Tensor, before: Tensor | None, known_before: Tensor) -> Tensor:
        """Return the weights [B, positions, sources] of every position. x, sources: [B, width, h, w] float32.

        The score of position i and source j is the sum of <x_i', n_j> over the 3x3 positions i' around i. It is linear
        in x, so x can be summed first, which is cheaper than summing scores.
        """
        around = F.avg_pool2d(x, 3, stride=1, padding=1, divisor_override=1)
        new = (around.flatten(2).transpose(1, 2) @ sources.flatten(2)).softmax(dim=2)
        if before is None:
            return new
        # (before known + |lambda| new) / (known + |lambda|), written as a convex combination
        known = known_before.flatten(1)[:, :, None]
        share = known / (known + self.blend.float().abs()).clamp(min=1e-8)
        return torch.lerp(new, before, share)


class ReasoningModule(nn.Module):
    """The second part of a round: an encoder-decoder with skip connections, dilated convolutions and attention."""

    def __init__(self, widths: tuple[int, int, int, int], strides: int) -> None:
        super().__init__()
        base, *levels = widths
        deepest = levels[-1]
        steps = [2 if level >= len(levels) - strides else 1 for level in range(len(levels))]
        self.known_step = math.prod(steps[:-1])
        """The features on which attention works are this many times coarser than the input."""
        inputs = [base, *levels[:-1]]
        self.down = nn.ModuleList(_downwards(*sizes) for sizes in zip(inputs, levels, steps, strict=True))
        self.deep = nn.ModuleList(_downwards(deepest, deepest, 1, dilation=2) for _ in range(3))
        self.shallow = nn.ModuleList(_upwards(2 * deepest, deepest, 1, dilation=2) for _ in range(2))
        first, second, third = levels
        self.up = nn.ModuleList(
            (  # from the coarsest level to the finest; the inputs include the skip connection
                _upwards(2 * third, third, steps[2]),
                _upwards(third + second, second, steps[1]),
                _upwards(second + first, base, steps[0]),
            )
        )
        self.attention = ConsistentAttention(third)

    def forward(self, x: Tensor, before: Tensor | None, known_before: Tensor) -> tuple[Tensor, Tensor]:
        """Map [B, base, h, w] to features of the same shape and the weights of attention.

        before and known_before [B, 1, h, w] describe the previous round, as in `ConsistentAttention`.
        """
        skips = []
        for layer in (*self.down, *self.deep):
            x = layer(x)
            skips.append(x)
        x = skips.pop()
        for layer in self.shallow:
            x = layer(torch.cat((x, skips.pop()), dim=1))
        x = self.up[0](torch.cat((x, skips.pop()), dim=1))
        coarse = known_before[..., :: self.known_step, :: self.known_step]
        x, weights = self.attention(x, before, coarse)
        for layer in self.up[1:]:
            x = layer(torch.cat((x, skips.pop()), dim=1))
        return x, weights


class FeatureReasoning(LearnedCompleter):
    """The network of Recurrent Feature Reasoning. It works with pixels in [0, 1], and always gives the same result."""

    kind: ClassVar[str] = "rfr"
    title: ClassVar[str] = LEARNED_TITLES["rfr"]
    varies: ClassVar[bool] = False
    config: FeatureReasoningConfig

    def __init__(self, config: FeatureReasoningConfig) -> None:
        super().__init__(config)
        base = config.widths[0]
        self.stem = PartialStem(config.channels, base, config.kernels)
        self.shrink = HoleShrinking(base, config.kernels)
        self.encoder_decoder = ReasoningModule(config.widths, config.strides)
        self.head = PartialHead(base, config.head_width, config.channels)

    def encode(self, pixels: Tensor, known: Tensor) -> Code:
        """Compute the completed image, which is the whole code: [B, C, H, W] float32 in about [-1, 1]."""
        image = torch.where(known, (pixels + 1) / 2, 0.0)
        seen = known.float()
        features, features_known = self.reason(*self.stem(image, seen))
        return (self.head(features, features_known, image, seen).float() * 2 - 1,)

    def decode(self, code: Code, noise: Noise) -> Tensor:
        return code[0]

    def reason(self, features: Tensor, known: Tensor) -> tuple[Tensor, Tensor]:
        """Run all rounds. features: [B, base, h, w]. known: [B, 1, h, w] float32, 1 where the features are known.

        Returns the mean over the rounds t of features_t, where known_t, and the last known. Round 0 is the input.
        """
        # Every image takes the first round, because only the rounds contain the module.
        active = torch.ones_like(known[:, :, :1, :1], dtype=torch.bool)
        total, count, weights = features.float() * known, known, None
        for _ in range(self.config.rounds):
            if self._may_stop(active):
                break
            new, now_known = self.shrink(features, known)
            new, weights = self.encoder_decoder(new, weights, known)
            new = new * now_known.to(new.dtype)
            total = total + torch.where(active, new.float(), 0.0)
            count = count + torch.where(active, now_known, 0.0)
            # An image that is complete keeps its features: else they would drift, and BatchNorm would see that.
            features = torch.where(active, new, features)
            grew = now_known.sum(dim=(1, 2, 3), keepdim=True) > known.sum(dim=(1, 2, 3), keepdim=True)
            active = active & grew & (now_known.amin(dim=(1, 2, 3), keepdim=True) < 1)
            known = now_known
        return total / count.clamp(min=1), known  # counts are whole numbers, and 0 only where the total is 0

    def _may_stop(self, active: Tensor) -> bool:
        """Whether further rounds would change nothing. Asked only where the answer costs no wait for a GPU."""
        return not self.training and active.device.type == "cpu" and not bool(active.any())


def _downwards(inputs: int, outputs: int, stride: int, dilation: int = 1) -> nn.Sequential:
    """Make a layer of the encoder. A stride of 2 halves the resolution."""
    layer = nn.Conv2d(inputs, outputs, 3, stride=stride, padding=dilation, dilation=dilation, bias=False)
    return nn.Sequential(layer, batch_norm(outputs), nn.ReLU())


def _upwards(inputs: int, outputs: int, stride: int, dilation: int = 1) -> nn.Sequential:
    """Make a layer of the decoder. A stride of 2 doubles the resolution."""
    layer: nn.Module
    if stride == 2:
        layer = nn.ConvTranspose2d(inputs, outputs, 4, stride=2, padding=1, bias=False)
    else:
        layer = nn.Conv2d(inputs, outputs, 3, padding=dilation, dilation=dilation, bias=False)
    return nn.Sequential(layer, batch_norm(outputs), nn.LeakyReLU(0.2))
