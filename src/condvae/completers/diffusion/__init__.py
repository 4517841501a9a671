"""A diffusion model that completes images: a small U-Net, trained to remove the noise of hidden pixels."""

from typing import TYPE_CHECKING

from condvae.runtime.lazy import finder

if TYPE_CHECKING:
    from condvae.completers.diffusion.denoising_loss import DiffusionLoss
    from condvae.completers.diffusion.denoising_network import DiffusionConfig
    from condvae.completers.diffusion.diffusion_completer import Diffusion

_HOMES = {
    "Diffusion": "condvae.completers.diffusion.diffusion_completer",
    "DiffusionConfig": "condvae.completers.diffusion.denoising_network",
    "DiffusionLoss": "condvae.completers.diffusion.denoising_loss",
}

__all__ = ["Diffusion", "DiffusionConfig", "DiffusionLoss"]

__getattr__ = finder(__name__, _HOMES)
