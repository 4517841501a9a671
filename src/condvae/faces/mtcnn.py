"""The three small networks of MTCNN, which find faces from coarse to fine.

Zhang, Zhang, Li and Qiao, "Joint Face Detection and Alignment Using Multitask Cascaded Convolutional Networks" (IEEE
Signal Processing Letters, 2016). The weights are those of the package facenet-pytorch 2.6.0 by Timothy Esler (MIT
licence), in half precision. `recipes/face_networks.py` converts them, and networks/mtcnn.safetensors contains their
licence.

All networks are given pictures [B, 3, H, W], normalised by `normalise`. They return the probability that the input
shows a face, and how far the face's box differs from the input's square: its left, top, right and bottom edge, as
shares of the side of the square.
"""

import functools
from pathlib import Path
from typing import NamedTuple

from torch import Tensor, nn

from condvae.runtime.devices import without_weights
from condvae.weights import sealed_file

KIND = "condvae face networks"
FILE = Path(__file__).parent / "networks" / "mtcnn.safetensors"


def normalise(levels: Tensor) -> Tensor:
    """Convert grey levels from 0 to 255 to the values on which the networks were trained."""
    return (levels - 127.5) / 128


def _convolution(channels: int, outputs: int, kernel: int = 3) -> list[nn.Module]:
    return [nn.Conv2d(channels, outputs, kernel), nn.PReLU(outputs)]


def _pool(kernel: int) -> nn.Module:
    return nn.MaxPool2d(kernel, 2, ceil_mode=True)


class ProposalNet(nn.Module):
    """P-Net: looks at every square of 12 x 12 pixels of a picture, in steps of 2 pixels."""

    SIZE, STEP = 12, 2

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(*_convolution(3, 10), _pool(2), *_convolution(10, 16), *_convolution(16, 32))
        self.face = nn.Conv2d(32, 2, 1)
        self.box = nn.Conv2d(32, 4, 1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return probabilities [B, h, w] and box differences [B, 4, h, w]; cell (i, j) starts at pixel (2 i, 2 j)."""
        features = self.features(x)
        return self.face(features).softmax(1)[:, 1], self.box(features)


class RefinementNet(nn.Module):
    """R-Net: looks at squares of 24 x 24 pixels."""

    SIZE = 24

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            *_convolution(3, 28), _pool(3), *_convolution(28, 48), _pool(3), *_convolution(48, 64, 2),
            nn.Flatten(), nn.Linear(64 * 3 * 3, 128), nn.PReLU(128),
        )  # fmt: skip
        self.face = nn.Linear(128, 2)
        self.box = nn.Linear(128, 4)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return probabilities [B] and box differences [B, 4]."""
        features = self.features(x)
        return self.face(features).softmax(1)[:, 1], self.box(features)


class OutputNet(nn.Module):
    """O-Net: looks at squares of 48 x 48 pixels, and also finds the landmarks."""

    SIZE = 48

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            *_convolution(3, 32), _pool(3), *_convolution(32, 64), _pool(3), *_convolution(64, 64), _pool(2),
            *_convolution(64, 128, 2), nn.Flatten(), nn.Linear(128 * 3 * 3, 256), nn.PReLU(256),
        )  # fmt: skip
        self.face = nn.Linear(256, 2)
        self.box = nn.Linear(256, 4)
        self.landmarks = nn.Linear(256, 10)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return probabilities [B], box differences [B, 4], and landmarks [B, 5, 2]: x and y as shares of the side."""
        features = self.features(x)
        landmarks = self.landmarks(features).unflatten(1, (2, 5)).transpose(1, 2)  # all five x come before all y
        return self.face(features).softmax(1)[:, 1], self.box(features), landmarks


class FaceNetworks(NamedTuple):
    proposal: ProposalNet
    refinement: RefinementNet
    output: OutputNet


@functools.cache
def face_networks() -> FaceNetworks:
    """Load the three networks to the CPU. They are kept for the next call."""
    _, weights = sealed_file.read(FILE, kind=KIND)
    with without_weights():
        networks = FaceNetworks(ProposalNet(), RefinementNet(), OutputNet())
    whole = nn.ModuleDict(networks._asdict())
    whole.load_state_dict({name: tensor.float() for name, tensor in weights.items()}, strict=True, assign=True)
    whole.eval().requires_grad_(False)
    return networks


def read_about() -> dict[str, str]:
    """Return source, version and licence of the embedded weights."""
    about: dict[str, str] = sealed_file.read(FILE, kind=KIND)[0]
    return about
