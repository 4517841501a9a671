"""Inception-v3 (Szegedy et al. 2015) as released on 2015-12-05, whose features FID, KID and P-IDS use.

Its pooling differs from the pooling in Szegedy et al. and in torchvision: average pooling inside blocks ignores
padding, and the last block uses maximum instead of average pooling.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import NamedTuple, TypeAlias

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from condvae.metrics.metric_names import FeaturePrecision
from condvae.metrics.network_files import INCEPTION
from condvae.metrics.network_inputs import as_colour
from condvae.runtime.checks import check_choice, first_few
from condvae.runtime.pixels import to_levels
from condvae.weights.downloaded_networks import read

WIDTH = 2048
"""Number of features per image."""
_SIDE = 299
"""Width and height of the network's input in pixels."""
_SMALLEST = 8
_EPSILON = 1e-3
"""Epsilon of the batch normalisations, which have no learned scale."""
_IMAGES_AT_ONCE = {"cuda": 128, "cpu": 8}
"""Images per forward pass, to bound the memory; one image takes 20 MB."""

_HALF_ON = {"cuda"}
"""Devices on which half precision is faster."""


class Pool(Enum):
    AVERAGE = "mean of 3 x 3"
    MAXIMUM = "largest of 3 x 3"
    HALVE = "largest of 3 x 3, with stride 2"


class Conv(NamedTuple):
    """Describes a convolution that is followed by batch normalisation and a ReLU."""

    name: str
    channels: int
    kernel: tuple[int, int]
    stride: int = 1
    padded: bool = True


@dataclass(frozen=True)
class Fork:
    """Describes several branches with the same input, whose output channels are concatenated."""

    branches: "tuple[Steps, ...]"


Steps: TypeAlias = Sequence["Conv | Pool | Fork"]


def _chain(prefix: str, *layers: tuple[int, int, int]) -> list[Conv]:
    """Return consecutive convolutions, named as in the release. layers: (channels, kernel height, kernel width)."""
    return [
        Conv(f"{prefix}conv_{i}" if i else f"{prefix}conv", channels, (height, width))
        for i, (channels, height, width) in enumerate(layers)
    ]


def _halving(chain: list[Conv]) -> list[Conv]:
    return [*chain[:-1], chain[-1]._replace(stride=2, padded=False)]


def _block_35(name: str, pooled: int) -> Fork:
    return Fork(
        (
            _chain(f"{name}.", (64, 1, 1)),
            _chain(f"{name}.tower.", (48, 1, 1), (64, 5, 5)),
            _chain(f"{name}.tower_1.", (64, 1, 1), (96, 3, 3), (96, 3, 3)),
            [Pool.AVERAGE, *_chain(f"{name}.tower_2.", (pooled, 1, 1))],
        )
    )


def _block_17(name: str, c: int) -> Fork:
    return Fork(
        (
            _chain(f"{name}.", (192, 1, 1)),
            _chain(f"{name}.tower.", (c, 1, 1), (c, 1, 7), (192, 7, 1)),
            _chain(f"{name}.tower_1.", (c, 1, 1), (c, 7, 1), (c, 1, 7), (c, 7, 1), (192, 1, 7)),
            [Pool.AVERAGE, *_chain(f"{name}.tower_2.", (192, 1, 1))],
        )
    )


def _block_8(name: str, pool: Pool) -> Fork:
    def wide(prefix: str) -> Fork:
        across, down = _chain(prefix, (384, 1, 3), (384, 3, 1))
        return Fork(([across], [down]))

    return Fork(
        (
            _chain(f"{name}.", (320, 1, 1)),
            [*_chain(f"{name}.tower_", (384, 1, 1)), wide(f"{name}.tower_mixed_")],
            [*_chain(f"{name}.tower_1_", (448, 1, 1), (384, 3, 3)), wide(f"{name}.tower_1_mixed_")],
            [pool, *_chain(f"{name}.tower_2_", (192, 1, 1))],
        )
    )


NETWORK: Steps = (  # the comments give the side in pixels and the channels of the output, where they change
    Conv("conv", 32, (3, 3), stride=2, padded=False),  # 149
    Conv("conv_1", 32, (3, 3), padded=False),  # 147
    Conv("conv_2", 64, (3, 3)),
    Pool.HALVE,  # 73
    Conv("conv_3", 80, (1, 1)),
    Conv("conv_4", 192, (3, 3), padded=False),  # 71
    Pool.HALVE,  # 35
    _block_35("mixed", pooled=32),  # 256
    _block_35("mixed_1", pooled=64),  # 288
    _block_35("mixed_2", pooled=64),
    Fork(
        (
            _halving(_chain("mixed_3.", (384, 3, 3))),
            _halving(_chain("mixed_3.tower.", (64, 1, 1), (96, 3, 3), (96, 3, 3))),
            [Pool.HALVE],
        )
    ),  # 17; 768
    _block_17("mixed_4", 128),
    _block_17("mixed_5", 160),
    _block_17("mixed_6", 160),
    _block_17("mixed_7", 192),
    Fork(
        (
            _halving(_chain("mixed_8.tower.", (192, 1, 1), (320, 3, 3))),
            _halving(_chain("mixed_8.tower_1.", (192, 1, 1), (192, 1, 7), (192, 7, 1), (192, 3, 3))),
            [Pool.HALVE],
        )
    ),  # 8; 1280
    _block_8("mixed_9", Pool.AVERAGE),  # 2048
    _block_8("mixed_10", Pool.MAXIMUM),
)


class Inception(nn.Module):
    """Computes Inception features of images.

    With precision "fast", convolutions on a GPU are in float16, and the final mean over positions is in float32.
    """

    def __init__(self, weights: Mapping[str, Tensor], *, precision: FeaturePrecision = "exact") -> None:
        """Create the network from its weights.

        weights: the tensors NAME.weight, NAME.beta, NAME.mean and NAME.var for the name of each convolution in
        `NETWORK`. Batch normalisations are folded into the convolutions, in float64.
        """
        super().__init__()
        check_choice(precision, "precision", ("exact", "fast"))
        self.precision = precision
        self.convolutions = nn.ModuleDict()
        expected = _add(self.convolutions, NETWORK, 3)
        assert expected == WIDTH
        self._load_weights(weights)
        self.requires_grad_(False).eval()
        if precision == "fast":
            self.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    @classmethod
    def load(cls, path: Path | None = None, *, precision: FeaturePrecision = "exact") -> "Inception":
        """Load the released network from a file, by default the one in the user's cache folder."""
        return cls(read(INCEPTION, INCEPTION.cached if path is None else path), precision=precision)

    def _load_weights(self, weights: Mapping[str, Tensor]) -> None:
        layers = {key.replace("/", "."): layer for key, layer in self.convolutions.items()}
        wanted = {f"{name}.{kind}" for name in layers for kind in ("weight", "beta", "mean", "var")}
        if wrong := sorted(wanted ^ weights.keys()):
            raise ValueError(
                "the weights are not those of Inception, since these tensors are missing or unknown: "
                + first_few(wrong)
            )
        for name, layer in layers.items():
            kernel, beta, mean, var = (weights[f"{name}.{kind}"].double() for kind in ("weight", "beta", "mean", "var"))
            gain = (var + _EPSILON).rsqrt()
            folded = {"weight": kernel * gain[:, None, None, None], "bias": beta - mean * gain}
            layer.load_state_dict({key: tensor.float() for key, tensor in folded.items()})

    @property
    def device(self) -> torch.device:
        return next(self.parameters()).device

    @torch.no_grad()
    def features(self, images: Tensor) -> Tensor:
        """Return the features of images, float32 [B, 2048], computed in chunks.

        images: [B, 3 or 1, H, W], uint8 or floats in [-1, 1].
        """
        step = _IMAGES_AT_ONCE.get(self.device.type, _IMAGES_AT_ONCE["cpu"])
        # Process at least one chunk, even an empty one, so that shapes and values are checked.
        return torch.cat([self._chunk(images[first : first + step]) for first in range(0, max(1, len(images)), step)])

    def _chunk(self, images: Tensor) -> Tensor:
        x = as_colour(images, device=self.device, smallest=_SMALLEST, network="Inception")
        if not len(x):
            return torch.zeros(0, WIDTH, device=self.device)
        x = (resized(to_levels(x)) - 128) / 128
        half = self.precision == "fast" and x.device.type in _HALF_ON
        if half:
            x = x.to(torch.float16, memory_format=torch.channels_last)
        with (
            torch.backends.cudnn.flags(enabled=True, deterministic=True, allow_tf32=False),
            torch.autocast(x.device.type, dtype=torch.float16, enabled=half),  # overrides the caller's autocast
        ):
            return self._run(NETWORK, x).float().mean(dim=(2, 3))

    def _run(self, steps: Steps, x: Tensor) -> Tensor:
        for step in steps:
            if isinstance(step, Conv):
                x = F.relu(self.convolutions[_key(step)](x), inplace=True)
            elif isinstance(step, Fork):
                x = torch.cat([self._run(branch, x) for branch in step.branches], dim=1)
            elif step is Pool.AVERAGE:
                x = F.avg_pool2d(x, 3, stride=1, padding=1, count_include_pad=False)
            elif step is Pool.MAXIMUM:
                x = F.max_pool2d(x, 3, stride=1, padding=1)
            else:
                x = F.max_pool2d(x, 3, stride=2)
        return x


def resized(x: Tensor, side: int = _SIDE) -> Tensor:
    """Resize images to side x side as FID does: bilinear, without antialiasing.

    Output pixel i is read at position i * size / side of an input with `size` pixels. This aligns the first pixels
    instead of the image centres, as the original implementation does.
    """
    height, width = x.shape[2:]
    # grid_sample aligns the image centres, so shift the grid.
    shift = [[1, 0, 1 / width - 1 / side], [0, 1, 1 / height - 1 / side]]
    to_source = torch.tensor(shift, dtype=x.dtype, device=x.device)
    grid = F.affine_grid(to_source[None], [1, 3, side, side], align_corners=False).expand(len(x), -1, -1, -1)
    return F.grid_sample(x, grid, mode="bilinear", padding_mode="border", align_corners=False)


def _add(layers: nn.ModuleDict, steps: Steps, channels: int) -> int:
    """Add an uninitialised convolution to `layers` for each one in the steps; return the number of output channels."""
    for step in steps:
        if isinstance(step, Conv):
            padding = tuple(side // 2 if step.padded else 0 for side in step.kernel)
            layers[_key(step)] = nn.utils.skip_init(
                nn.Conv2d, channels, step.channels, step.kernel, stride=step.stride, padding=padding
            )
            channels = step.channels
        elif isinstance(step, Fork):
            channels = sum(_add(layers, branch, channels) for branch in step.branches)
    return channels


def _key(step: Conv) -> str:
    return step.name.replace(".", "/")  # module names must not contain dots
