"""One `.safetensors` file per model: its weights, and in the metadata all else it needs. Reading executes no code."""

import dataclasses
import hashlib
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

from condvae.checks import first_few
from condvae.partial import ConditionalVAE, PartialConfig
from condvae.vdvae.config import VDVAEConfig, strict
from condvae.vdvae.model import VDVAE

FORMAT = "condvae"
FORMAT_VERSION = 1


@dataclasses.dataclass(frozen=True, kw_only=True)
class Header:
    """What a file says of its model."""

    config: VDVAEConfig
    partial: PartialConfig | None
    record: dict[str, Any]
    """How it came to be: data, steps, bits per dimension, whatever its maker stored."""
    parameters: int
    """Number of weights."""


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
    model = getattr(model, "_orig_mod", model)  # what torch.compile wraps
    if not isinstance(model, VDVAE | ConditionalVAE):
        raise ValueError(f"cannot save a {type(model).__name__}, expected a VDVAE or a ConditionalVAE")
    vae = model.artifact if isinstance(model, ConditionalVAE) else model
    plain = {
        "config": vae.config.to_dict(),
        "partial": dataclasses.asdict(model.partial_config) if isinstance(model, ConditionalVAE) else None,
        "record": dict(record or {}),
    }
    description = json.dumps(plain)
    weights = {name: _stored(name, tensor, half=half) for name, tensor in model.state_dict().items()}
    metadata = {
        "format": FORMAT,
        "format_version": str(FORMAT_VERSION),
        "model": description,
        "sha256": _digest(description, weights),
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
    os.close(handle)
    try:
        save_file(weights, temporary, metadata)
        with open(temporary, "rb+") as written:
            os.fsync(written.fileno())
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, path)
    except BaseException as error:
        Path(temporary).unlink(missing_ok=True)
        if isinstance(error, SafetensorError):
            raise OSError(f"{path} could not be written: {error}") from error
        raise


def load(path: str | Path, *, train_artifact: bool = False) -> VDVAE | ConditionalVAE:
    """The model in a file that `save` wrote, in float32 on the CPU.

    A conditional one has its artifact frozen, unless `train_artifact` is set to go on training all of it.
    """
    path = Path(path)
    header, weights = _read(path)
    return assemble(header.config, header.partial, weights, origin=str(path), train_artifact=train_artifact)


def describe(path: str | Path) -> Header:
    """What a file says of its model."""
    return _read(Path(path))[0]


def assemble(
    config: VDVAEConfig,
    partial: PartialConfig | None,
    weights: Mapping[str, Tensor],
    *,
    origin: str,
    train_artifact: bool = False,
) -> VDVAE | ConditionalVAE:
    """The model of these configs with these weights; nothing is allocated or drawn at random on the way."""
    try:
        with torch.device("meta"):
            vae = VDVAE(config)
            model = ConditionalVAE(vae, partial, train_artifact=train_artifact) if partial else vae
    except RuntimeError as error:
        raise ValueError(f"{origin} describes a network too large to exist") from error
    _assign(model, weights, origin)
    return model.eval()


def _assign(model: nn.Module, weights: Mapping[str, Tensor], origin: str) -> None:
    """Put weights into a model made on the meta device; every name and shape must fit."""
    wanted = {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}
    if missing := sorted(set(wanted) - set(weights)):
        raise ValueError(f"{origin} lacks {first_few(missing)}")
    if surplus := sorted(set(weights) - set(wanted)):
        raise ValueError(f"{origin} holds weights that this model does not have: {first_few(surplus)}")
    misfits = [f"{n} is {tuple(weights[n].shape)}, expected {s}" for n, s in wanted.items() if weights[n].shape != s]
    if misfits:
        raise ValueError(f"{origin} holds weights of other shapes: {first_few(misfits)}")
    if strange := [name for name, tensor in weights.items() if not tensor.is_floating_point()]:
        raise ValueError(f"{origin} holds weights that are not real numbers: {first_few(strange)}")
    if broken := [name for name, tensor in weights.items() if not torch.isfinite(tensor).all()]:
        raise ValueError(f"{origin} holds NaN or infinite weights: {first_few(broken)}")
    wants_gradient = {name: parameter.requires_grad for name, parameter in model.named_parameters()}
    model.load_state_dict({name: tensor.float() for name, tensor in weights.items()}, strict=True, assign=True)
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(wants_gradient[name])


def _read(path: Path) -> tuple[Header, dict[str, Tensor]]:
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
    description = metadata.get("model", "")
    if metadata.get("sha256") != _digest(description, weights):
        raise ValueError(f"{path} is damaged: its content does not match its checksum; get or write it again")
    try:
        plain = json.loads(description)
        partial = plain["partial"]
        header = Header(
            config=VDVAEConfig.from_dict(plain["config"]),
            partial=None if partial is None else strict(PartialConfig, partial, where="partial encoder"),
            record=dict(plain["record"]),
            parameters=sum(tensor.numel() for tensor in weights.values()),
        )
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError) as error:
        raise ValueError(f"{path} does not describe a model that this version of condvae knows: {error}") from error
    return header, weights


def _digest(description: str, weights: Mapping[str, Tensor]) -> str:
    digest = hashlib.sha256(description.encode())
    for name in sorted(weights):
        digest.update(name.encode())
        digest.update(weights[name].numpy().tobytes())
    return digest.hexdigest()


def _stored(name: str, tensor: Tensor, *, half: bool) -> Tensor:
    if not torch.isfinite(tensor).all():
        raise ValueError(f"{name} holds NaN or infinite weights: a file of them would be of no use, so none is written")
    stored = tensor.detach().to("cpu", torch.float16 if half else torch.float32, copy=True).contiguous()
    if not torch.isfinite(stored).all():
        raise ValueError(f"{name} holds weights too large for {'half' if half else 'single'} precision")
    return stored


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
