"""Create the learned baselines from their names, from JSON files and from model files."""

import dataclasses
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from condvae.completers.comodulated import Comodulated, ComodulatedConfig, ComodulatedLoss
from condvae.completers.context_encoder import ContextEncoder, ContextEncoderConfig, ContextEncoderLoss
from condvae.completers.diffusion import Diffusion, DiffusionConfig, DiffusionLoss
from condvae.completers.feature_reasoning import FeatureReasoning, FeatureReasoningConfig, FeatureReasoningLoss
from condvae.completers.feature_reasoning.reasoning_loss import PerceptualFeatures
from condvae.completers.learned_completer import BaselineConfig, CompleterLoss, LearnedCompleter
from condvae.completers.learned_names import LARGER_IMAGES, LEARNED_PRESETS, SIZES_OF_PAPER, STAGES
from condvae.completers.neural_process import NeuralProcess, NeuralProcessConfig, NeuralProcessLoss
from condvae.completers.pluralistic import Pluralistic, PluralisticConfig, PluralisticLoss
from condvae.completers.vector_quantised import VectorQuantised, VectorQuantisedConfig, stage_loss
from condvae.runtime.checks import check_choice, strict
from condvae.runtime.json_reading import read_json_file
from condvae.runtime.messages import reason_of, shown


class _Method(NamedTuple):
    """The parts of a learned baseline."""

    config: type[BaselineConfig]
    completer: Callable[[Any], LearnedCompleter]
    """Makes the network from a config."""
    loss: Callable[[Any, PerceptualFeatures | None, Any], CompleterLoss]
    """Makes the loss from the network, from a feature network or None (see `BaselineConfig.needs_features`), and from
    the name of a stage or None (see `stages_of`)."""


_METHODS: dict[str, _Method] = {
    "ce": _Method(ContextEncoderConfig, ContextEncoder, lambda completer, *_: ContextEncoderLoss(completer)),
    "anp": _Method(NeuralProcessConfig, NeuralProcess, lambda completer, *_: NeuralProcessLoss(completer)),
    "pic": _Method(PluralisticConfig, Pluralistic, lambda completer, *_: PluralisticLoss(completer)),
    "rfr": _Method(
        FeatureReasoningConfig,
        FeatureReasoning,
        lambda completer, features, _: FeatureReasoningLoss(completer, features),
    ),
    "comodgan": _Method(ComodulatedConfig, Comodulated, lambda completer, *_: ComodulatedLoss(completer)),
    "vqvae": _Method(VectorQuantisedConfig, VectorQuantised, lambda completer, _, stage: stage_loss(completer, stage)),
    "diffusion": _Method(DiffusionConfig, Diffusion, lambda completer, *_: DiffusionLoss(completer)),
}


def named_config(name: str, *, image_size: int, channels: int) -> BaselineConfig:
    """Return the configuration of a baseline for images of this size.

    name: one of `LEARNED_PRESETS`, or a JSON file with the same content as one of them.
    """
    if Path(name).suffix != ".json":
        known = ", ".join(LEARNED_PRESETS)
        if name not in LEARNED_PRESETS:
            raise ValueError(f"unknown baseline {name!r}, expected one of {known}, or a .json file")
        if image_size != (size := SIZES_OF_PAPER.get(name, image_size)):
            raise ValueError(
                f"the baseline {name} is for images of {size} x {size} pixels, but these have {image_size} x "
                f"{image_size}: give --size {size} to resize them, or use {name.removesuffix('-paper')}"
            )
        preset = LEARNED_PRESETS[name]
        larger = LARGER_IMAGES.get(preset["kind"], {}) if image_size > 32 else {}
        return config_from({**preset, **larger, "image_size": image_size, "channels": channels})
    try:
        plain = read_json_file(Path(name))
        if not isinstance(plain, dict):
            raise ValueError(f"it contains {shown(plain)}, expected a mapping of keys to values")
        if given := {"image_size", "channels"} & plain.keys():
            raise ValueError(f"it contains {min(given)}, which is taken from the images: leave it out")
        return config_from({**plain, "image_size": image_size, "channels": channels})
    except OSError as error:
        raise ValueError(f"{name} cannot be read: {error.strerror}") from error
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} is not a valid configuration of a baseline: {reason_of(error)}") from error


def config_from(plain: Mapping[str, Any]) -> BaselineConfig:
    """Read a configuration from plain data, as `config_to_dict` writes it."""
    fields = dict(plain)
    kind = fields.pop("kind", None)
    check_choice(kind, "the kind of the baseline", tuple(_METHODS))
    return strict(_METHODS[kind].config, fields, where=f"configuration of {kind}")


def config_to_dict(config: BaselineConfig) -> dict[str, Any]:
    """Return a configuration as plain data for JSON."""
    return {"kind": kind_of_config(config), **dataclasses.asdict(config)}


def kind_of_config(config: BaselineConfig) -> str:
    """Return the short name of the method that a configuration belongs to."""
    for kind, method in _METHODS.items():
        if type(config) is method.config:
            return kind
    raise ValueError(f"{type(config).__name__} is not the configuration of a learned baseline")


def make_completer(config: BaselineConfig) -> LearnedCompleter:
    """Create the network of a baseline, with random weights."""
    return _METHODS[kind_of_config(config)].completer(config)


def make_loss(
    completer: LearnedCompleter, features: PerceptualFeatures | None = None, stage: str | None = None
) -> CompleterLoss:
    """Create the loss that trains a baseline.

    features: the feature network of the loss. It may be None unless `BaselineConfig.needs_features`. stage: one of
    `stages_of`; None for a method without stages.
    """
    kind = kind_of_config(completer.config)
    check_choice(stage, f"the stage of {kind}", tuple(STAGES.get(kind, (None,))))
    return _METHODS[kind].loss(completer, features, stage)


def stages_of(name: str) -> dict[str, float]:
    """Return the stages of the training of a baseline, and their parts of the budget; none if it has no stages.

    name: as in `named_config`. A name or a file that `named_config` refuses has none.
    """
    plain = LEARNED_PRESETS.get(name, {})
    if Path(name).suffix == ".json":
        with suppress(OSError, ValueError):
            found = read_json_file(Path(name))
            plain = found if isinstance(found, dict) else {}
    kind = plain.get("kind")
    return STAGES.get(name) or (STAGES.get(kind, {}) if isinstance(kind, str) else {})
