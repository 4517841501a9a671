"""Models as completers, and asking a completer so that no answer hangs on what else is asked."""

import dataclasses
import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from condvae.baselines import Completer, NearestTrainingImages
from condvae.observe import Observation
from condvae.observe.observation import observe_pixels
from condvae.partial import ConditionalVAE
from condvae.pixels import from_uint8
from condvae.registry import Say
from condvae.sample import Pixels
from condvae.sampler import Sampler
from condvae.temperature import TemperatureLike, per_group
from condvae.train.seeds import Seeds
from condvae.workshare import digest_of, digest_of_set, fingerprint


@dataclass(frozen=True, kw_only=True, eq=False)
class ModelCompleter:
    """A conditional model as a completer."""

    name: str
    sampler: Sampler
    temperature: Sequence[float]
    pixels: Pixels

    @classmethod
    def of(
        cls,
        model: ConditionalVAE | Sampler,
        *,
        name: str,
        temperature: TemperatureLike = 1.0,
        pixels: Pixels = "mean",
        chunk: int | None = None,
        say: Say | None = None,
    ) -> "ModelCompleter":
        """A model on its device, or a sampler as it is. chunk, say: of the sampler that a model is given."""
        config = (model.model if isinstance(model, Sampler) else model).artifact.config
        heat = per_group(temperature, config)
        if not isinstance(model, Sampler):
            # On a CPU "auto" would take whichever precision is faster at the moment: no two runs need agree.
            on_gpu = model.artifact.decoder.gain.device.type == "cuda"
            model = Sampler(model, precision="auto" if on_gpu else "fp32", chunk=chunk, say=say)
        return cls(name=name, sampler=model, temperature=heat, pixels=pixels)

    @property
    def varies(self) -> bool:
        return self.pixels == "sample" or any(self.temperature)

    def complete(self, observation: Observation, k: int, seed: int, *, places: Sequence[int] | None = None) -> Tensor:
        assert observation.pixels is not None and observation.known is not None
        seen = self.sampler.model.observe(observation.pixels, observation.known)  # as this model normalises it
        return self.sampler(seen, k, seed=seed, temperature=self.temperature, pixels=self.pixels, places=places)


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


def observe(truth: Tensor, known: Tensor) -> Observation:
    """Grey levels [B, C, H, W] where known: what every completer is given."""
    return observe_pixels(from_uint8(torch.where(known, truth, 0)), known, lambda images: images)


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
