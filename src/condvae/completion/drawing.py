"""Draw the completions of one observation, with a conditional VAE or with a baseline, and find flaws in them."""

from dataclasses import fields, replace
from typing import NamedTuple, Protocol

from torch import Tensor

from condvae.completers.learned_completer import LearnedCompleter
from condvae.completion.settings import CompletionSettings
from condvae.conditional import ConditionalVAE
from condvae.observe import Observation
from condvae.runtime.checks import check_whole, option_name
from condvae.sampling.degenerate import check_flaws, identity_warning, saturation_warning
from condvae.sampling.plain import completion_seeds
from condvae.sampling.sampler import Sampler
from condvae.vdvae.temperature import TemperatureLike, per_group

_OF_LATENTS = ("temperature", "pixels", "share")
"""Settings that only models with latents and a pixel distribution have."""


class CheckedCompletions(NamedTuple):
    """Completions of one observation, and warnings about them."""

    images: Tensor
    """[n, C, H, W] uint8."""
    warnings: tuple[str, ...]


class Drawer(Protocol):
    """Draws completions with one model and fixed settings."""

    @property
    def settings(self) -> CompletionSettings:
        """The settings, checked and completed for the model."""

    @property
    def precision(self) -> str:
        """The precision in which completions are computed."""

    def __call__(self, observation: Observation, seed: int, of: str) -> CheckedCompletions:
        """Draw completions of one observation. of: the name of the image in messages, such as " of photo.png"."""


class ModelDrawer:
    """Draws completions with a conditional VAE."""

    def __init__(self, model: ConditionalVAE, settings: CompletionSettings, *, chunk: int | None = None) -> None:
        self.model, self.settings = model, settings.checked(model.artifact.config)
        self.sampler = Sampler(model, chunk=chunk)

    @property
    def precision(self) -> str:
        return self.sampler.precision if self.settings.share is None else "fp32"

    def __call__(self, observation: Observation, seed: int, of: str) -> CheckedCompletions:
        settings = self.settings
        drawn, flaws = self.sampler.drawn(
            observation,
            completion_seeds(seed, settings.n),
            temperature=settings.temperature,
            pixels=settings.pixels,
            share=settings.share,
        )
        temperature = max(per_group(settings.temperature, self.model.artifact.config))
        saturated = check_flaws(flaws, temperature, what="completion", of=of)
        warning = saturation_warning(saturated, settings.n, temperature, what="completion", of=of)
        known = observation.known
        same = identity_warning(drawn[0].cpu(), None if known is None else known[0], temperature, of=of)
        found = (warning,) if saturated else (same,) if same and settings.share is None else ()
        return CheckedCompletions(drawn[0].cpu(), found)


class BaselineDrawer:
    """Draws completions with a learned baseline."""

    precision = "fp32"

    def __init__(self, model: LearnedCompleter, settings: CompletionSettings, *, chunk: int | None = None) -> None:
        """Check the settings. chunk: checked only, since a baseline needs little memory."""
        if chunk is not None:
            check_whole(chunk, "the chunk", least=1)
        self.model, self.settings = model, replace(settings, temperature=_number_in(settings.temperature))
        for field in fields(settings):
            if field.name in _OF_LATENTS and getattr(self.settings, field.name) != field.default:
                raise ValueError(
                    f"{model.title} has no {field.name} to choose: leave out {option_name(field.name)} "
                    f"({field.name} in Python)"
                )

    def __call__(self, observation: Observation, seed: int, of: str) -> CheckedCompletions:
        n = self.settings.n
        images = self.model.draw(observation, completion_seeds(seed, n))[0].cpu()
        one_answer = (
            f"{self.model.title} has one answer to each image, so the {n} completions{of} are the same: this does not "
            "mean that they are certain"
        )
        return CheckedCompletions(images, () if self.model.varies or n == 1 else (one_answer,))


def _number_in(temperature: TemperatureLike) -> TemperatureLike:
    """Return a temperature as a float if it is one number. The command line gives it as text."""
    try:
        return float(temperature)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return temperature
