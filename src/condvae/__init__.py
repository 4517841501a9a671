"""Conditional image generation by conditioning a pretrained, frozen VAE (IPA)."""

from typing import TYPE_CHECKING

from condvae.lazy import finder

if TYPE_CHECKING:
    from condvae.observe import Observation
    from condvae.partial import ConditionalVAE, PartialConfig
    from condvae.vdvae import VDVAE, VDVAEConfig, preset
    from condvae.weights import import_public, load, save

__version__ = "0.1.0"

_HOMES = {
    "ConditionalVAE": "condvae.partial",
    "Observation": "condvae.observe",
    "PartialConfig": "condvae.partial",
    "VDVAE": "condvae.vdvae",
    "VDVAEConfig": "condvae.vdvae",
    "import_public": "condvae.weights",
    "load": "condvae.weights",
    "preset": "condvae.vdvae",
    "save": "condvae.weights",
}

__all__ = [
    "VDVAE",
    "ConditionalVAE",
    "Observation",
    "PartialConfig",
    "VDVAEConfig",
    "import_public",
    "load",
    "preset",
    "save",
]

__getattr__ = finder(__name__, _HOMES)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
