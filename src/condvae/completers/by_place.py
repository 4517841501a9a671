"""Run a completer so that the result for each image is independent of the rest of its batch."""

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
    """Return k completions of each observation, uint8 [B, k, C, H, W].

    places: the index of each observation in the full set of images. Random numbers depend only on this index and the
    seed. If `completer.complete` has no `places` argument, it is called for one image at a time, each with a seed that
    is derived from the image's index. This is slow for completers that are faster with large batches; these should
    accept `places`.
    name: the completer's name in error messages.
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
    """Return a digest of everything that determines the completions of a completer.

    For a conditional model it covers the weights, the configuration, the temperature and the choice of pixels; for
    nearest training images, the images. Any other completer is identified by its `identity` attribute, or by its name
    if it has none.
    """
    if isinstance(completer, ModelCompleter):
        model = completer.sampler.model
        config = {"vae": model.artifact.config.to_dict(), "partial": dataclasses.asdict(model.partial_config)}
        heat = list(completer.temperature)
        return fingerprint({"model": digest_of(model, config), "temperature": heat, "pixels": completer.pixels})
    if isinstance(completer, NearestTrainingImages):
        return fingerprint({"nearest": digest_of_set(completer.images)})
    return fingerprint({"completer": str(getattr(completer, "identity", completer.name))})


def _checked(made: object, observation: Observation, k: int, name: str) -> Tensor:
    """Return the completions, or raise a ValueError if their type, shape or dtype is wrong."""
    assert observation.pixels is not None
    expected = (len(observation), k, *observation.pixels.shape[1:])
    if not isinstance(made, Tensor):
        raise ValueError(f"{name} returned a {type(made).__name__}, expected a uint8 tensor of shape {expected}")
    if made.shape != expected or made.dtype != torch.uint8:
        raise ValueError(
            f"{name} returned a {made.dtype} tensor of shape {tuple(made.shape)}, expected a torch.uint8 tensor of "
            f"shape {expected}"
        )
    return made
