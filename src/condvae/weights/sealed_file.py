"""Read and write `.safetensors` files with a JSON description, and a checksum over the tensors and the description.

Model files and training checkpoints are such files. They are written atomically, and reading them executes no code. A
packed file contains compressed tensors. It has the checksum of the plain file, and `read` returns the same tensors.
"""

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from condvae.runtime.atomic import replacing
from condvae.runtime.json_reading import parse_json
from condvae.runtime.messages import reason_of, short
from condvae.weights import packing

PLAIN, PACKED, PLAIN_INT8, PACKED_INT8 = "1", "2", "3", "4"
"""Format versions. Other safetensors libraries can read only plain files. Files with int8 tensors have versions of
their own, so that older versions of condvae ask for an update."""
MODEL, CHECKPOINT = "condvae", "condvae checkpoint"
"""Kinds of files; the kind is stored in the metadata of each file."""
_KIND_NAMES = {
    MODEL: "a model file from condvae train",
    "condvae classifier": "a classifier file from condvae design train",
}


def write(
    path: Path, *, kind: str, description: Mapping[str, Any], tensors: Mapping[str, Tensor], packed: bool = False
) -> None:
    """Write a file atomically: an older file of this name stays until the new one is complete and on the disk.

    packed: compress float16 and int8 tensors, so that only condvae can read the file. A file without such tensors is
        plain in any case.
    """
    text = json.dumps(description)
    packed = packed and packing.packable(tensors)
    has_int8 = any(tensor.dtype == torch.int8 for tensor in tensors.values())
    versions = (PLAIN_INT8, PACKED_INT8) if has_int8 else (PLAIN, PACKED)
    metadata = {
        "format": kind,
        "format_version": versions[packed],
        "model": text,
        "sha256": _digest(text, tensors),
    }
    stored = packing.pack(tensors) if packed else dict(tensors)
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        content = save(stored, metadata)  # not save_file, which leaves a file of its own if the process is killed
        with replacing(path) as temporary, temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
    except (SafetensorError, OSError) as error:
        raise OSError(f"{path} could not be written ({getattr(error, 'strerror', None) or error})") from error


def kind_of(path: Path) -> str | None:
    """Return the kind of a file; None if it is not a whole .safetensors file that condvae has written."""
    try:
        with safe_open(path, framework="pt") as file:
            kind: str | None = (file.metadata() or {}).get("format")
            return kind if kind is not None and kind.startswith(MODEL) else None
    except Exception:  # a damaged header can raise any exception, and `read` says what is wrong
        return None


def read(path: Path, *, kind: str) -> tuple[Any, dict[str, Tensor]]:
    """Return the description and the tensors in a file; raise ValueError if it is damaged or not of this kind."""
    if path.is_dir():
        raise ValueError(f"{path} is a folder: give a file, such as {path / 'model.safetensors'}")
    if not path.is_file():
        raise ValueError(f"{path} does not exist: give the path of a condvae .safetensors file")
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except Exception as error:  # a damaged header can raise any exception
        raise ValueError(
            f"{path} is not a complete .safetensors file ({reason_of(error)}): it is damaged, truncated or of another "
            "kind"
        ) from error
    found = metadata.get("format")
    if found == CHECKPOINT and kind == MODEL:
        raise ValueError(f"{path} is a training checkpoint: give the run's model.safetensors or best.safetensors")
    if found != kind and str(found).startswith(MODEL):
        actual, expected = (_KIND_NAMES.get(one, f"a {short(one)} file") for one in (str(found), kind))
        raise ValueError(f"{path} is {actual}, expected {expected}")
    if found != kind:
        raise ValueError(
            f"{path} is a .safetensors file that condvae did not write, expected "
            f"{_KIND_NAMES.get(kind, f'a {kind} file')}"
        )
    version = metadata.get("format_version")
    if version not in (PLAIN, PACKED, PLAIN_INT8, PACKED_INT8):
        raise ValueError(
            f"{path} has format version {short(str(version))}, but this version of condvae reads only format versions "
            f"{PLAIN} to {PACKED_INT8}: update condvae"
        )
    if version in (PACKED, PACKED_INT8):
        try:
            tensors = packing.unpack(tensors)
        except ValueError as error:
            raise ValueError(f"{path} is damaged ({reason_of(error)}): copy or write it again") from error
    text = metadata.get("model", "")
    if metadata.get("sha256") != _digest(text, tensors):
        raise ValueError(f"{path} is damaged (its content does not match its checksum): copy or write it again")
    try:
        return parse_json(text), tensors
    except ValueError as error:
        raise ValueError(
            f"{path} does not describe a model or a checkpoint: its metadata is not valid JSON ({reason_of(error)})"
        ) from error


def _digest(text: str, tensors: Mapping[str, Tensor]) -> str:
    digest = hashlib.sha256(text.encode())
    for name in sorted(tensors):
        digest.update(name.encode())
        # Hash a view of the memory instead of a copy, because checkpoints are large.
        digest.update(tensors[name].contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()
