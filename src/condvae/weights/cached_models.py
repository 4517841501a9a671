"""A model by name for a call: opened once for calls in a row, with what a record says of it."""

import functools
from dataclasses import dataclass
from pathlib import Path

import torch

from condvae import weights
from condvae.conditional import ConditionalVAE
from condvae.runtime.devices import resolve_device
from condvae.runtime.fingerprints import FileId, file_sha256
from condvae.vdvae.model import VDVAE


@dataclass(frozen=True, kw_only=True)
class ModelId:
    """Which model: a name, or a path, and what was in its file."""

    name: str
    file: FileId
    by_name: bool
    """Whether the name finds it again anywhere; else its path does."""


def open_model(name: str | Path, device: str = "cpu") -> tuple[ModelId, VDVAE | ConditionalVAE]:
    """A model by name on a device, and which one it is. It may serve other calls too: leave it as it is."""
    path = weights.locate(name)
    where = resolve_device(device)
    stat = path.stat()
    sha256, model = _loaded(path.resolve(), stat.st_size, stat.st_mtime_ns, where)
    by_name = path != Path(name) and path.parent != Path(name)
    return ModelId(name=str(name), file=FileId(path, sha256), by_name=by_name), model


def open_conditional(name: str | Path, device: str = "cpu") -> tuple[ModelId, ConditionalVAE]:
    """`open_model` where only a conditional model will do."""
    identity, model = open_model(name, device)
    if not isinstance(model, ConditionalVAE):
        raise ValueError(f"{name} is an unconditional VAE: condition it first with condvae train")
    return identity, model


@functools.lru_cache(maxsize=1)
def _loaded(path: Path, size: int, changed: int, device: torch.device) -> tuple[str, VDVAE | ConditionalVAE]:
    """A file's digest and its model: loaded once, unless the file changes."""
    return file_sha256(path), weights.load(path).to(device)
