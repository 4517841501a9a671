"""The networks whose features metrics use, in one object."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from condvae.metrics.lpips import LPIPS


class FeatureNetwork(Protocol):
    """The interface of a network whose features FID can use; `Inception` implements it."""

    @property
    def device(self) -> torch.device: ...

    def features(self, images: Tensor) -> Tensor:
        """Return features, float32 [B, D], of images, uint8 [B, C, H, W]."""

    def state_dict(self) -> Mapping[str, Any]:
        """Return the weights, whose digest identifies the network."""


@dataclass(frozen=True, kw_only=True)
class FeatureNetworks:
    """The networks that the chosen metrics need, on the device that computes them. An unneeded network is None."""

    lpips: LPIPS | None = None
    inception: FeatureNetwork | None = None
