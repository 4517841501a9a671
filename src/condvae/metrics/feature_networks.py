"""The networks whose features metrics use, in one object."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from condvae.metrics.inception import Inception
from condvae.metrics.lpips import LPIPS
from condvae.metrics.metric_names import FeaturePrecision, Trunk


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

    @classmethod
    def load(
        cls, device: torch.device, *, lpips: Trunk | None = "alex", inception: FeaturePrecision | None = "exact"
    ) -> "FeatureNetworks":
        """Load the released networks to a device. lpips: the network of LPIPS. inception: the precision of Inception.

        A network is left out if None is given for it.
        """
        return cls(
            lpips=None if lpips is None else LPIPS.load(trunk=lpips).to(device),
            inception=None if inception is None else Inception.load(precision=inception).to(device),
        )
