"""Open models by name. The model opened last stays in memory, so that successive calls load it only once."""

import functools
from dataclasses import dataclass
from pathlib import Path

import torch

from condvae import weights
from condvae.completers.learned_completer import LearnedCompleter
from condvae.conditional import ConditionalVAE
from condvae.runtime.devices import resolve_device
from condvae.runtime.fingerprints import FileId, file_sha256
from condvae.weights.artifact_file import AnyModel, as_conditional


@dataclass(frozen=True, kw_only=True)
class ModelId:
    """Identifies a model in records, by its name and by the path and SHA-256 of its file."""

    name: str
    file: FileId
    by_name: bool
    """Whether `name` is an embedded model or a model on the hub, so that it is valid in any folder. Otherwise records
    contain the path of the file."""

    def described(self, folder: Path) -> dict[str, str]:
        """Return the entry of the model in a record that is written to `folder`."""
        return {"name": self.name, "sha256": self.file.sha256} if self.by_name else self.file.described(folder)


def open_model(name: str | Path, device: str = "cpu") -> tuple[ModelId, AnyModel]:
    """Load a model onto a device, and return its identity and the model.

    Later calls may return the same model object, so do not change it.
    """
    path = weights.locate(name)
    where = resolve_device(device)
    stat = path.stat()
    sha256, model = _loaded(path.resolve(), stat.st_size, stat.st_mtime_ns, where)
    by_name = path != Path(name) and path.parent != Path(name)
    return ModelId(name=str(name), file=FileId(path, sha256), by_name=by_name), model


def open_conditional(name: str | Path, device: str = "cpu") -> tuple[ModelId, ConditionalVAE]:
    """Open a model like `open_model`; raise ValueError unless it is a conditional VAE."""
    identity, model = open_model(name, device)
    return identity, as_conditional(model, name)


def open_completer(name: str | Path, device: str = "cpu") -> tuple[ModelId, ConditionalVAE | LearnedCompleter]:
    """Open a model like `open_model`; raise ValueError unless it completes images: a conditional VAE or a baseline."""
    identity, model = open_model(name, device)
    return identity, model if isinstance(model, LearnedCompleter) else as_conditional(model, name)


@functools.lru_cache(maxsize=1)
def _loaded(path: Path, size: int, changed: int, device: torch.device) -> tuple[str, AnyModel]:
    """Return the SHA-256 of a model file, and the model in it.

    `size` and `changed`, the time of the last change, make a new cache entry if the file changes.
    """
    return file_sha256(path), weights.load(path).to(device)
