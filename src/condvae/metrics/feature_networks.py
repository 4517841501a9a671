"""The feature networks that metrics need, bundled together."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from condvae.metrics.lpips import LPIPS


class FeatureNetwork(Protocol):
    """The interface that FID needs from a network; `Inception` has it, and others may."""

    @property
    def device(self) -> torch.device: ...

    def features(self, images: Tensor) -> Tensor:
        """Return features, float32 [B, D], of images, uint8 [B, C, H, W]."""

    def state_dict(self) -> Mapping[str, Any]:
        """Return the weights, whose digest identifies the network."""


@dataclass(frozen=True, kw_only=True)
class FeatureNetworks:
    """The networks of the chosen metrics, on the device that computes them; None where no metric needs one."""

    lpips: LPIPS | None = None
    inception: FeatureNetwork | None = None
