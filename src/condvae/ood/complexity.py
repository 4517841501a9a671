"""A score that corrects the likelihood for the complexity of the image: S(y) = -log2 p(y) - L(y) (Serra et al. 2020).

Simple images are likely under any model of images. L(y), the number of bits that PNG needs for the known pixels y,
measures how simple they are. S(y), the number of bits that the model needs beyond L(y), measures how strange they are.
"""

import io
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from condvae.observe import Observation
from condvae.ood.bound import known_pixels, log_evidence
from condvae.ood.inference import EncoderKind, Inference
from condvae.runtime.pixels import to_uint8


@dataclass(frozen=True, kw_only=True)
class Complexity:
    """The score -S(y) = log2 p(y) + L(y). Both terms are for grey levels at the bit depth of the model's likelihood."""

    name: ClassVar[str] = "complexity"
    fitted: ClassVar[bool] = False
    kind: ClassVar[EncoderKind | None] = None

    @torch.no_grad()
    def features(self, inference: Inference, observation: Observation, seeds: Sequence[int]) -> Tensor:
        """Return the score of each of B observations in bits, [B, 1]. It takes one decoder pass, and PNG on the CPU."""
        pixels, known = known_pixels(observation)
        vae, source = inference.vae, inference.source(observation)
        scores = log_evidence(inference, observation, source, noise=seeds, pixel_score=vae.pixel_log_probs)
        nats = scores[-1].double()  # the last pixel score is the log-probability of grey levels
        levels = to_uint8(pixels) >> (8 - vae.likelihood.bits)
        lengths = [png_bits(*one) for one in zip(levels.cpu().numpy(), known[:, 0].cpu().numpy(), strict=True)]
        return (nats / math.log(2) + nats.new_tensor(lengths))[:, None]


def png_bits(levels: NDArray[np.uint8], known: NDArray[np.bool_]) -> int:
    """Return how many bits PNG needs for the known pixels of an image.

    levels: the image's grey levels, [C, H, W]. known: True where a pixel is known, [H, W]. All hidden pixels are set to
    grey level 128. The size of a black image with the same hole is subtracted, so that neither the file headers nor the
    shape of the hole count.
    """
    middle = np.uint8(128)
    seen, flat = (np.where(known, shown, middle) for shown in (levels, np.zeros_like(levels)))
    return _png_bits(seen) - _png_bits(flat)


def _png_bits(levels: NDArray[np.uint8]) -> int:
    file = io.BytesIO()
    image = levels[0] if len(levels) == 1 else levels.transpose(1, 2, 0)
    Image.fromarray(np.ascontiguousarray(image)).save(file, format="png", compress_level=9)
    return 8 * file.tell()
