"""The artifact: a VD-VAE, which is an unconditional hierarchical VAE (Child 2020), and presets for it."""

from typing import TYPE_CHECKING

from condvae.runtime.lazy import finder

if TYPE_CHECKING:
    from condvae.vdvae.config import Normalisation, Stage, VDVAEConfig
    from condvae.vdvae.encoder import Encoder, Posterior, Source
    from condvae.vdvae.model import VDVAE, Descent, Step
    from condvae.vdvae.presets import PRESETS, PUBLIC_PRESETS, preset

_HOMES = {
    "Descent": "condvae.vdvae.model",
    "Encoder": "condvae.vdvae.encoder",
    "Normalisation": "condvae.vdvae.config",
    "PRESETS": "condvae.vdvae.presets",
    "PUBLIC_PRESETS": "condvae.vdvae.presets",
    "Posterior": "condvae.vdvae.encoder",
    "Source": "condvae.vdvae.encoder",
    "Stage": "condvae.vdvae.config",
    "Step": "condvae.vdvae.model",
    "VDVAE": "condvae.vdvae.model",
    "VDVAEConfig": "condvae.vdvae.config",
    "preset": "condvae.vdvae.presets",
}

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

__getattr__ = finder(__name__, _HOMES)
