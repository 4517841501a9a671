"""Read and write model files, which are `.safetensors` files.

The tensors are the weights of the model, and the metadata describes the rest. Reading a file executes no code.
"""
# The attribute `completers.learned_baselines` is imported on first use, since it imports the networks of all baselines.

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn

from condvae import completers, observe
from condvae.completers.learned_completer import BaselineConfig, LearnedCompleter
from condvae.completers.learned_names import LEARNED_TITLES
from condvae.conditional import ConditionalVAE, PartialConfig
from condvae.observe import Process
from condvae.runtime.checks import first_few, strict
from condvae.runtime.devices import without_weights
from condvae.runtime.messages import reason_of, shown
from condvae.runtime.torch_threads import on_one_thread
from condvae.vdvae.config import VDVAEConfig
from condvae.vdvae.model import VDVAE
from condvae.weights import sealed_file
from condvae.weights.model_names import locate
from condvae.weights.precision import WeightBits, bits_of, restored, stored

AnyModel: TypeAlias = VDVAE | ConditionalVAE | LearnedCompleter
"""What a model file can contain: an unconditional VAE, a conditional one, or a learned baseline."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Header:
    """The description of a model in its model file: everything except the weights."""

    config: VDVAEConfig | BaselineConfig
    partial: PartialConfig | None
    process: Process | None
    """The observation process that the model was trained with; None if unknown, or if the model has none."""
    record: dict[str, Any]
    """How the model was made: data, steps, bits per dimension, and anything else that was passed to `save`."""
    parameters: int
    """The number of weights of the model."""
    bits: WeightBits
    """How many bits the file uses for each weight. 8: int8, and half precision for small tensors."""

    @property
    def kind(self) -> str:
        """What the model is, in words."""
        if isinstance(self.config, BaselineConfig):
            return f"baseline, {LEARNED_TITLES[completers.learned_baselines.kind_of_config(self.config)]}"
        return "conditional VAE" if self.partial else "unconditional VAE"


def save(
    model: AnyModel,
    path: str | Path,
    *,
    bits: WeightBits = 32,
    packed: bool = False,
    record: Mapping[str, Any] | None = None,
) -> None:
    """Write a model file atomically: an older file of this name stays until the new one is complete.

    bits: how many bits each weight takes: 32 (float32), 16 (float16) or 8. With 8 bits, the weights of a convolution
        are rounded to 255 values per output channel. `load` returns float32 in any case.
    packed: compress weights of 16 bits by a sixth, and of 8 bits by a tenth. Only condvae can read a packed file; any
        safetensors library can read a plain one.
    record: any JSON values that describe how the model was made.
    """
    path = Path(path)
    model = getattr(model, "_orig_mod", model)  # the module inside the wrapper of torch.compile
    if not isinstance(model, AnyModel):
        raise ValueError(f"cannot save a {type(model).__name__}, expected a VDVAE, a ConditionalVAE or a baseline")
    process = None if isinstance(model, VDVAE) else model.process
    plain = {
        **_configs(model),
        "process": process.to_dict() if process else None,
        "record": dict(record or {}),
    }
    tensors = stored(model.state_dict(), bits=bits)
    sealed_file.write(path, kind=sealed_file.MODEL, description=plain, tensors=tensors, packed=packed)


def _configs(model: AnyModel) -> dict[str, Any]:
    if isinstance(model, LearnedCompleter):
        return {"baseline": plain_config(model.config)}
    if isinstance(model, ConditionalVAE):
        return {"config": model.artifact.config.to_dict(), "partial": dataclasses.asdict(model.partial_config)}
    return {"config": model.config.to_dict(), "partial": None}


def plain_config(config: VDVAEConfig | BaselineConfig) -> dict[str, Any]:
    """Return a configuration as plain data for JSON."""
    return (
        completers.learned_baselines.config_to_dict(config) if isinstance(config, BaselineConfig) else config.to_dict()
    )


def read_model(name: str | Path, *, train_artifact: bool = False) -> AnyModel:
    """Read a model from its file. The model is in float32 on the CPU.

    name: the path of the file, or a name that `locate` can find.
    train_artifact: do not freeze the artifact of a conditional model, so that the whole model can be trained further.
    """
    path = locate(name)
    header, weights = _read(path)
    model: AnyModel
    if isinstance(header.config, BaselineConfig):
        model = _baseline(header.config, weights, origin=str(path))
    else:
        model = assemble(header.config, header.partial, weights, origin=str(path), train_artifact=train_artifact)
    if not isinstance(model, VDVAE):
        model.process = header.process
    return model


def _baseline(config: BaselineConfig, weights: Mapping[str, Tensor], *, origin: str) -> LearnedCompleter:
    try:
        with torch.random.fork_rng(devices=[]):  # initial weights must not change the caller's random numbers
            model = completers.learned_baselines.make_completer(config)
    except (OverflowError, RuntimeError) as error:
        raise ValueError(f"{origin} describes a network that is too large to build") from error
    assign(model, weights, origin)
    return model.eval()


def load_conditional(name: str | Path) -> ConditionalVAE:
    """Load a model like `load`; raise ValueError unless it is a conditional VAE."""
    return as_conditional(read_model(name), name)


def as_conditional(model: AnyModel, name: str | Path) -> ConditionalVAE:
    """Return the model; raise ValueError unless it is a conditional VAE. name: what the user called it."""
    vae = as_vae(model, name)
    if isinstance(vae, VDVAE):
        raise ValueError(f"{name} is an unconditional VAE: train a partial encoder for it first, with condvae train")
    return vae


def load_vae(name: str | Path) -> VDVAE:
    """Load an unconditional VAE; from a conditional model, load its artifact."""
    return unconditional_part(as_vae(read_model(name), name))


def as_vae(model: AnyModel, name: str | Path) -> VDVAE | ConditionalVAE:
    """Return the model; raise ValueError if it is a baseline. name: what the user called it."""
    if isinstance(model, LearnedCompleter):
        raise ValueError(f"{name} is a baseline ({model.title}), which is no VAE and cannot do this: give a VAE")
    return model


def unconditional_part(model: VDVAE | ConditionalVAE) -> VDVAE:
    """Return the artifact of a conditional model, or the VAE itself."""
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
        with without_weights():
            vae = VDVAE(config)
            model = ConditionalVAE(vae, partial, train_artifact=train_artifact) if partial else vae
    except (OverflowError, RuntimeError) as error:
        raise ValueError(f"{origin} describes a network that is too large to build") from error
    assign(model, weights, origin)
    return model.eval()


@on_one_thread()
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


@on_one_thread()
def _read(path: Path) -> tuple[Header, dict[str, Tensor]]:
    plain, tensors = sealed_file.read(path, kind=sealed_file.MODEL)
    weights = restored(tensors, origin=str(path))
    try:
        baseline, process = plain.get("baseline"), plain.get("process")
        partial = plain["partial"] if baseline is None else None
        header = Header(
            config=VDVAEConfig.from_dict(plain["config"])
            if baseline is None
            else completers.learned_baselines.config_from(baseline),
            partial=None if partial is None else strict(PartialConfig, partial, where="partial encoder"),
            process=None if process is None else observe.from_dict(process),
            record=dict(plain["record"]),
            parameters=sum(tensor.numel() for tensor in weights.values()),
            bits=bits_of(tensors),
        )
    except (AttributeError, KeyError, OverflowError, RecursionError, TypeError, ValueError) as error:
        raise ValueError(
            f"{path} does not describe a model that this version of condvae supports: {reason_of(error)}"
        ) from error
    blocks = header.config.blocks
    if isinstance(header.config, VDVAEConfig) and header.partial:
        blocks += header.config.encoder_blocks
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
