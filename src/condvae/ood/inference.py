"""Infer latents by the partial encoder c(z | y) from an observation, or by the encoder q(z | x) from a whole image."""

import dataclasses
import functools
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import torch
from torch import Tensor

from condvae.conditional import ConditionalVAE
from condvae.observe import Observation, observe_pixels
from condvae.observe.batch import Batch
from condvae.runtime.checks import check_choice
from condvae.runtime.fingerprints import digest_of
from condvae.sampling.sampler import Sampler
from condvae.vdvae import VDVAE
from condvae.vdvae.encoder import Posterior

EncoderKind: TypeAlias = Literal["partial", "whole"]
"""The encoder that infers the latents. "partial": the partial encoder, from an observation. "whole": the artifact's
encoder, from a whole image."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Inference:
    """A model, with a choice of the encoder that infers its latents."""

    kind: EncoderKind
    """The encoder. "partial": c(z | y) of a ConditionalVAE. "whole": q(z | x) of the artifact, for whole images."""
    model: VDVAE | ConditionalVAE

    def __post_init__(self) -> None:
        check_choice(self.kind, "the kind of inference", ("partial", "whole"))
        if self.kind == "partial" and not isinstance(self.model, ConditionalVAE):
            raise ValueError("an unconditional VAE only takes whole images: train a partial encoder with condvae train")

    @classmethod
    def of(cls, model: VDVAE | ConditionalVAE, kind: EncoderKind | None = None) -> "Inference":
        """Make an inference. If kind is None, choose "partial" for a ConditionalVAE and "whole" for a VDVAE."""
        if kind is None:
            kind = "partial" if isinstance(model, ConditionalVAE) else "whole"
        return cls(kind=kind, model=model)

    @property
    def vae(self) -> VDVAE:
        """The VAE: the artifact of a conditional model, or the unconditional model itself."""
        return self.model.artifact if isinstance(self.model, ConditionalVAE) else self.model

    @property
    def device(self) -> torch.device:
        return self.vae.device

    @property
    def groups(self) -> int:
        """The number of latent groups, L."""
        return len(self.vae.config.group_stages)

    @functools.cached_property
    def identity(self) -> str:
        """A digest of the weights and the configuration; for kind "partial", also of the observation process."""
        config: dict[str, Any] = {"vae": self.vae.config.to_dict()}
        if self.kind == "whole":
            return f"whole-{digest_of(self.vae, config)}"
        model = self._conditional
        config["partial"] = dataclasses.asdict(model.partial_config)
        config["process"] = model.process.to_dict() if model.process else None
        return f"partial-{digest_of(model, config)}"

    @functools.cached_property
    def sampler(self) -> Sampler:
        """A sampler of completions, in float32 like all scores. It is reused, since on a GPU it holds CUDA graphs."""
        return Sampler(self._conditional, precision="fp32")

    def observe(self, images: Tensor, known: Tensor | None = None) -> Observation:
        """Make observations of images, [B, C, H, W] in [-1, 1].

        known: bool [B, 1, H, W], True where a pixel is known; None if all pixels are known.
        """
        if known is None:
            known = torch.ones(len(images), 1, *images.shape[2:], dtype=torch.bool, device=images.device)
        if self.kind == "partial" and not self._conditional.completes_holes:
            process = self._conditional.process
            observes = process.name if process else "something else"
            raise ValueError(f"this model observes {observes}, not pixels: use a model that completes holes")
        images = images.to(self.vae.decoder.gain).contiguous()  # another memory layout could round differently
        self.vae.check(images, values=False)
        observation = observe_pixels(images, known.to(self.device), self.vae.normalise)
        if self.kind == "whole":
            _check_whole(observation)
        return observation

    def draw(self, batch: Batch, generator: torch.Generator) -> Observation:
        """Draw an observation of each image by the model's observation process; with kind "whole", hide nothing.

        The batch must be on the generator's device.
        """
        if self.kind == "whole":
            return self.observe(batch.x)
        process = self._conditional.process
        if process is None:
            raise ValueError(
                "this model has no observation process, so no observations can be drawn: set model.process"
            )
        batch = dataclasses.replace(batch, x=batch.x.to(self.vae.decoder.gain.dtype))
        return process.observe(batch, normalise=self.vae.normalise, generator=generator).to(self.device)

    def source(self, observation: Observation) -> Posterior:
        """Return the distribution of the latents: c(z | y) given the observation, or q(z | x) with kind "whole"."""
        if self.kind == "partial":
            return self._conditional.posterior(observation)
        return self.vae.posterior(_check_whole(observation))

    @property
    def _conditional(self) -> ConditionalVAE:
        assert isinstance(self.model, ConditionalVAE)  # checked by __post_init__
        return self.model


def _check_whole(observation: Observation) -> Tensor:
    """Return the pixels of an observation, [B, C, H, W]. Raise ValueError if pixels are hidden or there are none."""
    if observation.pixels is None or observation.known is None:
        raise ValueError("q(z | x) needs the pixels of images, but this observation has none: use a conditional model")
    if not bool(observation.known.all()):
        raise ValueError("q(z | x) needs whole images, but some pixels are hidden: use a conditional model")
    return observation.pixels
