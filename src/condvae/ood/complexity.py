"""The likelihood corrected for complexity, after Serra et al. 2020: S(y) = -log2 p(y) - L(y).

Simple images are likely under any model of images. L, the bits that a lossless compressor needs, says how simple the
known pixels are by themselves; what the model needs beyond that says how strange they are.
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
    """log2 p(y) + L(y), both of the grey levels that the model's likelihood knows."""

    name: ClassVar[str] = "complexity"
    fitted: ClassVar[bool] = False
    kind: ClassVar[EncoderKind | None] = None

    @torch.no_grad()
    def features(self, inference: Inference, observation: Observation, seeds: Sequence[int]) -> Tensor:
        """[B, 1] in bits: one walk, and PNG on the CPU."""
        pixels, known = known_pixels(observation)
        vae, source = inference.vae, inference.source(observation)
        scores = log_evidence(inference, observation, source, noise=seeds, pixel_score=vae.pixel_log_probs)
        nats = scores[-1].double()  # of grey levels
        levels = to_uint8(pixels) >> (8 - vae.likelihood.bits)
        lengths = [png_bits(*one) for one in zip(levels.cpu().numpy(), known[:, 0].cpu().numpy(), strict=True)]
        return (nats / math.log(2) + nats.new_tensor(lengths))[:, None]


def png_bits(levels: NDArray[np.uint8], known: NDArray[np.bool_]) -> int:
    """What PNG needs for the known of grey levels [C, H, W], known [H, W], beyond what it needs for where they are.

    Hidden pixels are flat, and the length of the same hole in a flat image is taken off, headers with it.
    """
    middle = np.uint8(128)
    seen, flat = (np.where(known, shown, middle) for shown in (levels, np.zeros_like(levels)))
    return _png_bits(seen) - _png_bits(flat)


def _png_bits(levels: NDArray[np.uint8]) -> int:
    file = io.BytesIO()
    image = levels[0] if len(levels) == 1 else levels.transpose(1, 2, 0)
    Image.fromarray(np.ascontiguousarray(image)).save(file, format="png", compress_level=9)
    return 8 * file.tell()
