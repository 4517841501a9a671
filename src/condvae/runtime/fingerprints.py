"""Hashes of the things that a result depends on: plain values, networks and files."""

import hashlib
import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, Protocol, runtime_checkable


def fingerprint(of: Mapping[str, Any]) -> str:
    """Return a short hash of a mapping of JSON values; it changes if any value changes."""
    return hashlib.sha256(json.dumps(of, sort_keys=True).encode()).hexdigest()[:24]


@runtime_checkable
class Weighted(Protocol):
    """Anything that has weights, such as a torch module."""

    def state_dict(self) -> Mapping[str, Any]: ...


def digest_of(module: Weighted, config: Mapping[str, Any] | None = None) -> str:
    """Return a short hash of a network: its class name, its weights and its configuration."""
    digest = hashlib.sha256(type(module).__name__.encode())
    digest.update(json.dumps(config, sort_keys=True).encode())
    for name, tensor in sorted(module.state_dict().items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()[:24]


def slug_of(name: str) -> str:
    """Turn a name into a valid file name."""
    return re.sub(r"[^\w.=+-]+", "-", name).strip("-.") or "method"


class FileId(NamedTuple):
    """The path of a file, and the SHA-256 of its content."""

    path: Path
    sha256: str

    def described(self, folder: Path) -> dict[str, str]:
        """Return the entry of the file in a record that is written to `folder`; its path is relative to the folder."""
        return {"path": relative_path(self.path, folder), "sha256": self.sha256}


def relative_path(path: Path, folder: Path) -> str:
    """Return a path relative to a folder, with / between folder names; an absolute one if it is on another drive."""
    real = os.path.realpath(path)
    try:
        return Path(os.path.relpath(real, os.path.realpath(folder))).as_posix()
    except ValueError:
        return Path(real).as_posix()


def file_sha256(path: Path) -> str:
    """Return the SHA-256 of a file's content."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
