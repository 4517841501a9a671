"""VQ-VAE completion (Peng et al. 2021): sampled codes of the structure, and a GAN that renders the texture."""

from typing import TYPE_CHECKING

from condvae.runtime.lazy import finder

if TYPE_CHECKING:
    from condvae.completers.vector_quantised.vq_completer import VectorQuantised
    from condvae.completers.vector_quantised.vq_config import VectorQuantisedConfig
    from condvae.completers.vector_quantised.vq_losses import CodesLoss, StructureLoss, TextureLoss, stage_loss

_HOMES = {
    "CodesLoss": "condvae.completers.vector_quantised.vq_losses",
    "StructureLoss": "condvae.completers.vector_quantised.vq_losses",
    "TextureLoss": "condvae.completers.vector_quantised.vq_losses",
    "VectorQuantised": "condvae.completers.vector_quantised.vq_completer",
    "VectorQuantisedConfig": "condvae.completers.vector_quantised.vq_config",
    "stage_loss": "condvae.completers.vector_quantised.vq_losses",
}

__all__ = ["CodesLoss", "StructureLoss", "TextureLoss", "VectorQuantised", "VectorQuantisedConfig", "stage_loss"]

__getattr__ = finder(__name__, _HOMES)
