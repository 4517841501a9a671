"""The paper's baseline: complete the image first, then score the completed image with the artifact."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from condvae.completers import BASELINES
from condvae.completers.by_place import complete_at, identity_of
from condvae.completers.interface import Completer
from condvae.observe import Observation
from condvae.ood.bound import known_pixels
from condvae.ood.inference import EncoderKind, Inference
from condvae.ood.scores import Score, score_of
from condvae.runtime.pixels import from_uint8
from condvae.sampling.plain import seeds_from

ITSELF = "ipa"
"""The completer's name when the scored model itself draws the completion."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Completed:
    """Draw one completion of each observation and score it as a whole image.

    The density is that of the score `inner` on whole training images, with latents from q(z | x).
    """

    inner: Score
    completer: Completer | None = None
    """Draws the completion. None: the scored model does, at temperature 1, and its pixel means are used."""
    by: str = ITSELF
    """The completer's name, which is part of the score's name."""
    kind: ClassVar[EncoderKind | None] = "partial"

    @property
    def name(self) -> str:
        return f"completed-{self.by}" + ("" if self.inner.name == "gradient" else f"-{self.inner.name}")

    @property
    def fitted(self) -> bool:
        return self.inner.fitted

    @property
    def identity(self) -> str:
        """Identifies the completer; the scored model is identified separately."""
        return ITSELF if self.completer is None else identity_of(self.completer)

    def features(self, inference: Inference, observation: Observation, seeds: Sequence[int]) -> Tensor:
        """Return the inner score's features of one completion per observation, [B, F]."""
        return self.inner.features(*self.whole(inference, observation, seeds), seeds)

    def whole(
        self, inference: Inference, observation: Observation, seeds: Sequence[int]
    ) -> tuple[Inference, Observation]:
        """Return inference by q(z | x) and the completions as whole images: the inputs of the inner score."""
        whole = Inference.of(inference.vae, "whole")
        return whole, whole.observe(from_uint8(self.complete(inference, observation, seeds)))

    def complete(self, inference: Inference, observation: Observation, seeds: Sequence[int]) -> Tensor:
        """Draw one completion per observation: uint8 [B, C, H, W]."""
        known_pixels(observation)
        if self.completer is not None:
            # Places are 32-bit numbers. A completer that draws at random derives its random numbers from them.
            places = [seed % 2**32 for seed in seeds]
            return complete_at(self.completer, observation, 1, seed=0, places=places)[:, 0]
        # Use separate seeds: the latents of a completion must be independent of the latents that later explain it.
        own = torch.stack([seeds_from(seed, 1).on(torch.device("cpu")) for seed in seeds])
        return inference.sampler.draw(observation, own, pixels="mean")[:, 0]


def parse_completed(text: str, completers: Mapping[str, Completer]) -> Completed:
    """Make the score for the part of its name after "completed-".

    "nearest" means: complete with the completer "nearest" and score with the gradient. "nearest-parts-4" means: score
    with parts-4 instead.
    """
    by, _, inner = (text or ITSELF).partition("-")
    if by != ITSELF and by not in completers:
        known = ", ".join((ITSELF, *completers))
        raise ValueError(
            f"the score completed-{text} needs a completer named {by!r} (available here: {known}): use "
            f"{', '.join(BASELINES)} with condvae ood experiment, or pass a completer of that name to score_of"
        )
    return Completed(inner=score_of(inner or "gradient"), completer=completers.get(by), by=by)
