"""The paper's baseline: complete the image first, then score the completed image with the artifact's encoder."""

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
"""The name, in scores such as completed-ipa, for completions drawn by the scored model itself."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Completed:
    """A score that draws one completion of each observation and scores the completion as a whole image.

    The score `inner` is used for the whole image. Its density is fitted to whole training images, with latents from
    q(z | x).
    """

    inner: Score
    completer: Completer | None = None
    """Draws the completions. If None, the scored model draws them, at temperature 1 and with the means of pixels."""
    by: str = ITSELF
    """The completer's name, which becomes part of the score's name."""
    kind: ClassVar[EncoderKind | None] = "partial"

    @property
    def name(self) -> str:
        return f"completed-{self.by}" + ("" if self.inner.name == "gradient" else f"-{self.inner.name}")

    @property
    def fitted(self) -> bool:
        return self.inner.fitted

    @property
    def identity(self) -> str:
        """A text that identifies the completer, but not the scored model."""
        return ITSELF if self.completer is None else identity_of(self.completer)

    def features(self, inference: Inference, observation: Observation, seeds: Sequence[int]) -> Tensor:
        """Draw one completion per observation and return its features for the score `inner`, [B, F]."""
        return self.inner.features(*self.whole(inference, observation, seeds), seeds)

    def whole(
        self, inference: Inference, observation: Observation, seeds: Sequence[int]
    ) -> tuple[Inference, Observation]:
        """Return the inputs of the score `inner`: an inference by q(z | x), and the completions as whole images."""
        whole = Inference.of(inference.vae, "whole")
        return whole, whole.observe(from_uint8(self.complete(inference, observation, seeds)))

    def complete(self, inference: Inference, observation: Observation, seeds: Sequence[int]) -> Tensor:
        """Draw one completion per observation: uint8 [B, C, H, W]."""
        known_pixels(observation)
        if self.completer is not None:
            # A completer that draws at random derives its random numbers from places, which are 32-bit numbers.
            places = [seed % 2**32 for seed in seeds]
            return complete_at(self.completer, observation, 1, seed=0, places=places)[:, 0]
        # Use separate seeds: the latents of a completion must be independent of the latents that later explain it.
        own = torch.stack([seeds_from(seed, 1).on(torch.device("cpu")) for seed in seeds])
        return inference.sampler.draw(observation, own, pixels="mean")[:, 0]


def parse_completed(text: str, completers: Mapping[str, Completer]) -> Completed:
    """Make a completion score from `text`, the part of its name after "completed-".

    "nearest" completes with the completer "nearest" and scores with the temperature gradient. "nearest-parts-4" uses
    the same completer and scores with parts-4.
    """
    by, _, inner = (text or ITSELF).partition("-")
    if by != ITSELF and by not in completers:
        known = ", ".join((ITSELF, *completers))
        raise ValueError(
            f"the score completed-{text} needs a completer named {by!r} (available here: {known}): in condvae ood "
            f"experiment use one of {', '.join(BASELINES)} or add --completers {by}=MODEL, or pass a completer of that "
            "name to score_of"
        )
    return Completed(inner=score_of(inner or "gradient"), completer=completers.get(by), by=by)
