"""Hashes of the things that a result depends on: plain values, networks and files."""

import hashlib
import json
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


def file_sha256(path: Path) -> str:
    """Return the SHA-256 of a file's content."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
