"""One `.safetensors` file per model: its weights, and in the metadata all else it needs. Reading executes no code."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from condvae import observe
from condvae.conditional import ConditionalVAE, PartialConfig
from condvae.observe import Process
from condvae.runtime.checks import first_few, strict
from condvae.vdvae.config import VDVAEConfig
from condvae.vdvae.model import VDVAE
from condvae.weights import sealed_file
from condvae.weights.model_names import locate


@dataclasses.dataclass(frozen=True, kw_only=True)
class Header:
    """What a file says of its model."""

    config: VDVAEConfig
    partial: PartialConfig | None
    process: Process | None
    """What the partial encoder was trained on, where its maker said so."""
    record: dict[str, Any]
    """How it came to be: data, steps, bits per dimension, whatever its maker stored."""
    parameters: int
    """Number of weights."""


def save(
    model: VDVAE | ConditionalVAE,
    path: str | Path,
    *,
    half: bool = False,
    packed: bool = False,
    record: Mapping[str, Any] | None = None,
) -> None:
    """Write the model and a free-form training record; `half` stores weights as float16.

    packed: these in a sixth fewer bytes, for condvae alone to read; plain files are for whoever reads safetensors.

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
        "process": model.process.to_dict() if isinstance(model, ConditionalVAE) and model.process else None,
        "record": dict(record or {}),
    }
    weights = {name: stored(name, tensor, half=half) for name, tensor in model.state_dict().items()}
    sealed_file.write(path, kind=sealed_file.MODEL, description=plain, tensors=weights, packed=packed)


def read_model(name: str | Path, *, train_artifact: bool = False) -> VDVAE | ConditionalVAE:
    """The model in a file that `save` wrote, in float32 on the CPU: by its path, or a name that `locate` knows.

    A conditional one has its artifact frozen, unless `train_artifact` is set to go on training all of it.
    """
    path = locate(name)
    header, weights = _read(path)
    model = assemble(header.config, header.partial, weights, origin=str(path), train_artifact=train_artifact)
    if isinstance(model, ConditionalVAE):
        model.process = header.process
    return model


def load_conditional(name: str | Path) -> ConditionalVAE:
    """`load` where only a conditional model will do."""
    model = read_model(name)
    if not isinstance(model, ConditionalVAE):
        raise ValueError(f"{name} is an unconditional VAE: condition it first with condvae train")
    return model


def describe(name: str | Path) -> Header:
    """What a file says of its model; a name will do, as for `load`."""
    return _read(locate(name))[0]


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
    assign(model, weights, origin)
    return model.eval()


def assign(model: nn.Module, weights: Mapping[str, Tensor], origin: str) -> None:
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
    plain, weights = sealed_file.read(path, kind=sealed_file.MODEL)
    try:
        partial, process = plain["partial"], plain.get("process")
        header = Header(
            config=VDVAEConfig.from_dict(plain["config"]),
            partial=None if partial is None else strict(PartialConfig, partial, where="partial encoder"),
            process=None if process is None else observe.from_dict(process),
            record=dict(plain["record"]),
            parameters=sum(tensor.numel() for tensor in weights.values()),
        )
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError) as error:
        raise ValueError(f"{path} does not describe a model that this version of condvae knows: {error}") from error
    return header, weights


def stored(name: str, tensor: Tensor, *, half: bool) -> Tensor:
    """A weight as files have it; a ValueError unless it is finite there."""
    if not torch.isfinite(tensor).all():
        raise ValueError(f"{name} holds NaN or infinite weights: a file of them would be of no use, so none is written")
    made = tensor.detach().to("cpu", torch.float16 if half else torch.float32, copy=True).contiguous()
    if not torch.isfinite(made).all():
        raise ValueError(f"{name} holds weights too large for {'half' if half else 'single'} precision")
    return made
