"""Conditional image generation by conditioning a pretrained, frozen VAE (IPA)."""

from typing import TYPE_CHECKING

from condvae.runtime.lazy import finder

if TYPE_CHECKING:
    from condvae.completion import Completion, complete
    from condvae.conditional import ConditionalVAE, PartialConfig
    from condvae.observe import Observation
    from condvae.vdvae import VDVAE, VDVAEConfig, preset
    from condvae.weights import from_pretrained, import_public, load, save, save_pretrained

__version__ = "0.1.0"

_HOMES = {
    "Completion": "condvae.completion",
    "ConditionalVAE": "condvae.conditional",
    "Observation": "condvae.observe",
    "PartialConfig": "condvae.conditional",
    "VDVAE": "condvae.vdvae",
    "VDVAEConfig": "condvae.vdvae",
    "complete": "condvae.completion",
    "from_pretrained": "condvae.weights",
    "import_public": "condvae.weights",
    "load": "condvae.weights",
    "preset": "condvae.vdvae",
    "save": "condvae.weights",
    "save_pretrained": "condvae.weights",
}

__all__ = [
    "VDVAE",
    "Completion",
    "ConditionalVAE",
    "Observation",
    "PartialConfig",
    "VDVAEConfig",
    "complete",
    "from_pretrained",
    "import_public",
    "load",
    "preset",
    "save",
    "save_pretrained",
]

__getattr__ = finder(__name__, _HOMES)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
