"""Wrap a conditional model as a completer."""

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from condvae.conditional import ConditionalVAE
from condvae.observe import Observation
from condvae.runtime.messages import Say
from condvae.sampling.plain import PixelChoice
from condvae.sampling.sampler import Sampler
from condvae.vdvae.temperature import TemperatureLike, per_group


@dataclass(frozen=True, kw_only=True, eq=False)
class ModelCompleter:
    """Completes observations with a conditional model."""

    name: str
    sampler: Sampler
    temperature: Sequence[float]
    pixels: PixelChoice

    @classmethod
    def of(
        cls,
        model: ConditionalVAE | Sampler,
        *,
        name: str,
        temperature: TemperatureLike = 1.0,
        pixels: PixelChoice = "mean",
        chunk: int | None = None,
        say: Say | None = None,
    ) -> "ModelCompleter":
        """Wrap a model or an existing sampler.

        chunk, say: passed to the `Sampler` that is created for a model; ignored if a sampler is given.
        """
        config = (model.model if isinstance(model, Sampler) else model).artifact.config
        temperatures = per_group(temperature, config)
        if not isinstance(model, Sampler):
            model = Sampler(model, chunk=chunk, say=say)
        return cls(name=name, sampler=model, temperature=temperatures, pixels=pixels)

    @property
    def varies(self) -> bool:
        return self.pixels == "sample" or any(self.temperature)

    def complete(self, observation: Observation, k: int, seed: int, *, places: Sequence[int] | None = None) -> Tensor:
        assert observation.pixels is not None and observation.known is not None
        seen = self.sampler.model.observe(observation.pixels, observation.known)  # with the normalisation of this model
        return self.sampler(seen, k, seed=seed, temperature=self.temperature, pixels=self.pixels, places=places)
