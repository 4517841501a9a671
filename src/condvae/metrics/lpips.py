"""LPIPS: a perceptual distance between two images on features of a trained network (Zhang et al. 2018, version 0.1)."""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from condvae.metrics.metric_names import Trunk
from condvae.metrics.network_files import LPIPS_ALEX, LPIPS_VGG
from condvae.metrics.network_inputs import as_colour
from condvae.runtime.checks import check_choice, first_few
from condvae.weights.downloaded_networks import read


class Layer(NamedTuple):
    """Describes a convolution that is followed by a ReLU."""

    number: int
    """Index of the convolution in torchvision's list of the network's layers."""
    channels: int
    kernel: int = 3
    stride: int = 1
    pool: int = 0
    """Kernel size of a max-pooling with stride 2 before the convolution; 0 for no pooling."""
    head: bool = False
    """Whether the distance uses the output of this layer."""

    @property
    def padding(self) -> int:
        return 2 if self.kernel == 11 else self.kernel // 2  # AlexNet's first convolution is not fully padded


_TRUNKS: Mapping[str, tuple[Layer, ...]] = {
    "alex": (
        Layer(0, 64, kernel=11, stride=4, head=True),
        Layer(3, 192, kernel=5, pool=3, head=True),
        Layer(6, 384, pool=3, head=True),
        Layer(8, 256, head=True),
        Layer(10, 256, head=True),
    ),
    "vgg": (
        *(Layer(0, 64), Layer(2, 64, head=True)),
        *(Layer(5, 128, pool=2), Layer(7, 128, head=True)),
        *(Layer(10, 256, pool=2), Layer(12, 256), Layer(14, 256, head=True)),
        *(Layer(17, 512, pool=2), Layer(19, 512), Layer(21, 512, head=True)),
        *(Layer(24, 512, pool=2), Layer(26, 512), Layer(28, 512, head=True)),
    ),
}
_NETWORKS = {"alex": LPIPS_ALEX, "vgg": LPIPS_VGG}
_SMALLEST = {"alex": 31, "vgg": 16}
"""The smallest side of an image in pixels; pooling would leave nothing of a smaller image."""
_SHIFT, _SCALE = (-0.030, -0.088, -0.188), (0.458, 0.448, 0.450)
"""The shift and scale by which LPIPS normalises red, green and blue values in [-1, 1]."""
_EPSILON = 1e-10
_PIXELS_AT_ONCE = {"cuda": 2**22, "cpu": 2**18}
"""How many pixels, over all images, go through AlexNet in one forward pass, to bound the memory."""
_MEMORY = {"alex": 1, "vgg": 8}
"""The memory that each network needs per pixel, as a multiple of AlexNet's."""


class LPIPS(nn.Module):
    """The LPIPS distance on features of AlexNet or VGG16.

    `features` are scaled so that LPIPS is the squared Euclidean distance between them. The features of an image are
    therefore computed only once, however many images it is compared with.
    """

    shift: Tensor
    scale: Tensor

    def __init__(self, weights: Mapping[str, Tensor], *, trunk: Trunk = "alex") -> None:
        """Create the network from its weights.

        weights: features.N.weight and features.N.bias of the convolution with index N in torchvision's list, and the
        nonnegative weights lin0 ... lin4 of the heads.
        """
        super().__init__()
        check_choice(trunk, "trunk", tuple(_TRUNKS))
        self.trunk, self.layers = trunk, _TRUNKS[trunk]
        self.convolutions = nn.ModuleDict()
        channels = 3
        for layer in self.layers:
            self.convolutions[str(layer.number)] = nn.utils.skip_init(
                nn.Conv2d, channels, layer.channels, layer.kernel, stride=layer.stride, padding=layer.padding
            )
            channels = layer.channels
        self.lin = nn.ParameterList([nn.Parameter(torch.empty(layer.channels)) for layer in self.layers if layer.head])
        self._load_weights(weights)
        self.register_buffer("shift", torch.tensor(_SHIFT).view(1, 3, 1, 1), persistent=False)
        self.register_buffer("scale", torch.tensor(_SCALE).view(1, 3, 1, 1), persistent=False)
        self.requires_grad_(False).eval()

    @classmethod
    def load(cls, path: Path | None = None, *, trunk: Trunk = "alex") -> "LPIPS":
        """Load the released network from a file, by default the one in the user's cache folder."""
        check_choice(trunk, "trunk", tuple(_TRUNKS))
        network = _NETWORKS[trunk]
        return cls(read(network, network.cached if path is None else path), trunk=trunk)

    def _load_weights(self, weights: Mapping[str, Tensor]) -> None:
        mine = {name.replace("convolutions.", "features.").replace("lin.", "lin"): name for name in self.state_dict()}
        if wrong := sorted(mine.keys() ^ weights.keys()):
            raise ValueError(
                f"the weights are not those of LPIPS on {self.trunk}, since tensors are missing or unknown: "
                f"{first_few(wrong)}"
            )
        if any((weights[f"lin{i}"] < 0).any() for i in range(len(self.lin))):
            raise ValueError(
                "a head of LPIPS has negative weights, so the result would not be a distance: give the released weights"
            )
        self.load_state_dict({name: weights[other] for other, name in mine.items()})

    @property
    def device(self) -> torch.device:
        return self.shift.device

    def images_at_once(self, height: int, width: int) -> int:
        """Return how many images of this size fit into one forward pass, an even number."""
        pixels = _PIXELS_AT_ONCE.get(self.device.type, _PIXELS_AT_ONCE["cpu"]) // _MEMORY[self.trunk]
        return max(2, pixels // (height * width) // 2 * 2)

    @torch.no_grad()
    def features(self, images: Tensor) -> Tensor:
        """Return features [B, D] of images [B, 3 or 1, H, W], uint8 or floats in [-1, 1].

        All B images go through the network in one pass, so callers must limit B.
        """
        x = as_colour(images, device=self.device, smallest=_SMALLEST[self.trunk], network="LPIPS")
        x = (x - self.shift) / self.scale
        found = []
        heads = iter(self.lin)
        # TF32, or half precision from the caller's autocast, would leave only three correct digits.
        with (
            torch.backends.cudnn.flags(enabled=True, deterministic=True, allow_tf32=False),
            torch.autocast(x.device.type, enabled=False),
        ):
            for layer in self.layers:
                if layer.pool:
                    x = F.max_pool2d(x, kernel_size=layer.pool, stride=2)
                x = F.relu(_convolved(layer, self.convolutions[str(layer.number)], x), inplace=True)
                if layer.head:
                    # The distance is the head's weighted sum over channels, averaged over positions.
                    weight = (next(heads) / (x.shape[2] * x.shape[3])).sqrt()
                    length = torch.linalg.vector_norm(x, dim=1, keepdim=True) + _EPSILON
                    found.append((x / length * weight[:, None, None]).flatten(1))
        return torch.cat(found, dim=1)

    def position_weights(self, height: int, width: int) -> Tensor:
        """Return a factor for each of the D features of an image of this size, [D].

        `features` are scaled for squared differences. For a score that is linear in the features, such as CRPS, the
        sum over features times these factors is a mean over positions and a sum over channels and layers, as in LPIPS.
        """
        found, sides = [], (height, width)
        for layer in self.layers:
            if layer.pool:
                sides = ((sides[0] - layer.pool) // 2 + 1, (sides[1] - layer.pool) // 2 + 1)
            reach = layer.kernel - 2 * layer.padding
            sides = ((sides[0] - reach) // layer.stride + 1, (sides[1] - reach) // layer.stride + 1)
            if layer.head:
                positions = sides[0] * sides[1]
                found.append(torch.full((layer.channels * positions,), positions**-0.5, device=self.device))
        return torch.cat(found)

    def pooled_features(self, images: Tensor) -> list[Tensor]:
        """Return three feature maps of VGG16, after its first three poolings. Gradients pass through them.

        images: [B, 3, H, W]. They are used as they are, without the normalisation of LPIPS.
        """
        if self.trunk != "vgg":
            raise ValueError("only VGG16 has three poolings: load the network with trunk='vgg'")
        x, found = images, list[Tensor]()
        for layer in self.layers:
            if layer.pool:
                x = F.max_pool2d(x, kernel_size=layer.pool, stride=2)
                found.append(x)
            if len(found) == 3:
                break
            x = F.relu(_convolved(layer, self.convolutions[str(layer.number)], x))
        return found

    @staticmethod
    def distance(a: Tensor, b: Tensor) -> Tensor:
        """Return the LPIPS distances [...] between two tensors of features, both [..., D]."""
        return (a - b).square().sum(dim=-1)

    @torch.no_grad()
    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        """Return the LPIPS distances [B] between images a and b, both [B, 3 or 1, H, W], computed in chunks."""
        if a.shape != b.shape:
            raise ValueError(f"images have shapes {tuple(a.shape)} and {tuple(b.shape)}: give pairs of the same shape")
        step = self.images_at_once(*a.shape[-2:]) if a.ndim == 4 else 1
        distances = [
            self.distance(self.features(a[first : first + step]), self.features(b[first : first + step]))
            for first in range(0, len(a), step)
        ]
        return torch.cat(distances) if distances else torch.zeros(0, device=self.device)


def _convolved(layer: Layer, convolution: nn.Module, x: Tensor) -> Tensor:
    """Convolve without kernel rows and columns that only meet padding, which are most of the work on small images."""
    assert isinstance(convolution, nn.Conv2d)
    rows, columns = (max(0, layer.padding - side + 1) if layer.stride == 1 else 0 for side in x.shape[2:])
    kernel = convolution.weight[:, :, rows : layer.kernel - rows, columns : layer.kernel - columns]
    padding = (layer.padding - rows, layer.padding - columns)
    return F.conv2d(x, kernel, convolution.bias, stride=layer.stride, padding=padding)
