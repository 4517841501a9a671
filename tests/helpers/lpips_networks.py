"""LPIPS networks for tests, with random weights, or with the real weights if they have been downloaded."""

import math
from pathlib import Path

import pytest
import torch
from torch import Tensor

from condvae.metrics import LPIPS
from condvae.metrics import network_files as networks
from condvae.metrics.metric_names import Trunk
from condvae.weights.downloaded_networks import DownloadedNetwork

SHAPES = {0: (64, 3, 11, 11), 3: (192, 64, 5, 5), 6: (384, 192, 3, 3), 8: (256, 384, 3, 3), 10: (256, 256, 3, 3)}
VGG_WIDTHS = {0: 64, 2: 64, 5: 128, 7: 128, 10: 256, 12: 256, 14: 256} | dict.fromkeys((17, 19, 21, 24, 26, 28), 512)
VGG_HEADS = (2, 7, 14, 21, 28)


def random_weights(seed: int = 0, trunk: Trunk = "alex") -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    shapes = SHAPES if trunk == "alex" else _vgg_shapes()
    weights = {}
    for layer, shape in shapes.items():
        spread = math.sqrt(2 / math.prod(shape[1:]))
        weights[f"features.{layer}.weight"] = spread * torch.randn(shape, generator=generator)
        weights[f"features.{layer}.bias"] = 0.1 * torch.randn(shape[0], generator=generator)
    for i, layer in enumerate(SHAPES if trunk == "alex" else VGG_HEADS):
        weights[f"lin{i}"] = torch.rand(shapes[layer][0], generator=generator)
    return weights


def _vgg_shapes() -> dict[int, tuple[int, int, int, int]]:
    before = [3, *VGG_WIDTHS.values()]
    return {layer: (width, before[i], 3, 3) for i, (layer, width) in enumerate(VGG_WIDTHS.items())}


def random_lpips(seed: int = 0, trunk: Trunk = "alex") -> LPIPS:
    return LPIPS(random_weights(seed, trunk), trunk=trunk)


def real_file(network: DownloadedNetwork) -> Path:
    """The path of the downloaded network; skip the test if it has not been downloaded."""
    if not network.cached.is_file():
        pytest.skip(f"{network.file} is not in the cache folder: download it with condvae fetch {network.group}")
    return network.cached


def real_lpips_file(trunk: Trunk = "alex") -> Path:
    return real_file({"alex": networks.LPIPS_ALEX, "vgg": networks.LPIPS_VGG}[trunk])
