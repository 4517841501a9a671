"""Import public checkpoints (`.th`): VAEs of the VD-VAE release, and conditional models of the paper's authors.

Both are flat dictionaries of tensors, whose names may have the prefix `module.` from data-parallel training. The
authors' checkpoints of unconditional VAEs also contain some blocks of a partial encoder (`part_enc`). If its other part
(`part_encoder`) is missing, these blocks are unused and are not imported.
"""

import re
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from condvae.conditional import ConditionalVAE, PartialConfig
from condvae.likelihood import LogisticMixture
from condvae.runtime.checks import first_few
from condvae.runtime.devices import without_weights
from condvae.runtime.messages import listed
from condvae.vdvae.config import Normalisation, Stage, VDVAEConfig
from condvae.vdvae.model import VDVAE
from condvae.vdvae.presets import PUBLIC_PRESETS, preset
from condvae.weights.artifact_file import assemble

# Public names on the left, our names on the right. `_START` below handles the decoder's bias images, which the public
# code numbers by position and we name by resolution.
_ARTIFACT_NAMES = (
    (r"encoder\.in_conv\.(weight|bias)", r"encoder.pyramid.input.\1"),
    (r"encoder\.enc_blocks\.(0|[1-9]\d*)\.(c[1-4]\.(?:weight|bias))", r"encoder.pyramid.blocks.\1.\2"),
    (r"decoder\.dec_blocks\.(0|[1-9]\d*)\.enc\.(c[1-4]\.(?:weight|bias))", r"encoder.heads.\1.\2"),
    (r"decoder\.dec_blocks\.(0|[1-9]\d*)\.prior\.(c[1-4]\.(?:weight|bias))", r"decoder.blocks.\1.prior.\2"),
    (r"decoder\.dec_blocks\.(0|[1-9]\d*)\.resnet\.(c[1-4]\.(?:weight|bias))", r"decoder.blocks.\1.residual.\2"),
    (r"decoder\.dec_blocks\.(0|[1-9]\d*)\.z_proj\.(weight|bias)", r"decoder.blocks.\1.projection.\2"),
    (r"decoder\.out_net\.out_conv\.(weight|bias)", r"decoder.output.\1"),
    (r"decoder\.(gain|bias)", r"decoder.\1"),
)
_PARTIAL_NAMES = (
    (r"part_encoder\.in_conv\.(weight|bias)", r"pyramid.input.\1"),
    (r"part_encoder\.enc_blocks\.(0|[1-9]\d*)\.(c[1-4]\.(?:weight|bias))", r"pyramid.blocks.\1.\2"),
    (r"decoder\.dec_blocks\.(0|[1-9]\d*)\.part_enc\.(c[1-4]\.(?:weight|bias))", r"heads.\1.\2"),
)
_START = r"decoder\.bias_xs\.(0|[1-9]\d*)"


@dataclass(frozen=True, kw_only=True)
class LayerStrings:
    """The part of a network's configuration that the shapes of its weights do not show.

    Layers are in the notation of the public code: `32x11` is eleven blocks at resolution 32, `32d2` is a block at
    resolution 32 followed by pooling by a factor of 2, and `4m1` is a decoder block at resolution 4 that first mixes in
    (adds) the enlarged state of resolution 1.
    """

    encoder: str
    decoder: str
    bits: int
    normalisation: Normalisation
    largest_bias: int = 64
    """The finest resolution at which the decoder has a learnt bias image (no_bias_above in the public code)."""


def import_public(path: str | Path, layers: str | VDVAEConfig | LayerStrings | None = None) -> VDVAE | ConditionalVAE:
    """Read a public checkpoint. Return a conditional model if it contains a partial encoder, otherwise a VDVAE.

    layers: describes the network: the name of a preset, a config, or layer strings (the shapes of the weights give the
        rest). None means the one preset whose weights have the same shapes.
    """
    path = Path(path)
    state = read_checkpoint(path)
    if layers is None:
        config = _recognise(state, origin=str(path))
    elif isinstance(layers, LayerStrings):
        config = public_config(state, layers, origin=str(path))
    elif isinstance(layers, str):
        config = preset(layers)
    else:
        config = layers
    artifact_weights, partial_weights = _rename(state, config, origin=str(path))
    if not partial_weights:
        return assemble(config, None, artifact_weights, origin=str(path))
    partial = PartialConfig(channels=_shape(state, "part_encoder.in_conv.weight", str(path))[1])
    weights = {f"artifact.{name}": tensor for name, tensor in artifact_weights.items()}
    weights |= {f"partial.{name}": tensor for name, tensor in partial_weights.items()}
    return assemble(config, partial, weights, origin=str(path))


def read_checkpoint(path: Path) -> dict[str, Tensor]:
    """Return the tensors of a `.th` file by name, without the prefix `module.`.

    Raise ValueError if the file contains pickled code, which is never run.
    """
    if not path.is_file():
        raise ValueError(f"{path} does not exist: give the path of a .th checkpoint")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch warns about foreign pickles, but the error below is enough
            content = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:
        # A damaged pickle can raise any exception, and torch's own message would advise running the file's code.
        raise ValueError(
            f"{path} is not a checkpoint of plain tensors: it is damaged, truncated or of another kind, or it contains "
            "code, which is never run"
        ) from error
    if not isinstance(content, dict) or not content:
        raise ValueError(f"{path} contains a {type(content).__name__}, expected a non-empty dictionary of tensors")
    if others := [
        str(name) for name, value in content.items() if not isinstance(name, str) or not isinstance(value, Tensor)
    ]:
        raise ValueError(f"{path} contains entries that are not tensors: {first_few(others)}")
    if unusual := [name for name, tensor in content.items() if tensor.layout != torch.strided or tensor.is_meta]:
        raise ValueError(f"{path} contains tensors that are sparse or have no values: {first_few(unusual)}")
    state = {name.removeprefix("module."): tensor for name, tensor in content.items()}
    if len(state) < len(content):
        raise ValueError(f"{path} contains some weights twice, with and without the prefix 'module.'")
    return state


def public_config(state: Mapping[str, Tensor], layers: LayerStrings, *, origin: str = "the checkpoint") -> VDVAEConfig:
    """Return the config of the network in a checkpoint.

    The shapes of the weights give the widths and the numbers of channels, latent channels and mixture components;
    `layers` gives the rest.
    """
    encoder = _parse_encoder(layers.encoder)
    decoder = _parse_decoder(layers.decoder)
    if missing := sorted(set(decoder) - set(encoder)):
        raise ValueError(f"the decoder string has the resolutions {missing}, which the encoder string does not have")
    stages = []
    encoder_block, decoder_block = 0, sum(decoder.values())
    for resolution, count in encoder.items():
        decoder_block -= decoder.get(resolution, 0)
        if count:
            first = f"encoder.enc_blocks.{encoder_block}.c1.weight"
        else:  # the coarsest stage has no encoder block if it is only pooled to
            first = f"decoder.dec_blocks.{decoder_block}.prior.c1.weight"
        inner, width = _shape(state, first, origin)[:2]
        stages.append(
            Stage(
                resolution=resolution,
                width=width,
                inner=inner,
                encoder_blocks=count,
                decoder_blocks=decoder.get(resolution, 0),
            )
        )
        encoder_block += count
    outputs = _shape(state, "decoder.out_net.out_conv.weight", origin)[0]
    channels = _shape(state, "encoder.in_conv.weight", origin)[1]
    return VDVAEConfig(
        stages=tuple(stages),
        latent_channels=_shape(state, "decoder.dec_blocks.0.z_proj.weight", origin)[1],
        largest_bias=layers.largest_bias,
        likelihood=LogisticMixture(
            channels=channels, components=max(1, outputs // (10 if channels == 3 else 3)), bits=layers.bits
        ),
        normalisation=layers.normalisation,
    )


def _recognise(state: Mapping[str, Tensor], *, origin: str) -> VDVAEConfig:
    """Return the config of the public preset with weights of these shapes; raise ValueError unless there is one."""
    channels = _shape(state, "encoder.in_conv.weight", origin)[1]
    fitting = []
    for name in PUBLIC_PRESETS:
        config = preset(name, channels=channels if channels in (1, 3) else None)
        with without_weights():
            wanted = {n: t.shape for n, t in VDVAE(config).state_dict().items()}
        try:
            weights, _ = _rename(state, config, origin=origin)
        except ValueError:
            continue
        if {n: t.shape for n, t in weights.items()} == wanted:
            fitting.append((name, config))
    if len(fitting) == 1:
        return fitting[0][1]
    found = (
        f"the presets {listed(name for name, _ in fitting)} have weights of these shapes"
        if fitting
        else "no preset has weights of these shapes"
    )
    raise ValueError(
        f"the network of {origin} cannot be recognised ({found}): "
        f"name a preset ({', '.join(PUBLIC_PRESETS)}) or give the layer strings"
    )


def _rename(
    state: Mapping[str, Tensor], config: VDVAEConfig, *, origin: str
) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Rename weights from the public names to ours; return the artifact's weights and the partial encoder's weights.

    The latter are empty if the checkpoint has no complete partial encoder. Raise ValueError if a name is unknown.
    """
    starts = [stage.resolution for stage in config.decoder_stages if stage.resolution <= config.largest_bias]
    artifact: dict[str, Tensor] = {}
    partial: dict[str, Tensor] = {}
    unknown = []
    for name, tensor in state.items():
        start = re.fullmatch(_START, name)
        if start and int(start[1]) < len(starts):
            artifact[f"decoder.starts.{starts[int(start[1])]}"] = tensor
        elif ours := _match(name, _ARTIFACT_NAMES):
            artifact[ours] = tensor
        elif ours := _match(name, _PARTIAL_NAMES):
            partial[ours] = tensor
        else:
            unknown.append(name)
    if unknown:
        raise ValueError(f"{origin} contains weights with unknown names: {first_few(unknown)}")
    has_partial_encoder = any(name.startswith("pyramid.") for name in partial)
    return artifact, partial if has_partial_encoder else {}


def _match(name: str, table: tuple[tuple[str, str], ...]) -> str | None:
    for pattern, replacement in table:
        if match := re.fullmatch(pattern, name):
            return match.expand(replacement)
    return None


def _parse_encoder(text: str) -> dict[int, int]:
    """Return {resolution: number of blocks} of an encoder string: '8x2,8d2,4d4,1x1' gives {8: 3, 4: 1, 1: 1}."""
    counts: dict[int, int] = {}
    resolution: int | None = None
    for resolution_here, letter, number in _tokens(text, "xd"):
        if resolution is not None and resolution_here != resolution:
            raise ValueError(
                f"the encoder string {text!r} has a layer at resolution {resolution_here}, expected resolution "
                f"{resolution}: change the resolution only by pooling, as in 32d2"
            )
        resolution = resolution_here
        counts[resolution] = counts.get(resolution, 0) + (number if letter == "x" else 1)
        if letter == "d":
            if number < 2 or resolution % number:
                raise ValueError(
                    f"the encoder string {text!r} pools resolution {resolution} by {number}, expected a divisor of the "
                    "resolution above 1"
                )
            resolution //= number
    if resolution is not None:
        counts.setdefault(resolution, 0)
    return counts


def _parse_decoder(text: str) -> dict[int, int]:
    """Return {resolution: number of blocks} of a decoder string: '1x1,4m1,4x2' gives {1: 1, 4: 3}."""
    counts: dict[int, int] = {}
    for resolution, letter, number in _tokens(text, "xm"):
        reached = max(counts, default=None)
        if letter == "m" and (resolution in counts or number != reached):
            raise ValueError(
                f"the decoder string {text!r} mixes resolution {number} into {resolution}: "
                "mix in only the previous resolution, and only in the first block of a resolution"
            )
        if letter == "x" and reached is not None and resolution != reached:
            raise ValueError(
                f"the decoder string {text!r} starts resolution {resolution} without mixing in {reached}: "
                f"write {resolution}m{reached} first"
            )
        counts[resolution] = counts.get(resolution, 0) + (number if letter == "x" else 1)
    return counts


def _tokens(text: str, letters: str) -> list[tuple[int, str, int]]:
    tokens = []
    for token in text.split(","):
        match = re.fullmatch(rf"(\d+)([{letters}])(\d+)", token.strip())
        if not match:
            raise ValueError(
                f"{token!r} is not a layer, expected for example 32x11, 32d2 (encoder only) or 4m1 (decoder only)"
            )
        tokens.append((int(match[1]), match[2], int(match[3])))
    return tokens


def _shape(state: Mapping[str, Tensor], name: str, origin: str) -> tuple[int, ...]:
    if name not in state:
        raise ValueError(
            f"{origin} lacks the weights {name}: it is not a checkpoint of the VD-VAE release or of the paper's "
            "authors, or it contains another network"
        )
    shape = tuple(state[name].shape)
    if len(shape) != 4:
        raise ValueError(f"{name} in {origin} has the shape {shape}, expected four dimensions, as a convolution has")
    return shape
