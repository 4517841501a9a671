"""LPIPS for tests: random weights, which have all its properties but the numbers, or the real ones where fetched."""

import math
from pathlib import Path

import pytest
import torch
from torch import Tensor

from condvae.metrics import LPIPS, networks

SHAPES = {0: (64, 3, 11, 11), 3: (192, 64, 5, 5), 6: (384, 192, 3, 3), 8: (256, 384, 3, 3), 10: (256, 256, 3, 3)}


def random_weights(seed: int = 0) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    weights = {}
    for i, (layer, shape) in enumerate(SHAPES.items()):
        spread = math.sqrt(2 / math.prod(shape[1:]))
        weights[f"features.{layer}.weight"] = spread * torch.randn(shape, generator=generator)
        weights[f"features.{layer}.bias"] = 0.1 * torch.randn(shape[0], generator=generator)
        weights[f"lin{i}"] = torch.rand(shape[0], generator=generator)
    return weights


def random_lpips(seed: int = 0) -> LPIPS:
    return LPIPS(random_weights(seed))


def real_lpips_file() -> Path:
    path = networks.cache_folder() / networks.LPIPS_ALEX.file
    if not path.is_file():
        pytest.skip("the LPIPS network is not in the cache folder: condvae fetch lpips gets it")
    return path
