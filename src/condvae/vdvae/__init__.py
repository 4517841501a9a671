"""The artifact: a VD-VAE, which is an unconditional hierarchical VAE (Child 2020), and presets for it."""

from condvae.vdvae.config import Normalisation, Stage, VDVAEConfig
from condvae.vdvae.encoder import Encoder, Posterior, Source
from condvae.vdvae.model import VDVAE, Descent, Step
from condvae.vdvae.presets import PRESETS, PUBLIC_PRESETS, preset

__all__ = [
    "PRESETS",
    "PUBLIC_PRESETS",
    "VDVAE",
    "Descent",
    "Encoder",
    "Normalisation",
    "Posterior",
    "Source",
    "Stage",
    "Step",
    "VDVAEConfig",
    "preset",
]
