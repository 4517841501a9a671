"""Read and write model files, which are `.safetensors` files.

The tensors are the weights of the model, and the metadata describes the rest. Reading a file executes no code.
"""

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
from condvae.runtime.messages import reason_of, shown
from condvae.vdvae.config import VDVAEConfig
from condvae.vdvae.model import VDVAE
from condvae.weights import sealed_file
from condvae.weights.model_names import locate


@dataclasses.dataclass(frozen=True, kw_only=True)
class Header:
    """The description of a model in its model file: everything except the weights."""

    config: VDVAEConfig
    partial: PartialConfig | None
    process: Process | None
    """The observation process that the partial encoder was trained with; None if unknown, or if the model has none."""
    record: dict[str, Any]
    """How the model was made: data, steps, bits per dimension, and anything else that was passed to `save`."""
    parameters: int
    """The number of weights of the model."""


def save(
    model: VDVAE | ConditionalVAE,
    path: str | Path,
    *,
    half: bool = False,
    packed: bool = False,
    record: Mapping[str, Any] | None = None,
) -> None:
    """Write a model file atomically: an older file of this name stays until the new one is complete.

    half: store the weights as float16.
    packed: compress float16 weights by a sixth. Only condvae can read a packed file; any safetensors library can read
        a plain one.
    record: any JSON values that describe how the model was made.
    """
    path = Path(path)
    model = getattr(model, "_orig_mod", model)  # the module inside the wrapper of torch.compile
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
    """Read a model from its file. The model is in float32 on the CPU.

    name: the path of the file, or a name that `locate` can find.
    train_artifact: do not freeze the artifact of a conditional model, so that the whole model can be trained further.
    """
    path = locate(name)
    header, weights = _read(path)
    model = assemble(header.config, header.partial, weights, origin=str(path), train_artifact=train_artifact)
    if isinstance(model, ConditionalVAE):
        model.process = header.process
    return model


def load_conditional(name: str | Path) -> ConditionalVAE:
    """Load a model like `load`; raise ValueError unless it is conditional."""
    model = read_model(name)
    if not isinstance(model, ConditionalVAE):
        raise ValueError(f"{name} is an unconditional VAE: train a partial encoder for it first, with condvae train")
    return model


def load_vae(name: str | Path) -> VDVAE:
    """Load an unconditional VAE; from a conditional model, load its artifact."""
    model = read_model(name)
    return model.artifact if isinstance(model, ConditionalVAE) else model


def describe(name: str | Path) -> Header:
    """Read the description of a model from its file. `name` is the path or name of a model, as for `load`."""
    return _read(locate(name))[0]


def assemble(
    config: VDVAEConfig,
    partial: PartialConfig | None,
    weights: Mapping[str, Tensor],
    *,
    origin: str,
    train_artifact: bool = False,
) -> VDVAE | ConditionalVAE:
    """Build a model with these configs and weights, without making random initial weights first.

    origin: the file of the weights, for error messages.
    """
    try:
        with torch.device("meta"):
            vae = VDVAE(config)
            model = ConditionalVAE(vae, partial, train_artifact=train_artifact) if partial else vae
    except (OverflowError, RuntimeError) as error:
        raise ValueError(f"{origin} describes a network that is too large to build") from error
    assign(model, weights, origin)
    return model.eval()


def assign(model: nn.Module, weights: Mapping[str, Tensor], origin: str) -> None:
    """Give weights to a model that was built on torch's meta device, and so has none yet.

    Raise ValueError unless names and shapes match exactly and all weights are finite.
    """
    wanted = {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}
    if missing := sorted(set(wanted) - set(weights)):
        raise ValueError(f"{origin} lacks weights that the network needs: {first_few(missing)}")
    if surplus := sorted(set(weights) - set(wanted)):
        raise ValueError(f"{origin} contains weights that the network does not have: {first_few(surplus)}")
    misfits = [
        f"{n} is {shown(tuple(weights[n].shape))}, expected {shown(s)}"
        for n, s in wanted.items()
        if weights[n].shape != s
    ]
    if misfits:
        raise ValueError(f"{origin} contains weights of the wrong shape: {first_few(misfits)}")
    if not_floats := [name for name, tensor in weights.items() if not tensor.is_floating_point()]:
        raise ValueError(f"{origin} contains weights that are not floating-point numbers: {first_few(not_floats)}")
    if broken := [name for name, tensor in weights.items() if not torch.isfinite(tensor).all()]:
        raise ValueError(f"{origin} contains NaN or infinite weights: {first_few(broken)}")
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
    except (AttributeError, KeyError, OverflowError, RecursionError, TypeError, ValueError) as error:
        raise ValueError(
            f"{path} does not describe a model that this version of condvae supports: {reason_of(error)}"
        ) from error
    blocks = header.config.blocks + (header.config.encoder_blocks if header.partial else 0)
    check_enough(blocks, weights, str(path))
    return header, weights


def check_enough(blocks: int, weights: Mapping[str, Tensor], origin: str, *, tensors_per_block: int = 8) -> None:
    """Raise ValueError if there are too few weights for a network of this number of blocks, before it is built.

    tensors_per_block: the least number of weight tensors that a block has. A `Block` of a VDVAE has four convolutions,
        each with a weight and a bias.
    """
    if tensors_per_block * blocks > len(weights):
        raise ValueError(
            f"{origin} describes a network of {blocks:,} blocks, which has at least {tensors_per_block * blocks:,} "
            f"tensors, but contains {len(weights):,}: it was damaged or changed"
        )


def stored(name: str, tensor: Tensor, *, half: bool) -> Tensor:
    """Convert a weight tensor to float32 (or float16 if half=True); raise ValueError if a value is not finite."""
    if not torch.isfinite(tensor).all():
        raise ValueError(f"the tensor {name} contains NaN or infinite weights: no file was written")
    made = tensor.detach().to("cpu", torch.float16 if half else torch.float32, copy=True).contiguous()
    if not torch.isfinite(made).all():
        precision = "half" if half else "single"
        raise ValueError(f"the tensor {name} contains weights that are too large for {precision} precision")
    return made
