"""One `.safetensors` file per model: its weights, and in the metadata all else it needs. Reading executes no code."""

import dataclasses
import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from condvae.partial import ConditionalVAE, PartialConfig
from condvae.vdvae.config import VDVAEConfig, strict
from condvae.vdvae.model import VDVAE

FORMAT = "condvae"
FORMAT_VERSION = 1


def save(
    model: VDVAE | ConditionalVAE,
    path: str | Path,
    *,
    half: bool = False,
    record: Mapping[str, Any] | None = None,
) -> None:
    """Write the model and a free-form training record; `half` stores weights as float16.

    Atomic: the file appears whole under its name or not at all, and an older one stays until then.
    """
    path = Path(path)
    vae = model.artifact if isinstance(model, ConditionalVAE) else model
    header = {
        "config": vae.config.to_dict(),
        "partial": dataclasses.asdict(model.partial_config) if isinstance(model, ConditionalVAE) else None,
        "record": dict(record or {}),
    }
    metadata = {"format": FORMAT, "format_version": str(FORMAT_VERSION), "model": json.dumps(header)}
    weights = {name: _stored(name, tensor, half=half) for name, tensor in model.state_dict().items()}
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
    os.close(handle)
    try:
        save_file(weights, temporary, metadata)
        with open(temporary, "rb+") as written:
            os.fsync(written.fileno())
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def load(path: str | Path) -> VDVAE | ConditionalVAE:
    """The model in a file that `save` wrote, in float32 on the CPU; a conditional one has its artifact frozen."""
    path = Path(path)
    header, weights = _read(path)
    try:
        config = VDVAEConfig.from_dict(header["config"])
        partial = header["partial"]
        with torch.device("meta"):
            model: VDVAE | ConditionalVAE = VDVAE(config)
            if partial is not None:
                model = ConditionalVAE(VDVAE(config), strict(PartialConfig, partial, where="partial encoder"))
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{path} does not describe a model that this version of condvae knows: {error}") from error
    assign(model, {name: tensor.float() for name, tensor in weights.items()}, origin=str(path))
    return model.eval()


def describe(path: str | Path) -> dict[str, Any]:
    """What a file says of itself: config, partial encoder, training record, number of weights."""
    path = Path(path)
    header, weights = _read(path)
    return {**header, "parameters": sum(tensor.numel() for tensor in weights.values())}


def assign(model: nn.Module, weights: Mapping[str, Tensor], *, origin: str) -> None:
    """Put weights into a model made on the meta device; every name and shape must fit."""
    wanted = {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}
    if missing := sorted(set(wanted) - set(weights)):
        raise ValueError(f"{origin} lacks {_some(missing)}")
    if surplus := sorted(set(weights) - set(wanted)):
        raise ValueError(f"{origin} holds weights that this model does not have: {_some(surplus)}")
    misfits = [f"{n} is {tuple(weights[n].shape)}, expected {s}" for n, s in wanted.items() if weights[n].shape != s]
    if misfits:
        raise ValueError(f"{origin} holds weights of other shapes: {_some(misfits)}")
    if broken := [name for name, tensor in weights.items() if not torch.isfinite(tensor).all()]:
        raise ValueError(f"{origin} holds NaN or infinite weights: {_some(broken)}")
    wants_gradient = {name: parameter.requires_grad for name, parameter in model.named_parameters()}
    model.load_state_dict(dict(weights), strict=True, assign=True)
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(wants_gradient[name])


def _read(path: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    if not path.is_file():
        raise ValueError(f"{path} does not exist: give the path of a condvae .safetensors file")
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            weights = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError, ValueError) as error:
        raise ValueError(
            f"{path} is not a whole .safetensors file ({error}): damaged, cut short or of another kind"
        ) from error
    if metadata.get("format") != FORMAT:
        raise ValueError(f"{path} is a .safetensors file, but not one of condvae's")
    version = metadata.get("format_version")
    if version != str(FORMAT_VERSION):
        raise ValueError(f"{path} has format version {version}, this condvae reads {FORMAT_VERSION}: update condvae")
    try:
        header: dict[str, Any] = json.loads(metadata["model"])
    except (KeyError, json.JSONDecodeError) as error:
        raise ValueError(f"{path} has a damaged description of its model") from error
    return header, weights


def _stored(name: str, tensor: Tensor, *, half: bool) -> Tensor:
    tensor = tensor.detach().cpu().contiguous()
    if not half:
        return tensor.float()
    stored = tensor.half()
    if torch.isfinite(tensor).all() and not torch.isfinite(stored).all():
        raise ValueError(f"{name} holds weights too large for half precision: save in full precision")
    return stored


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _some(names: list[str]) -> str:
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
