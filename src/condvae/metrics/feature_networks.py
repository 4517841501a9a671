"""The networks that metrics look through, together."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from condvae.metrics.lpips import LPIPS


class FeatureNetwork(Protocol):
    """What FID needs of a network: `Inception`, or another one."""

    @property
    def device(self) -> torch.device: ...

    def features(self, images: Tensor) -> Tensor:
        """[B, D] float32 for images [B, C, H, W] uint8."""

    def state_dict(self) -> Mapping[str, Any]:
        """Its weights, by which it is known."""


@dataclass(frozen=True, kw_only=True)
class FeatureNetworks:
    """Those that the chosen metrics need, on the device where all is computed; None where none asks for it."""

    lpips: LPIPS | None = None
    inception: FeatureNetwork | None = None
