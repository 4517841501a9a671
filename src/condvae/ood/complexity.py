"""The likelihood corrected for complexity, after Serra et al. 2020: S(y) = -log2 p(y) - L(y).

Simple images are likely under any model of images. L(y), the number of bits that PNG needs for the known pixels, tells
how simple they are. The bits that the model needs in addition to L(y) tell how strange they are.
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
    """The score -S(y) = log2 p(y) + L(y). Both terms use grey levels at the bit depth of the model's likelihood."""

    name: ClassVar[str] = "complexity"
    fitted: ClassVar[bool] = False
    kind: ClassVar[EncoderKind | None] = None

    @torch.no_grad()
    def features(self, inference: Inference, observation: Observation, seeds: Sequence[int]) -> Tensor:
        """Return the score in bits, [B, 1], from one pass through the decoder and PNG compression on the CPU."""
        pixels, known = known_pixels(observation)
        vae, source = inference.vae, inference.source(observation)
        scores = log_evidence(inference, observation, source, noise=seeds, pixel_score=vae.pixel_log_probs)
        nats = scores[-1].double()  # the last pixel score is the log-probability of grey levels
        levels = to_uint8(pixels) >> (8 - vae.likelihood.bits)
        lengths = [png_bits(*one) for one in zip(levels.cpu().numpy(), known[:, 0].cpu().numpy(), strict=True)]
        return (nats / math.log(2) + nats.new_tensor(lengths))[:, None]


def png_bits(levels: NDArray[np.uint8], known: NDArray[np.bool_]) -> int:
    """Return how many bits PNG needs for the known pixels. levels: [C, H, W]; known: [H, W].

    Hidden pixels are set to one grey level. The size of a black image with the same hole is subtracted, so that neither
    the file headers nor the shape of the hole count.
    """
    middle = np.uint8(128)
    seen, flat = (np.where(known, shown, middle) for shown in (levels, np.zeros_like(levels)))
    return _png_bits(seen) - _png_bits(flat)


def _png_bits(levels: NDArray[np.uint8]) -> int:
    file = io.BytesIO()
    image = levels[0] if len(levels) == 1 else levels.transpose(1, 2, 0)
    Image.fromarray(np.ascontiguousarray(image)).save(file, format="png", compress_level=9)
    return 8 * file.tell()
