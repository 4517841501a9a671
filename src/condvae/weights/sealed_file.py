"""A `.safetensors` file with a JSON description and a checksum over both: whole under its name, or not there at all.

Models and checkpoints are such files. Reading one executes no code. A packed file holds the same tensors in fewer
bytes: its checksum is that of the plain one, and `read` gives the same.
"""

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from condvae.runtime.atomic import replacing
from condvae.weights import packing

PLAIN, PACKED = "1", "2"
"""Versions of the format: versions of condvae before there was packing read the plain one alone, as others do."""
MODEL, CHECKPOINT = "condvae", "condvae checkpoint"
"""Kinds of files."""
_MADE_BY = {MODEL: "a model of condvae train", "condvae classifier": "a classifier of condvae design train"}


def write(
    path: Path, *, kind: str, description: Mapping[str, Any], tensors: Mapping[str, Tensor], packed: bool = False
) -> None:
    """Write atomically: an older file of this name stays until the new one is whole and on the disk.

    packed: float16 tensors in fewer bytes, for condvae alone to read. Where there are none the file is plain anyway.
    """
    text = json.dumps(description)
    packed = packed and packing.packable(tensors)
    metadata = {
        "format": kind,
        "format_version": PACKED if packed else PLAIN,
        "model": text,
        "sha256": _digest(text, tensors),
    }
    stored = packing.pack(tensors) if packed else dict(tensors)
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with replacing(path) as temporary:
            temporary.touch()
            permissions = temporary.stat().st_mode
            save_file(stored, temporary, metadata)
            temporary.chmod(permissions)  # safetensors lets nobody but the owner read
            with temporary.open("rb+") as written:
                os.fsync(written.fileno())
    except SafetensorError as error:
        raise OSError(f"{path} could not be written: {error}") from error


def read(path: Path, *, kind: str) -> tuple[Any, dict[str, Tensor]]:
    """The description and the tensors; a ValueError says what is wrong with any other file."""
    if path.is_dir():
        raise ValueError(f"{path} is a folder: give a file, such as {path / 'model.safetensors'}")
    if not path.is_file():
        raise ValueError(f"{path} does not exist: give the path of a condvae .safetensors file")
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError, ValueError) as error:
        raise ValueError(
            f"{path} is not a whole .safetensors file ({error}): damaged, cut short or of another kind"
        ) from error
    found = metadata.get("format")
    if found == CHECKPOINT and kind == MODEL:
        raise ValueError(f"{path} is a checkpoint of a run: give the run's model.safetensors or best.safetensors")
    if found != kind and str(found).startswith(MODEL):
        is_one, expected = (_MADE_BY.get(one, f"a {one} file") for one in (str(found), kind))
        raise ValueError(f"{path} is {is_one}, expected {expected}")
    if found != kind:
        raise ValueError(f"{path} is a .safetensors file, but not one of condvae's: expected a {kind} file")
    version = metadata.get("format_version")
    if version not in (PLAIN, PACKED):
        raise ValueError(
            f"{path} has format version {version}, this condvae reads {PLAIN} and {PACKED}: update condvae"
        )
    if version == PACKED:
        try:
            tensors = packing.unpack(tensors)
        except ValueError as error:
            raise ValueError(f"{path} is damaged: {error}; get or write it again") from error
    text = metadata.get("model", "")
    if metadata.get("sha256") != _digest(text, tensors):
        raise ValueError(f"{path} is damaged: its content does not match its checksum; get or write it again")
    try:
        return json.loads(text), tensors
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} does not describe a model or a checkpoint in JSON: {error}") from error


def _digest(text: str, tensors: Mapping[str, Tensor]) -> str:
    digest = hashlib.sha256(text.encode())
    for name in sorted(tensors):
        digest.update(name.encode())
        # A view of the memory, not a copy: checkpoints are large.
        digest.update(tensors[name].contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()
