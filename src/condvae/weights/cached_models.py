"""Open models by name. The last model stays in memory, so that successive calls load it only once."""

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
    """Identifies a model in records: its name or path, and its file with the SHA-256."""

    name: str
    file: FileId
    by_name: bool
    """Whether `name` finds the model from any folder (embedded or on the hub). If False, the path of `file` is used."""


def open_model(name: str | Path, device: str = "cpu") -> tuple[ModelId, VDVAE | ConditionalVAE]:
    """Load a model onto a device, and identify it. Later calls may share the model, so do not change it."""
    path = weights.locate(name)
    where = resolve_device(device)
    stat = path.stat()
    sha256, model = _loaded(path.resolve(), stat.st_size, stat.st_mtime_ns, where)
    by_name = path != Path(name) and path.parent != Path(name)
    return ModelId(name=str(name), file=FileId(path, sha256), by_name=by_name), model


def open_conditional(name: str | Path, device: str = "cpu") -> tuple[ModelId, ConditionalVAE]:
    """Open a model like `open_model`; raise ValueError unless it is conditional."""
    identity, model = open_model(name, device)
    if not isinstance(model, ConditionalVAE):
        raise ValueError(f"{name} is an unconditional VAE: train a partial encoder for it first, with condvae train")
    return identity, model


@functools.lru_cache(maxsize=1)
def _loaded(path: Path, size: int, changed: int, device: torch.device) -> tuple[str, VDVAE | ConditionalVAE]:
    """Return the SHA-256 of a model file and its model; size and time of change are part of the cache key."""
    return file_sha256(path), weights.load(path).to(device)
