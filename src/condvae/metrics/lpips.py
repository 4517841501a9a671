"""LPIPS: how different two images look, by the features of a trained network (Zhang et al. 2018, version 0.1)."""

from collections.abc import Mapping
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from condvae.checks import first_few
from condvae.metrics import networks
from condvae.pixels import check_values, from_uint8

_SMALLEST = 31
"""Pixels per side: from fewer, AlexNet's pooling leaves nothing."""
_SHIFT, _SCALE = (-0.030, -0.088, -0.188), (0.458, 0.448, 0.450)
"""LPIPS's own normalisation of red, green and blue in [-1, 1]."""
_EPSILON = 1e-10
_PIXELS_AT_ONCE = {"cuda": 2**22, "cpu": 2**18}
"""Of all images that go through the network together, which bounds the memory."""


class LPIPS(nn.Module):
    """The distance on AlexNet. `features` are scaled such that a distance is a plain squared Euclidean one.

    So the features of an image are computed once, whatever it is compared with.
    """

    shift: Tensor
    scale: Tensor

    def __init__(self, weights: Mapping[str, Tensor]) -> None:
        """weights: features.N.weight and .bias of AlexNet's five convolutions, and lin0 ... lin4, none negative."""
        super().__init__()
        self.features_0 = nn.Conv2d(3, 64, 11, stride=4, padding=2)
        self.features_3 = nn.Conv2d(64, 192, 5, padding=2)
        self.features_6 = nn.Conv2d(192, 384, 3, padding=1)
        self.features_8 = nn.Conv2d(384, 256, 3, padding=1)
        self.features_10 = nn.Conv2d(256, 256, 3, padding=1)
        self.lin = nn.ParameterList([nn.Parameter(torch.empty(c)) for c in (64, 192, 384, 256, 256)])
        self._take(weights)
        self.register_buffer("shift", torch.tensor(_SHIFT).view(1, 3, 1, 1), persistent=False)
        self.register_buffer("scale", torch.tensor(_SCALE).view(1, 3, 1, 1), persistent=False)
        self.requires_grad_(False).eval()

    @classmethod
    def load(cls, path: Path | None = None) -> "LPIPS":
        """The real network, from a file or from the user's cache folder."""
        path = networks.cache_folder() / networks.LPIPS_ALEX.file if path is None else path
        return cls(networks.read(networks.LPIPS_ALEX, path))

    def _take(self, weights: Mapping[str, Tensor]) -> None:
        mine = {name.replace("features_", "features.").replace("lin.", "lin"): name for name in self.state_dict()}
        if wrong := sorted(mine.keys() ^ weights.keys()):
            raise ValueError(f"these are not the weights of LPIPS on AlexNet: {first_few(wrong)} missing or unknown")
        if any((weights[f"lin{i}"] < 0).any() for i in range(len(self.lin))):
            raise ValueError("a head of LPIPS has negative weights, with which it would be no distance")
        self.load_state_dict({name: weights[other] for other, name in mine.items()})

    @property
    def device(self) -> torch.device:
        return self.shift.device

    def images_at_once(self, height: int, width: int) -> int:
        """How many images of a size go through the network together: an even number."""
        pixels = _PIXELS_AT_ONCE.get(self.device.type, _PIXELS_AT_ONCE["cpu"])
        return max(2, pixels // (height * width) // 2 * 2)

    @torch.no_grad()
    def features(self, images: Tensor) -> Tensor:
        """[B, D] for images [B, 3 or 1, H, W], uint8 or floats in [-1, 1], at once: callers bound B."""
        x = self._prepared(images)
        x = (x - self.shift) / self.scale
        found = []
        layers = (self.features_0, self.features_3, self.features_6, self.features_8, self.features_10)
        # TF32 would keep three digits of a distance.
        with torch.backends.cudnn.flags(enabled=True, deterministic=True, allow_tf32=False):
            for i, (layer, head) in enumerate(zip(layers, self.lin, strict=True)):
                if i in (1, 2):
                    x = F.max_pool2d(x, kernel_size=3, stride=2)
                x = F.relu(layer(x))
                directions = x / (x.square().sum(dim=1, keepdim=True).sqrt() + _EPSILON)
                # The distance is the mean over places of the head's weighted sum over channels.
                weight = (head / (x.shape[2] * x.shape[3])).sqrt()
                found.append((directions * weight[:, None, None]).flatten(1))
        return torch.cat(found, dim=1)

    @staticmethod
    def distance(a: Tensor, b: Tensor) -> Tensor:
        """LPIPS of features [..., D] with features [..., D]: [...]."""
        return (a - b).square().sum(dim=-1)

    @torch.no_grad()
    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        """[B]: LPIPS between images a and b of the same shape [B, 3 or 1, H, W], in bounded memory."""
        if a.shape != b.shape:
            raise ValueError(f"images of shapes {tuple(a.shape)} and {tuple(b.shape)} were given, expected the same")
        step = self.images_at_once(*a.shape[-2:]) if a.ndim == 4 else 1
        distances = [
            self.distance(self.features(a[first : first + step]), self.features(b[first : first + step]))
            for first in range(0, len(a), step)
        ]
        return torch.cat(distances) if distances else torch.zeros(0, device=self.device)

    def _prepared(self, images: Tensor) -> Tensor:
        if images.ndim != 4 or images.shape[1] not in (1, 3):
            raise ValueError(f"images have shape {tuple(images.shape)}, expected [B, 3 or 1, H, W]")
        if min(images.shape[2:]) < _SMALLEST:
            raise ValueError(
                f"images are {images.shape[2]} x {images.shape[3]} pixels, LPIPS needs {_SMALLEST} a side: enlarge them"
            )
        x = images.to(self.device)
        if x.dtype == torch.uint8:
            x = from_uint8(x)
        elif x.is_floating_point():
            x = x.float()
            if x.numel():
                check_values(x, name="an image")
        else:
            raise ValueError(f"images are {x.dtype}, expected uint8 or floats in [-1, 1]")
        return x.expand(-1, 3, -1, -1)
