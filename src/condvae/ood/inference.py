"""How the latents of an image are inferred: by c(z | y) from what is seen of it, or by q(z | x) from all of it."""

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


@dataclass(frozen=True, kw_only=True, eq=False)
class Inference:
    """A model, and which of its encoders is asked."""

    kind: EncoderKind
    """partial: c(z | y) of a ConditionalVAE. whole: q(z | x) of the artifact, for images that are seen as a whole."""
    model: VDVAE | ConditionalVAE

    def __post_init__(self) -> None:
        check_choice(self.kind, "the kind of inference", ("partial", "whole"))
        if self.kind == "partial" and not isinstance(self.model, ConditionalVAE):
            raise ValueError("an unconditional VAE sees whole images alone: condition it first with condvae train")

    @classmethod
    def of(cls, model: VDVAE | ConditionalVAE, kind: EncoderKind | None = None) -> "Inference":
        """kind None: partial for a ConditionalVAE, whole for a VDVAE."""
        if kind is None:
            kind = "partial" if isinstance(model, ConditionalVAE) else "whole"
        return cls(kind=kind, model=model)

    @property
    def vae(self) -> VDVAE:
        """The artifact."""
        return self.model.artifact if isinstance(self.model, ConditionalVAE) else self.model

    @property
    def device(self) -> torch.device:
        return self.vae.device

    @property
    def groups(self) -> int:
        """L, of latents."""
        return len(self.vae.config.group_stages)

    @functools.cached_property
    def identity(self) -> str:
        """Of the networks that are asked, by their weights, and of what c was trained on; the artifact alone for q."""
        config: dict[str, Any] = {"vae": self.vae.config.to_dict()}
        if self.kind == "whole":
            return f"whole-{digest_of(self.vae, config)}"
        model = self._conditional
        config["partial"] = dataclasses.asdict(model.partial_config)
        config["process"] = model.process.to_dict() if model.process else None
        return f"partial-{digest_of(model, config)}"

    @functools.cached_property
    def sampler(self) -> Sampler:
        """Draws from p(x | y) in float32, as scores are computed; of a GPU it keeps the graphs."""
        return Sampler(self._conditional, precision="fp32")

    def observe(self, images: Tensor, known: Tensor | None = None) -> Observation:
        """Images [B, C, H, W] in [-1, 1] where `known` ([B, 1, H, W] bool) is True; None: all of them is seen."""
        if known is None:
            known = torch.ones(len(images), 1, *images.shape[2:], dtype=torch.bool, device=images.device)
        if self.kind == "partial" and not self._conditional.completes_holes:
            process = self._conditional.process
            observes = process.name if process else "something else"
            raise ValueError(f"this model observes {observes}, not pixels of an image: nothing can be hidden from it")
        images = images.to(self.vae.decoder.gain).contiguous()  # in another order networks would round otherwise
        self.vae.check(images, values=False)
        observation = observe_pixels(images, known.to(self.device), self.vae.normalise)
        if self.kind == "whole":
            _check_whole(observation)
        return observation

    def draw(self, batch: Batch, generator: torch.Generator) -> Observation:
        """What is seen of a batch on the generator's device, by the process that c was trained on; whole: all of it."""
        if self.kind == "whole":
            return self.observe(batch.x)
        process = self._conditional.process
        if process is None:
            raise ValueError(
                "this model does not say what it was trained to observe, so nothing can be drawn: set model.process"
            )
        batch = dataclasses.replace(batch, x=batch.x.to(self.vae.decoder.gain.dtype))
        return process.observe(batch, normalise=self.vae.normalise, generator=generator).to(self.device)

    def source(self, observation: Observation) -> Posterior:
        """c(. | y), or q(. | x)."""
        if self.kind == "partial":
            return self._conditional.posterior(observation)
        return self.vae.posterior(_check_whole(observation))

    @property
    def _conditional(self) -> ConditionalVAE:
        assert isinstance(self.model, ConditionalVAE)  # as __post_init__ has seen
        return self.model


def _check_whole(observation: Observation) -> Tensor:
    """[B, C, H, W]: the pixels, or a ValueError unless all of them are known."""
    if observation.pixels is None or observation.known is None:
        raise ValueError("q(z | x) needs the pixels of images, but this observation has none: use a conditional model")
    if not bool(observation.known.all()):
        raise ValueError("q(z | x) needs whole images, but some pixels are hidden: use a conditional model for these")
    return observation.pixels
