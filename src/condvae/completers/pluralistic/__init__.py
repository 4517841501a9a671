"""Pluralistic Image Completion (Zheng et al. 2019): a conditional VAE with a GAN, as a learned baseline."""

from typing import TYPE_CHECKING

from condvae.runtime.lazy import finder

if TYPE_CHECKING:
    from condvae.completers.pluralistic.pluralistic_loss import PluralisticLoss
    from condvae.completers.pluralistic.pluralistic_network import Pluralistic, PluralisticConfig

_HOMES = {
    "Pluralistic": "condvae.completers.pluralistic.pluralistic_network",
    "PluralisticConfig": "condvae.completers.pluralistic.pluralistic_network",
    "PluralisticLoss": "condvae.completers.pluralistic.pluralistic_loss",
}

__all__ = ["Pluralistic", "PluralisticConfig", "PluralisticLoss"]

__getattr__ = finder(__name__, _HOMES)
