"""Short names for what a result depends on: plain values, networks, files."""

import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, Protocol, runtime_checkable


def fingerprint(of: Mapping[str, Any]) -> str:
    """A short name for plain values: another one for others."""
    return hashlib.sha256(json.dumps(of, sort_keys=True).encode()).hexdigest()[:24]


@runtime_checkable
class Weighted(Protocol):
    """Whatever has weights."""

    def state_dict(self) -> Mapping[str, Any]: ...


def digest_of(module: Weighted, config: Mapping[str, Any] | None = None) -> str:
    """A short name for a network: its kind, its weights, and what else it is made of, as plain values."""
    digest = hashlib.sha256(type(module).__name__.encode())
    digest.update(json.dumps(config, sort_keys=True).encode())
    for name, tensor in sorted(module.state_dict().items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()[:24]


def slug_of(name: str) -> str:
    """A name as a file's."""
    return re.sub(r"[^\w.=+-]+", "-", name).strip("-.") or "method"


class FileId(NamedTuple):
    """A file, and what was in it."""

    path: Path
    sha256: str


def file_sha256(path: Path) -> str:
    """Of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
