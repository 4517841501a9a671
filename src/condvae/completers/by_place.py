"""Asking a completer so that each result is independent of the rest of its batch."""

import dataclasses
import inspect
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from condvae.completers.interface import Completer
from condvae.completers.model_completer import ModelCompleter
from condvae.completers.nearest import NearestTrainingImages
from condvae.data.digests import digest_of_set
from condvae.observe import Observation
from condvae.runtime.fingerprints import digest_of, fingerprint
from condvae.runtime.seeds import Seeds


def complete_at(
    completer: Completer, observation: Observation, k: int, *, seed: int, places: Sequence[int], name: str | None = None
) -> Tensor:
    """[B, k, C, H, W] uint8: k completions of observations that stand at these places among many.

    A completer that takes no places is asked for one image at a time, with a seed for its place, so that nothing
    hangs on which images come together: slow for one that gains from large batches, which should take them.
    """
    name = completer.name if name is None else name
    if "places" in inspect.signature(completer.complete).parameters:
        given: Any = {"places": list(places)}
        return _checked(completer.complete(observation, k, seed, **given), observation, k, name)
    seeds, made = Seeds(seed, "places"), []
    for i, place in enumerate(places):
        one = observation[i : i + 1]
        made.append(_checked(completer.complete(one, k, seeds(place)), one, k, name))
    return torch.cat(made)


def identity_of(completer: Completer) -> str:
    """A digest of all that decides its completions; one of other people's that has no `identity` goes by its name."""
    if isinstance(completer, ModelCompleter):
        model = completer.sampler.model
        config = {"vae": model.artifact.config.to_dict(), "partial": dataclasses.asdict(model.partial_config)}
        heat = list(completer.temperature)
        return fingerprint({"model": digest_of(model, config), "temperature": heat, "pixels": completer.pixels})
    if isinstance(completer, NearestTrainingImages):
        return fingerprint({"nearest": digest_of_set(completer.images)})
    return fingerprint({"completer": str(getattr(completer, "identity", completer.name))})


def _checked(made: object, observation: Observation, k: int, name: str) -> Tensor:
    """An answer as it must be, or a ValueError."""
    assert observation.pixels is not None
    expected = (len(observation), k, *observation.pixels.shape[1:])
    if not isinstance(made, Tensor):
        raise ValueError(f"{name} gave a {type(made).__name__}, expected a tensor, uint8 of {expected}")
    if made.shape != expected or made.dtype != torch.uint8:
        raise ValueError(f"{name} gave {made.dtype} of shape {tuple(made.shape)}, expected torch.uint8 of {expected}")
    return made
