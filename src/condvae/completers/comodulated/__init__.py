"""CoModGAN (Zhao et al. 2021): a StyleGAN2 that is modulated by noise and known pixels, as a learned baseline."""

from typing import TYPE_CHECKING

from condvae.runtime.lazy import finder

if TYPE_CHECKING:
    from condvae.completers.comodulated.comodulated_loss import ComodulatedLoss
    from condvae.completers.comodulated.comodulated_network import Comodulated, ComodulatedConfig

_HOMES = {
    "Comodulated": "condvae.completers.comodulated.comodulated_network",
    "ComodulatedConfig": "condvae.completers.comodulated.comodulated_network",
    "ComodulatedLoss": "condvae.completers.comodulated.comodulated_loss",
}

__all__ = ["Comodulated", "ComodulatedConfig", "ComodulatedLoss"]

__getattr__ = finder(__name__, _HOMES)
