"""The score LLR^{>k}, a likelihood ratio, of Havtorn et al. 2021, "Hierarchical VAEs know what they don't know".

An image may be likely only because its fine latents can explain any texture. If the fine latents are drawn from the
prior instead, the coarse latents alone must explain the image, and the bound drops. A large drop means that the image
is strange.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from condvae.gaussian import Gaussian
from condvae.noise import as_noise
from condvae.observe import Observation
from condvae.ood.bound import log_evidence
from condvae.ood.inference import EncoderKind, Inference
from condvae.runtime.checks import check_whole
from condvae.vdvae import VDVAEConfig
from condvae.vdvae.encoder import Prior, Source


@dataclass(frozen=True, kw_only=True)
class Ratio:
    """The score b_coarse - b_all, where both terms are bounds on log p(y).

    For b_all, all latents are inferred. For b_coarse, only the latents up to `resolution` are inferred, and the finer
    ones are drawn from the prior.
    """

    fitted: ClassVar[bool] = False
    kind: ClassVar[EncoderKind | None] = None
    resolution: int = 1
    """The finest resolution whose latents are inferred in both bounds. On validation images of CIFAR-10, 1 was better
    than 4 and 8."""

    def __post_init__(self) -> None:
        check_whole(self.resolution, "the resolution of the likelihood ratio", least=1)

    @property
    def name(self) -> str:
        return f"ratio-{self.resolution}"

    @torch.no_grad()
    def features(self, inference: Inference, observation: Observation, seeds: Sequence[int]) -> Tensor:
        """Return the score of each of B observations in nats, [B, 1]. Both bounds use the same random numbers."""
        noise, source = as_noise(seeds), inference.source(observation)
        coarse = _coarse(source, self.resolution, inference.vae.config)
        whole, upper = (log_evidence(inference, observation, one, noise=noise) for one in (source, coarse))
        return (upper - whole)[:, None]


def _coarse(source: Source, resolution: int, config: VDVAEConfig) -> Source:
    """Return a source of latents: `source` up to a resolution, and the prior (so that the KL is 0) at finer ones."""
    finer = [stage.resolution > resolution for stage in config.group_stages]
    if all(finer) or not any(finer):
        known = ", ".join(map(str, sorted({stage.resolution for stage in config.group_stages})))
        raise ValueError(
            f"latents up to {resolution} x {resolution} are {'none' if all(finer) else 'all'} of this model's latents: "
            f"the ratio must infer only some, so give less than the finest of its resolutions, which are {known}"
        )

    def upper(group: int, state: Tensor, prior: Prior) -> Gaussian:
        return prior() if finer[group] else source(group, state, prior)

    return upper
