"""Open models as completers, under names that the user gives, as in comodgan=out/comodgan."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

import torch

from condvae import weights
from condvae.completers.interface import Completer
from condvae.completers.learned_completer import LearnedCompleter
from condvae.completers.model_completer import ModelCompleter
from condvae.conditional import ConditionalVAE
from condvae.weights.artifact_file import as_conditional

CompleterLike: TypeAlias = str | Path | ConditionalVAE | Completer
"""A completer: the name or the path of a model, a model in memory, or any other object that completes images."""


def named_models(texts: Sequence[str], *, what: str = "models") -> dict[str, Path]:
    """Return the file of each model by its name. texts: NAME=MODEL, or MODEL, whose name is then that of its file.

    what: the word for these models in error messages.
    """
    found: dict[str, Path] = {}
    for text in texts:
        name, equals, model = text.partition("=")
        if not equals or Path(text).exists():
            name, model = "", text
        path = weights.locate(model)
        name = name.strip() or weights.title_of(model, path)
        if name in found:
            raise ValueError(f"two {what} are called {name}: give one of them another name, as in NAME={model}")
        found[name] = path
    return found


def open_completers(
    given: Mapping[str, CompleterLike], *, size: int, channels: int, device: torch.device
) -> dict[str, Completer]:
    """Return the completers by name, on a device. Conditional VAEs complete at temperature 1, with means of pixels.

    Raise a ValueError if a model does not complete holes in images of size x size pixels with these channels.
    """
    return {name: _opened(model, name, size, channels, device) for name, model in given.items()}


def _opened(given: CompleterLike, name: str, size: int, channels: int, device: torch.device) -> Completer:
    if isinstance(given, str | Path):
        loaded = weights.load(given)
        model: Completer | ConditionalVAE = (
            loaded if isinstance(loaded, LearnedCompleter) else as_conditional(loaded, given)
        )
    else:
        model = given
    if not isinstance(model, ConditionalVAE | LearnedCompleter):
        return model
    if not model.completes_holes:
        raise ValueError(f"{name} was not trained to complete images with holes: give a model that was")
    if (model.image_size, model.channels) != (size, channels):
        raise ValueError(
            f"{name} makes images of {model.image_size} x {model.image_size} x {model.channels}, expected "
            f"{size} x {size} x {channels} (height, width, channels): give a model for these images"
        )
    model = model.to(device).eval()
    return ModelCompleter.of(model, name=name) if isinstance(model, ConditionalVAE) else model
