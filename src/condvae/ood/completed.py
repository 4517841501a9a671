"""Completing first: the paper's baseline fills the hole and asks how ordinary the full image is to the artifact."""

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
"""The model that is asked completes, too."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Completed:
    """A score of whole images, of one completion of what is known.

    Its density is that of `inner` on whole training images, by q(z | x): to it a completion is an image like any other.
    """

    inner: Score
    completer: Completer | None = None
    """None: the model that is asked, at temperature 1, with the mean of its pixels."""
    by: str = ITSELF
    """What the completer is called in the score's name."""
    kind: ClassVar[EncoderKind | None] = "partial"

    @property
    def name(self) -> str:
        return f"completed-{self.by}" + ("" if self.inner.name == "gradient" else f"-{self.inner.name}")

    @property
    def fitted(self) -> bool:
        return self.inner.fitted

    @property
    def identity(self) -> str:
        """Of the completer, beside the model that is asked."""
        return ITSELF if self.completer is None else identity_of(self.completer)

    def features(self, inference: Inference, observation: Observation, seeds: Sequence[int]) -> Tensor:
        """The inner score's, [B, F]."""
        return self.inner.features(*self.whole(inference, observation, seeds), seeds)

    def whole(
        self, inference: Inference, observation: Observation, seeds: Sequence[int]
    ) -> tuple[Inference, Observation]:
        """What the inner score is asked about: full images, and how their latents are inferred."""
        whole = Inference.of(inference.vae, "whole")
        return whole, whole.observe(from_uint8(self.complete(inference, observation, seeds)))

    def complete(self, inference: Inference, observation: Observation, seeds: Sequence[int]) -> Tensor:
        """[B, C, H, W] uint8: one completion of each."""
        known_pixels(observation)
        if self.completer is not None:
            # Places are of 32 bits. Whoever is asked draws by them, if at all where nothing is known.
            places = [seed % 2**32 for seed in seeds]
            return complete_at(self.completer, observation, 1, seed=0, places=places)[:, 0]
        # Seeds of their own: z of the completion must have nothing in common with the z that explains it.
        own = torch.stack([seeds_from(seed, 1).on(torch.device("cpu")) for seed in seeds])
        return inference.sampler.draw(observation, own, pixels="mean")[:, 0]


def completed_of(text: str, completers: Mapping[str, Completer]) -> Completed:
    """Of "nearest", or "nearest-parts-4" for another inner score than the gradient: the completer of that name."""
    by, _, inner = (text or ITSELF).partition("-")
    if by != ITSELF and by not in completers:
        known = ", ".join((ITSELF, *completers))
        raise ValueError(
            f"the score completed-{text} needs a completer called {by!r}, there are {known}: condvae ood experiment "
            f"makes {', '.join(BASELINES)} of training images, and score_of takes any by their names"
        )
    return Completed(inner=score_of(inner or "gradient"), completer=completers.get(by), by=by)
